"""The command palette: every action of the screen, every queue, page and saved filter, one line each."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import nsmallest
from inspect import isawaitable
from typing import Any, ClassVar

from textual import on
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import Screen
from textual.theme import BUILTIN_THEMES
from textual.widgets import Input

from rsmq_tui.docs import topics
from rsmq_tui.monitor.text import printable
from rsmq_tui.tui.dashboard import Dashboard, dashboard_of
from rsmq_tui.tui.keys import NO_CHANGES, Usable, Where, bindings_of, keymap_of
from rsmq_tui.tui.preferences import COMMANDS
from rsmq_tui.tui.screen import DashboardScreen
from rsmq_tui.tui.widgets.controls import Dialog
from rsmq_tui.tui.widgets.row_table import Column, RowTable

_SHOWN_MAX = 100
# The number of used commands that are remembered.
_USED_MAX = 50
_QUERY_MAX = 200


# Other words for a command, by the id of its key without the group. They are searched, but not shown.
_SYNONYMS = {
    "known": "mute acknowledge ack silence snooze suppress alert maintenance ignore expected",
    "favourite": "favorite pin star bookmark top",
    "window": "chart window zoom out range span interval",
    "window_back": "chart window zoom in range span interval",
    "time": "timezone time zone utc local clock age format",
    "pane": "panel preview split side detail",
    "theme": "colour color dark light scheme",
    "pause": "stop freeze resume refresh",
    "refresh": "reload update",
    "server": "info memory clients replica replication latency status",
    "history": "report analysis incidents heat map trend",
    "namespace": "prefix database switch",
    "help": "keys shortcuts cheat sheet",
    "quit": "exit close",
    "undo": "revert restore back take back rollback",
    "redo": "repeat again reapply",
    "journal": "undo redo revert restore changes audit trail log",
    "events": "log alerts activity what happened",
    "search": "find grep query global",
    "filter": "find grep search query",
    "saved": "filter bookmark query",
    "sort": "order by",
    "reverse": "sort order descending ascending",
    "columns": "fields hide show order width layout",
    "group": "prefix fold tree folder count by field aggregate",
    "separators": "group prefix delimiter",
    "unfold": "expand open group",
    "fold": "collapse close group",
    "fold_object": "collapse close group json",
    "fold_all": "collapse expand json",
    "clients": "consumers workers who connections monitor",
    "blocked": "consumers waiting blpop brpop",
    "copy_body": "clipboard yank",
    "copy_id": "clipboard yank",
    "copy_to": "duplicate clone",
    "export": "download save dump backup jsonl copy command",
    "import": "upload restore load jsonl",
    "send": "new message push enqueue publish add",
    "edit": "modify change resend body",
    "edit_outside": "modify change resend body vim nano",
    "delete": "remove drop",
    "purge": "clear empty flush truncate delete all",
    "create": "new queue add",
    "set": "attributes settings visibility timeout maximum size configure",
    "redrive": "dlq dead letter retry replay requeue",
    "requeue": "retry return lease",
    "requeue_all": "retry return lease",
    "release": "visible retry unhide now",
    "hide": "delay postpone visibility timeout defer",
    "extend": "lease visibility timeout life lifetime renew",
    "ack": "done finish complete remove",
    "move": "transfer",
    "pop": "take receive dequeue",
    "trim": "shorten limit",
    "retry": "again skipped",
    "mark": "select tick",
    "mark_time": "select tick",
    "mark_all": "select all",
    "mark_page": "select page",
    "range": "select span",
    "time_range": "select span",
    "go_to": "jump position number id time",
    "audit": "check consistency orphan repair fix integrity",
    "fix": "repair",
    "decoded": "decode gzip base64 messagepack raw",
    "save": "download write file",
    "pager": "less view",
    "open_copy": "editor vim view",
    "find": "search grep",
}


@dataclass(frozen=True, slots=True)
class PaletteEntry:
    """One line: ``id`` identifies it among the used ones, ``key`` is shown beside it.

    ``more`` and ``synonyms`` are searched as well as the name.
    """

    id: str
    name: str
    key: str
    run: Callable[[], Awaitable[object] | object]
    more: str = ""
    synonyms: str = ""


def keys_on(screen: Screen[Any]) -> tuple[tuple[Where, ...], Usable]:
    """Return the key groups of a screen, those of a replay first, and which keys are available there."""
    is_replay = dashboard_of(screen.app).replay is not None
    where = screen.WHERE if isinstance(screen, DashboardScreen) else ()
    usable = screen.usable if isinstance(screen, DashboardScreen) else NO_CHANGES
    return ("replay", *where) if is_replay else where, usable


def commands_of(screen: Screen[Any]) -> list[PaletteEntry]:
    """Return what can be done on a screen: its keys, those of the app, saved filters, pages and themes."""
    return [*_of_keys(screen), *_of_filters(screen), *_of_pages(dashboard_of(screen.app)), *_of_app(screen.app)]


def _of_keys(screen: Screen[Any]) -> Iterator[PaletteEntry]:
    where, usable = keys_on(screen)
    for key in keymap_of(screen.app).of(*where, "app", usable=usable):
        if key.where not in ("table", "lines") and key.id != "app.palette":
            owner = screen.app if key.where in ("app", "replay") else screen
            synonyms = _SYNONYMS.get(key.name, "")
            run = partial(owner.run_action, key.action)
            yield PaletteEntry(key.id, key.help, key.shown, run, synonyms=synonyms)


def _of_filters(screen: Screen[Any]) -> Iterator[PaletteEntry]:
    if isinstance(screen, DashboardScreen):
        for name, text in screen.saved_filters.items():
            show = partial(screen.apply_filter, text)
            yield PaletteEntry(f"filter.{name}", f"Filter: {printable(name, 60)}", printable(text, 30), show)


def _of_pages(dashboard: Dashboard) -> Iterator[PaletteEntry]:
    for topic, sentence in topics().items():
        show = partial(dashboard.navigation.open, "page", topic)
        yield PaletteEntry(f"page.{topic}", f"Help: {topic}", "page", show, sentence)


def _of_app(app: App[Any]) -> Iterator[PaletteEntry]:
    if not app.is_web:
        yield PaletteEntry(
            "screenshot", "Save a picture of the screen as SVG", "", app.deliver_screenshot, "screenshot"
        )
    for name in sorted(name for name, theme in app.available_themes.items() if theme is not BUILTIN_THEMES.get(name)):
        yield PaletteEntry(
            f"theme.{name}", f"Theme: {name}", "theme", partial(app.run_action, f"choose_theme({name!r})")
        )


def _of_queues(dashboard: Dashboard) -> list[PaletteEntry]:
    show = dashboard.navigation.open_queue
    return [
        PaletteEntry(
            f"queue.{each.key}", each.name, each.place or "queue", partial(show, each.name, each.place), "queue on"
        )
        for each in (dashboard.snapshot.queues if dashboard.snapshot else ())
    ]


def rank(words: str, name: str, more: str) -> int | None:
    """Return how well the words match, 0 for best; None if they do not. All texts are in lower case.

    The best match is the whole name, then the beginning of it, then that of a word in it; then each word in the name or
    in ``more``; then the letters in the name, in their order.
    """
    at = name.find(words)
    if at == 0:
        return 0 if len(name) == len(words) else 1
    if at > 0:
        return 2 if not name[at - 1].isalnum() else 3
    parts = words.split()
    if all(part in name or part in more for part in parts):
        return 4
    letters = iter(name)
    return 5 if all(letter in letters for letter in "".join(parts)) else None


def found(commands: Iterable[PaletteEntry], typed: str, used: Sequence[str]) -> list[PaletteEntry]:
    """Return the commands that match the typed text, the best first, then those used last."""
    recency = {id: index for index, id in enumerate(used)}
    words = " ".join(typed[:_QUERY_MAX].lower().split())
    ranked = []
    for order, command in enumerate(commands):
        how: int | None = 0
        if words and f" {words} " in f" {command.synonyms} ":
            # A name that begins with it comes before.
            how = 2
        elif words:
            how = rank(words, command.name.lower(), f"{command.more} {command.key} {command.synonyms}".lower())
        if how is not None:
            ranked.append((how, recency.get(command.id, len(recency)), order, command))
    return [command for *_, command in nsmallest(_SHOWN_MAX, ranked, key=lambda each: each[:3])]


_COLUMNS: tuple[Column[PaletteEntry, None], ...] = (
    Column("name", "COMMAND", 20, lambda command, _: (command.name, "strong"), width_max=200),
    Column("key", "KEY", 16, lambda command, _: (command.key, "muted"), drop=1, right=True),
)


class PaletteScreen(Dialog[PaletteEntry]):
    """Returns the command that was chosen, or None; ``screen`` is the one that the commands are for."""

    DEFAULT_CSS = """
    PaletteScreen Vertical {
        width: 90; max-width: 95%; height: 70%; margin-top: 2;
        background: $panel; border: round $primary;
    }
    PaletteScreen.-tiny Vertical { height: 100%; margin-top: 0; }
    PaletteScreen Input, PaletteScreen Input:focus { border: none; padding: 0 1; background: $surface; }
    """
    AUTO_FOCUS = "Input"
    BINDINGS: ClassVar[list[BindingType]] = bindings_of("palette")

    def __init__(self, screen: Screen[Any]) -> None:
        super().__init__()
        self._commands = commands_of(screen)
        self._queues: list[PaletteEntry] | None = None
        self._table: RowTable[PaletteEntry, None] = RowTable(_COLUMNS, None, on_open=self._run)

    def compose(self) -> ComposeResult:
        """The input, and the commands below it."""
        with Vertical():
            yield Input(placeholder="a command, or the name of a queue", compact=True)
            yield self._table

    def on_mount(self) -> None:
        """Show the commands that were used last, then all of the screen."""
        self.query_one(Vertical).border_title = "Commands"
        self._table.empty_text = [("  Nothing matches.", "muted")]
        self._show("")

    @on(Input.Changed)
    def _find(self, event: Input.Changed) -> None:
        self._show(event.value)

    @on(Input.Submitted)
    def _choose(self) -> None:
        self._table.action_open()

    def _run(self, command: PaletteEntry) -> None:
        self.dismiss(command)

    def action_cursor(self, step: int) -> None:
        """Move the cursor by rows."""
        self._table.action_cursor(step)

    def action_page(self, step: int) -> None:
        """Move the cursor by screens."""
        self._table.action_page(step)

    def _show(self, typed: str) -> None:
        dashboard = dashboard_of(self.app)
        used = dashboard.preferences.get(COMMANDS)
        if self._queues is None:
            self._queues = _of_queues(dashboard)
        # Before anything is typed, only queues that were used are listed, not thousands of them.
        ids = frozenset(used)
        queues = self._queues if typed.strip() else [queue for queue in self._queues if queue.id in ids]
        rows = found([*self._commands, *queues], typed, used)
        self._table.show(rows, [command.id for command in rows], None)
        self._table.action_top()


async def run_command(dashboard: Dashboard, command: PaletteEntry | None) -> None:
    """Run the command that was chosen in the palette, and remember its use."""
    if command is not None:
        dashboard.preferences.edit(
            COMMANDS, lambda used: [command.id, *(id for id in used if id != command.id)][:_USED_MAX]
        )
        done = command.run()
        if isawaitable(done):
            await done
