"""Preview, plan and export for list queues."""

from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from operator import attrgetter

from rsmq_tui.monitor.filters.json_paths import JsonPath
from rsmq_tui.monitor.filters.language import Filter
from rsmq_tui.monitor.filters.search import Progress
from rsmq_tui.monitor.list_poller import search_lists
from rsmq_tui.protocol import Address, RawMessage
from rsmq_tui.protocol.editing import EditExecutor
from rsmq_tui.protocol.lists.editor import ListEditor
from rsmq_tui.protocol.lists.naming import Area as Letter
from rsmq_tui.protocol.lists.naming import ListNames, digest_of, item_digest, position_of
from rsmq_tui.protocol.lists.reader import ListReader
from rsmq_tui.protocol.rsmq.operations import chunked
from rsmq_tui.triage.change import Step
from rsmq_tui.triage.export import Exporting
from rsmq_tui.triage.journal import Journal
from rsmq_tui.triage.lists.plan import prepare_lists
from rsmq_tui.triage.lists.preview import preview_of_lists
from rsmq_tui.triage.lists.select import (
    EVERYWHERE,
    Area,
    ListSelection,
    Look,
    Search,
    Span,
    select,
    sightings,
    spans_of,
)
from rsmq_tui.triage.scope import Preview, Scope, Seeing, SeeingCallback
from rsmq_tui.triage.service import Backend

_AREAS: tuple[Letter, ...] = ("q", "p")
# How many items and bytes of bodies may be in memory at once.
_PART_ITEMS, _PART_BYTES = 2_000, 4_000_000
_SLACK_ITEMS = 1_000


class ListExport(Exporting):
    """Exports the items of a scope of a list queue, in the order in which they are taken.

    Raises what the editor, the search and ``write`` raise.
    """

    def __init__(
        self,
        editor: ListEditor,
        search: Search,
        queue: str,
        scope: Scope | None,
        write: Callable[[str], object],
    ) -> None:
        super().__init__(write)
        self._editor, self._search, self._queue, self._scope = editor, search, queue, scope
        # How far pushes have shifted items since their places were read.
        self._drift = 0

    async def __aiter__(self) -> AsyncGenerator[Seeing, None]:
        selection = ListSelection()
        try:
            found = await select(
                self._editor, self._search, self._queue, self._scope, Area(), selection, lambda _: None
            )
            self.gone, self.unsearched = found.elsewhere, found.unsearched
            self.is_incomplete = found.is_incomplete
            depth = selection.count + self.gone
            for area in _AREAS:
                for part in chunked(selection.items(area), _PART_ITEMS, attrgetter("size"), _PART_BYTES):
                    for item in await self._with_bodies(part, area, selection.ready):
                        self._take(item._replace(rc=None, fr=None), selection.at_ms)
                    yield Seeing(self.written, depth, self.written)
            yield Seeing(depth, depth, self.written)
        finally:
            selection.close()

    async def _with_bodies(self, part: list[RawMessage], area: Letter, ready: int) -> list[RawMessage]:
        """Return the items with their bodies, which are read if necessary; missing items are counted as gone."""
        unread = [item for item in part if item.body is None]
        if not unread:
            return part
        wanted = Counter(digest_of(item.id) for item in unread)
        read: dict[bytes, bytes] = {}
        there: Counter[bytes] = Counter()
        known = spans_of((position_of(item.id) for item in unread), ready) if area == "q" else []
        near = [
            Span(max(0, span.near + self._drift - _SLACK_ITEMS), span.far + self._drift + _SLACK_ITEMS)
            for span in known
        ]
        for spans in (near, [Span(0, EVERYWHERE)]):
            async with aclosing(sightings(self._editor, self._queue, area, wanted, spans, Look())) as seen:
                async for _, found in seen:
                    for place, body, _ in found:
                        digest = item_digest(body)
                        read[digest] = body
                        there[digest] += 1
                        self._drift = place - known[-1].near if known else 0
        self.gone += wanted.total()
        whole = []
        for item in part:
            digest = digest_of(item.id)
            if item.body is not None:
                whole.append(item)
            elif there[digest]:
                there[digest] -= 1
                whole.append(item._replace(body=read[digest]))
        return whole


class ListBackend(Backend):
    """The changes of list queues of a server; raises ValueError for an invalid URL."""

    def __init__(
        self,
        server: Address | str,
        names: ListNames,
        ns: str,
        patterns: Sequence[str] = (),
        age: JsonPath | None = None,
    ) -> None:
        self._age = age
        self._server, self._names, self._ns, self._patterns = server, names, ns, patterns
        self._editor = ListEditor(server, names)
        self._opened: ListReader | None = None

    @property
    def editor(self) -> EditExecutor:
        """The executor of its edits."""
        return self._editor

    async def preview(self, base: Preview, journal: Journal, scope: Scope | None, seeing: SeeingCallback) -> Preview:
        """Return ``base``, completed with what its action would do."""
        editor = self._editor.at(base.action.queue)
        return await preview_of_lists(editor, self._search, self._ns, base, journal, scope, seeing)

    def prepare(self, editor: EditExecutor, journal: Journal, preview: Preview) -> AsyncGenerator[Step, None]:
        """Yield the batches of a previewed change."""
        return prepare_lists(self._editor.at(preview.action.queue), self._ns, preview)

    def export(self, queue: str, scope: Scope | None, write: Callable[[str], object]) -> Exporting:
        """Return an export that passes the items of a scope to ``write``."""
        return ListExport(self._editor.at(queue), self._search, queue, scope, write)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._editor.aclose()
        if self._opened is not None:
            await self._opened.aclose()

    def _search(self, queue: str, wanted: Filter) -> AsyncGenerator[Progress, None]:
        if self._opened is None:
            self._opened = ListReader(self._server, self._names, self._patterns)
        return search_lists(self._opened, queue, wanted, age=self._age)
