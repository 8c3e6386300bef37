"""RsmqApp: start, polls, command palette, end, and the output guard.

The output guard is the last filter before the terminal. Every screen makes the data that it shows printable; the guard
is for the place that forgets to. Textual sends the characters of a text as they are, escape sequences too, and a style
with a link as an OSC 8 hyperlink.
"""

import asyncio
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, cast

from rich.cells import cell_len, get_character_cell_size, set_cell_size
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events, work
from textual.app import App
from textual.binding import BindingType
from textual.color import Color
from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content
from textual.filter import LineFilter
from textual.fuzzy import Matcher
from textual.notifications import SeverityLevel
from textual.screen import ModalScreen, Screen

from rsmq_tui.monitor import Source
from rsmq_tui.monitor.fleet import Fleet
from rsmq_tui.monitor.text import printable
from rsmq_tui.tui.changes.controller import Changes
from rsmq_tui.tui.keys import NO_CHANGES, Key, Where, bindings_of, keys_of
from rsmq_tui.tui.overview import OverviewScreen
from rsmq_tui.tui.replay.host import ReplayHost
from rsmq_tui.tui.screen import NO_SERVER, OF_LISTS, DashboardScreen
from rsmq_tui.tui.servers import Dashboard, Recording, WatchedServer
from rsmq_tui.tui.theme import TOKENS, first_theme, load_themes
from rsmq_tui.tui.widgets.painted import TOKEN_CLASSES, Painted

if TYPE_CHECKING:
    from rsmq_tui.monitor.audit.findings import Finding
    from rsmq_tui.triage.scope import Scope
    from rsmq_tui.triage.service import ChangeService
    from rsmq_tui.tui.history.loading import Past
    from rsmq_tui.tui.replay.session import Replaying


def end_on_signals(end: Callable[[int], None]) -> None:
    """Give the terminal back before the program ends because it was told to, or because the terminal is gone.

    ``end`` is given the exit status.
    """
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        # Also where nohup ignores it: without its terminal a dashboard shows nothing, and its input ends over and over.
        if number is not None:
            with suppress(NotImplementedError, RuntimeError, ValueError):
                asyncio.get_running_loop().add_signal_handler(number, end, 128 + number)


_QUEUE_HITS_MAX = 50


class DashboardCommands(Provider):
    """What can be done on the screen in front, and where one can go."""

    async def discover(self) -> Hits:
        """List the actions."""
        for key in self._keys():
            yield DiscoveryHit(key.help, self._runner(key), text=key.help, help=f"key {key.shown}")
        for title, sentence, show in self._pages():
            yield DiscoveryHit(title, show, text=title, help=sentence)

    async def search(self, query: str) -> Hits:
        """Find actions, pages and queues."""
        matcher = self.matcher(query)
        for key in self._keys():
            if (score := matcher.match(key.help)) > 0:
                yield Hit(score, matcher.highlight(key.help), self._runner(key), text=key.help, help=f"key {key.shown}")
        for title, sentence, show in self._pages():
            if (score := matcher.match(title)) > 0:
                yield Hit(score, matcher.highlight(title), show, text=title, help=sentence)
        app = cast("Dashboard", self.app)
        snapshot = app.snapshot
        found = 0
        for queue in snapshot.queues if snapshot else ():
            where = f" on {printable(queue.place, 40)}" if queue.place else ""
            title = f"queue {printable(queue.name, 80)}{where}"
            if (score := matcher.match(title)) > 0:
                yield Hit(
                    score, _highlighted(matcher, title), partial(app.open_queue, queue.name, queue.place), text=title
                )
                found += 1
                if found == _QUEUE_HITS_MAX:
                    return

    def _keys(self) -> Iterator[Key]:
        where = getattr(self.screen, "WHERE", ())
        is_replay = cast("Dashboard", self.app).replay is not None
        places: tuple[Where, ...] = ("replay", *where, "app") if is_replay else (*where, "app")
        keys = keys_of(*places, usable=getattr(self.screen, "usable", NO_CHANGES))
        return (key for key in keys if key.where not in ("table", "lines") and key.id != "app.palette")

    def _pages(self) -> Iterator[tuple[str, str, Callable[[], None]]]:
        """Walk through the pages for users: the title of the command, what the page is for, and what shows it."""
        from rsmq_tui.docs import topics  # noqa: PLC0415 - not before the first paint

        show = cast("Dashboard", self.app).open_page
        return ((f"Help: {topic}", sentence, partial(show, topic)) for topic, sentence in topics().items())

    def _runner(self, key: Key) -> Callable[[], Any]:
        owner = self.app if key.where in ("app", "replay") else self.screen
        return partial(owner.run_action, key.action)


