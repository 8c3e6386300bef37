"""Searching the messages of one queue: what each tab found, how far it has come, and which marks it costs."""

from contextlib import aclosing
from typing import cast

from textual import work
from textual.containers import Vertical

from rsmq_tui.monitor import Filter, PeekError, Snapshot, parse_filter
from rsmq_tui.tui.host import Dashboard
from rsmq_tui.tui.marks import Marks
from rsmq_tui.tui.message_tabs import Tab, wanted_in
from rsmq_tui.tui.searching import Hits, Searches, Stage

# While a search runs, the screen follows it so often.
_FOLLOW_S = 0.1
# Each of those that are missed is looked for in a round trip of its own.
MISSING_MAX = 20


class SearchedMessages(Vertical):
    """What can be searched: a tab of a queue, behind a filter, with marks.

    A search costs much, and is made again only by ``search_again``, or where it failed by the next poll that succeeds.
    Each tab keeps what was found for it until the filter changes.
    """

    def __init__(self, queue: str, place: str, tab: Tab) -> None:
        super().__init__()
        self.marks = Marks()
        self.typed = parse_filter("")
        self._queue = queue
        self._place = place
        self._tab = tab
        self._searches = Searches()
        self._snapshot: Snapshot | None = None
        self._searched_for_ms: int | None = None

    def on_mount(self) -> None:
        """Be ready to follow a search."""
        self._ticking = self.set_interval(_FOLLOW_S, self._follow, pause=True)

    @property
    def wanted(self) -> Filter:
        """The filter for what this tab shows."""
        return wanted_in(self._tab, self.typed)

    def show(self) -> None:
        """Show what there is."""
        raise NotImplementedError

    def search_again(self) -> None:
        """Search anew where a search was made; until it has ended, what was found before is shown."""
        if self._is_search:
            self._search()

    def end_search(self) -> bool:
        """Stop searching, keep what was found, and tell whether that stopped a search.

        One that has not yet got over a failure looks failed, and stays so.
        """
        hits = self._found
        if hits is None or not hits.is_running:
            return False
        self.workers.cancel_group(self, "search")
        hits.end(Stage.STOPPED)
        self.show()
        return hits.stage is Stage.STOPPED

    @property
    def _dashboard(self) -> Dashboard:
        return cast("Dashboard", self.app)

    @property
    def _is_search(self) -> bool:
        return self._tab.part is None or not self.typed.is_empty

    @property
    def _found(self) -> Hits | None:
        return self._searches.found(self._tab.name) if self._is_search else None

    def _search_after_failure(self, snapshot: Snapshot) -> None:
        """Search again what could not be searched, once a poll since then has got an answer."""
        hits = self._found
        if hits is None or hits.stage is not Stage.FAILED or snapshot.link.failure is not None:
            return
        if snapshot.at_ms != self._searched_for_ms:
            self._search()

    def _search(self) -> None:
        self._note_search()
        self._ticking.resume()
        self._find(self._searches.begin(self._tab.name, self.wanted))
        self.show()

    @work(group="search", exclusive=True)
    async def _find(self, hits: Hits) -> None:
        before = hits.before
        try:
            async with aclosing(self._dashboard.site(self._place).source.search(self._queue, hits.wanted)) as found:
                async for progress in found:
                    if not hits.is_running:
                        return
                    hits.add(progress)
        except PeekError as error:
            hits.end(Stage.FAILED, str(error))
            self._note_search()
        hits.end(Stage.DONE)
        if hits.stage is Stage.DONE:
            self._take_found(hits, before)
        self.show()

    def _note_search(self) -> None:
        """Remember the poll that a search was last begun or failed at."""
        self._searched_for_ms = self._snapshot.at_ms if self._snapshot else None

    def _take_found(self, hits: Hits, before: Hits | None) -> None:
        hits.arrange()
        if self.typed.is_empty:
            self._searches.count(self._tab.name, hits.matched)
        if before is not None:
            self.marks.follow(before.rows, hits.rows)
        if before is not None and hits.matched == len(hits.rows):
            gone = self.marks.ids & set(before.keys) - set(hits.keys)
            self._look_for([*gone][:MISSING_MAX])

    def _follow(self) -> None:
        self.show()
        hits = self._found
        if hits is None or not hits.is_running:
            self._ticking.pause()

    @work(group="missing", exclusive=True)
    async def _look_for(self, ids: list[str]) -> None:
        """Let those lose their marks that have left the queue; others have only moved in it."""
        for id in ids:
            try:
                view = await self._dashboard.site(self._place).source.read(self._queue, id)
            except PeekError:
                return
            if view.row is None:
                self.marks.lose(id)
            else:
                self.marks.keep(id)
        self.show()
