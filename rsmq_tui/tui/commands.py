"""The command palette: every key's action by name, the pages for users, and every queue."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content
from textual.fuzzy import Matcher

from rsmq_tui.monitor.wording import printable
from rsmq_tui.tui.host import Dashboard
from rsmq_tui.tui.key import NO_CHANGES, Key, Where
from rsmq_tui.tui.keymap import keys_of

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