def _highlighted(matcher: Matcher, title: str) -> Content:
    """Return the title with what was matched; Textual's own ``highlight`` would take a queue's name for markup."""
    content = Content(title)
    _, offsets = matcher.fuzzy_search.match(matcher.query, title)
    for offset in offsets:
        if not title[offset].isspace():
            content = content.stylize(matcher.match_style, offset, offset + 1)
    return content


_SIGNS = {
    "·": ".",
    "…": "~",
    "–": "-",
    "—": "-",
    "“": '"',
    "”": '"',
    "‘": "'",
    "’": "'",
    "←": "<",
    "→": ">",
    "↑": "^",
    "↓": "v",
    "❯": ">",
    "✔": "v",
    "🔎": "/",
}
_BOX = {"─": "-", "━": "-", "═": "-", "│": "|", "┃": "|", "║": "|"}


class AsciiFilter(LineFilter):
    """Replaces each character by an ASCII one, or by ? where there is none, without moving anything."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Replace what is not ASCII."""
        return [
            segment if segment.text.isascii() else Segment(in_ascii(segment.text), segment.style, segment.control)
            for segment in segments
        ]


@lru_cache(1024)
def in_ascii(text: str) -> str:
    """Return ASCII text of the same width."""
    return set_cell_size("".join(map(_in_ascii, text)), cell_len(text))


def _in_ascii(character: str) -> str:
    code = ord(character)
    if code < 0x80:
        return character
    if character in _SIGNS:
        return _SIGNS[character]
    if 0x2500 <= code < 0x2580:
        return _BOX.get(character, "+")
    if 0x2580 <= code < 0x25A0:
        # Scrollbars and the edges of panels.
        return "#" if character == "█" else "=" if "▁" <= character < "█" or character == "▔" else "|"
    return "?" * cell_len(character)


class OutputGuard(LineFilter):
    """Replaces what is not printable by blanks of the same width, and takes links out of styles."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the segments, changed only where one would do something to the terminal."""
        if all(segment.text.isprintable() and not (segment.style and segment.style.link) for segment in segments):
            return segments
        return [
            Segment(
                segment.text if segment.text.isprintable() else _blanked(segment.text),
                segment.style and _without_link(segment.style),
                segment.control,
            )
            for segment in segments
        ]


@lru_cache(1024)
def _blanked(text: str) -> str:
    return "".join(
        character if character.isprintable() else " " * get_character_cell_size(character) for character in text
    )


@lru_cache(1024)
def _without_link(style: Style) -> Style:
    return style.update_link(None) if style.link else style


_GUARD, _ASCII = OutputGuard(), AsciiFilter()


class RsmqApp(ReplayHost):
    """Shows the snapshots of one source, or of several sites side by side, until the user quits.

    ``clock`` is the monotonic clock in seconds that sources tell their freshness in; ``ascii_only`` draws with ASCII
    characters alone. State flows one way: source, ``snapshot``, screens, widgets. Changes go through ``triage``, which
    may also be what makes it when it is first needed; without it, or where that is ``read_only``, nothing is changed.
    ``recording`` is given each snapshot; ``past`` names an analysis to look into, which without a site is all there is.
    ``replay`` is one to show, whose sites these are: it is played, and not polled.
    """

    TITLE = "rsmq-tui"
    CSS_PATH = "app.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings_of("app"), *bindings_of("change"), *bindings_of("replay")]
    COMPONENT_CLASSES = TOKEN_CLASSES
    COMMANDS = App.COMMANDS | {DashboardCommands}
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]  # noqa: RUF012 - Textual's own way to declare them
    VERTICAL_BREAKPOINTS = [(0, "-tiny"), (16, "-short"), (20, "-tall")]  # noqa: RUF012 - Textual's own way to declare them

    def __init__(
        self,
        source: Source | Sequence[WatchedServer],
        *,
        triage: "ChangeService | Callable[[], ChangeService] | None" = None,
        recording: Recording | None = None,
        past: "Past | None" = None,
        replay: "Replaying | None" = None,
        read_only: bool = False,
        clock: Callable[[], float] = time.monotonic,
        ascii_only: bool = False,
        theme: str | None = None,
    ) -> None:
        given = source if isinstance(source, Sequence) else (WatchedServer(source, triage=triage, read_only=read_only),)
        super().__init__(tuple(given), replay, past)
        self.recording = recording
        self.clock = clock
        self.ascii_only = ascii_only
        self._together = Fleet(tuple(self.sites_by_place))
        self._changes = Changes(self)
        self._is_quitting = False
        self._wanted_theme = theme
        self._themes = load_themes()
        for known in self._themes.themes.values():
            self.register_theme(known)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Give the styles' own tokens a colour where a theme says nothing."""
        return TOKENS

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Let nothing that is painted command the terminal, and put it into ASCII where nothing else may be drawn."""
        filters = [_GUARD, *super().get_line_filters()]
        return [*filters, _ASCII] if self.ascii_only else filters

    def get_default_screen(self) -> Screen[None]:
        """Start on the overview, or in the past where nothing else is watched."""
        if not self.sites and self.past is not None:
            from rsmq_tui.tui.history.screen import HistoryScreen  # noqa: PLC0415

            return HistoryScreen(self.past)
        return OverviewScreen(self.sites)

    async def on_event(self, event: events.Event) -> None:
        """Pass events on; what is pasted is made harmless first, because Textual's inputs paint it as it comes."""
        if isinstance(event, events.Paste) and not event.is_forwarded:
            event = events.Paste("\n".join(map(printable, event.text.splitlines())))
        await super().on_event(event)

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = True,
    ) -> None:
        """Show a toast, unless the same one is still there: a key that is pressed often must not cover the screen."""
        if any(toast.message == message and toast.title == title for toast in self._notifications):
            return
        super().notify(message, title=title, severity=severity, timeout=timeout, markup=markup)

    def on_mount(self) -> None:
        """Choose a theme and begin to poll."""
        self.theme = first_theme(self, self._wanted_theme, self._themes.themes)
        if self._themes.problems:
            words = "\n".join(self._themes.problems)
            self.notify(words, title="Some themes could not be read", severity="warning", markup=False, timeout=10)
        if self.replay is not None:
            self.follow_replay(self.replay)
        else:
            for site in self.sites:
                self._poll(site, is_alone=len(self.sites) == 1)
        if not self.is_headless:
            end_on_signals(self._quit)

    async def on_unmount(self) -> None:
        """Let go of the server."""
        await self._changes.aclose()
        # One that cannot be closed must not keep the others open.
        await asyncio.gather(*(site.aclose() for site in self.all_sites), return_exceptions=True)

    def watch_theme(self, theme: str) -> None:
        """Draw everything in the new colours."""
        # Behind what Textual does itself: until then the tokens have their old colours.
        self.call_next(self._repaint)

    def _repaint(self) -> None:
        for screen in self.screen_stack:
            for widget in screen.query(Painted):
                widget.notify_style_update()
                widget.repaint_all()

    @property
    def can_change(self) -> bool:
        """True where queues of any server may be changed."""
        return any(site.can_change for site in self.sites)

    def site(self, place: str) -> WatchedServer:
        """Return the server of that place; raises ``LookupError``."""
        return self.sites_by_place[place]

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave escape to the screens and dialogs unless a change runs behind no dialog."""
        if action == "cancel_change":
            return self._changes.is_running and not isinstance(self.screen, ModalScreen)
        if (fits := self.may_replay(action)) is not None:
            return fits
        return super().check_action(action, parameters)

    def ask_change(
        self,
        name: str,
        queue: str,
        scope: "Scope | None" = None,
        *,
        body: bytes | None = None,
        about: str = "",
        place: str = "",
    ) -> bool:
        """Ask for the change of that name, show what it would do, and make it when the answer is yes."""
        return self._changes.ask(self.site(place), name, queue, scope, body, about)

    def undo(self, queue: str | None, place: str = "") -> None:
        """Show what taking back the last change (of that queue) would do, and do it when the answer is yes."""
        self._changes.undo(self.site(place), queue)

    def retry_skipped(self) -> None:
        """Show what the last change would do to messages that it skipped because they were received meanwhile."""
        self._changes.retry_skipped()

    def export(self, queue: str, scope: "Scope | None", place: str = "") -> None:
        """Ask for a file and write messages to it."""
        self._changes.export(self.site(place), queue, scope)

    def fix(self, queue: str, findings: "tuple[Finding, ...]", ns: str | None, place: str = "") -> None:
        """Show what mending these findings of a queue of ``ns`` would do, and do it when the answer is yes."""
        self._changes.fix(self.site(place), queue, findings, ns)

    def action_leave(self) -> None:
        """Leave the screen; leave the program from the first one."""
        if len(self.screen_stack) > self.floor:
            self.pop_screen()
        elif not self.leave_replay():
            self._quit()

    async def action_quit(self) -> None:
        """Quit; a change that runs ends first, after the part of it that is under way."""
        self._quit()

    def action_cancel_change(self) -> None:
        """Cancel the running change."""
        self._changes.cancel()

    def action_help(self) -> None:
        """Show the keys of this screen."""
        from rsmq_tui.tui.dialogs.help import HelpScreen  # noqa: PLC0415

        where = getattr(self.screen, "WHERE", ())
        self.push_screen(HelpScreen(where, getattr(self.screen, "usable", NO_CHANGES)))

    def action_history(self) -> None:
        """Look into the past of the screen's queue, or of all."""
        self.open_history(self.screen.chosen_queue if isinstance(self.screen, DashboardScreen) else None)

    def action_namespaces(self) -> None:
        """Look for namespaces."""
        from rsmq_tui.tui.dialogs.help import NamespaceScreen  # noqa: PLC0415

        place = self.screen.chosen_place if isinstance(self.screen, DashboardScreen) else None
        if place is None:
            self.notify(NO_SERVER, severity="warning", markup=False)
            return
        site = self.site(place)
        if site.is_of_lists:
            # Lists are in no namespace: meant are those of the same server.
            beside = [other for other in self.sites if other.name == site.name and not other.is_of_lists]
            if len(beside) != 1:
                self.notify(OF_LISTS, severity="warning", markup=False)
                return
            (site,) = beside
        self.push_screen(NamespaceScreen(site.source), partial(self._switch, site))

    def action_pause(self) -> None:
        """Pause or resume polling."""
        if self.snapshot is not None:
            paused = not self.snapshot.paused
            for site in self.sites:
                site.source.set_paused(paused)

    def action_refresh_now(self) -> None:
        """Poll now, and let the tables sort or search again."""
        if isinstance(self.screen, DashboardScreen):
            self.screen.rest()
        for site in self.sites:
            site.source.wake()

    def action_time(self) -> None:
        """Show times as ages or as clock times."""
        self.clock_times = not self.clock_times

    def action_next_theme(self) -> None:
        """Take the next of our themes."""
        names = list(self._themes.themes)
        if names:
            self.theme = names[(names.index(self.theme) + 1) % len(names) if self.theme in names else 0]

    def _switch(self, site: WatchedServer, ns: str | None) -> None:
        if ns is not None:
            site.switch(ns)

    def _quit(self, return_code: int = 0) -> None:
        if self._is_quitting or not self._changes.is_running:
            self.exit(None, return_code)
            return
        self._is_quitting = True
        self.run_worker(self._quit_after_change(return_code), group="quit")

    async def _quit_after_change(self, return_code: int) -> None:
        # What takes too long is left to the next start, which finds out what became of it.
        with suppress(TimeoutError):
            await self._changes.stop()
        self.exit(None, return_code)

    def _fatal_error(self) -> None:
        """Show where the program failed; Textual would add the values of variables, and one may be a password."""
        lines = traceback.format_exc().splitlines()
        self.panic(Text("\n".join(map(printable, lines))))

    @work(group="poll")
    async def _poll(self, site: WatchedServer, *, is_alone: bool) -> None:
        async for snapshot in site.source.snapshots():
            if self.recording is not None:
                self.recording.take(snapshot, site.name, site.source.thresholds)
            self.show_live(snapshot if is_alone else self._together.take(snapshot))
            self._changes.follow(site, snapshot)
