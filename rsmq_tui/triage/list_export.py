"""Exporting what is in a list queue, as it is now; nothing on the server changes."""

from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing

from rsmq_tui.protocol import RawMessage
from rsmq_tui.protocol.lists.editor import ListEditor
from rsmq_tui.protocol.lists.item_ids import Area as Letter
from rsmq_tui.protocol.lists.item_ids import digest_of, item_digest, position_of
from rsmq_tui.triage.list_finding import EVERYWHERE, Look, Span, sightings, spans_of
from rsmq_tui.triage.list_selecting import Area, Search, select
from rsmq_tui.triage.list_selection import ListSelection
from rsmq_tui.triage.previewing import Seeing
from rsmq_tui.triage.previews import Scope
from rsmq_tui.triage.transfer import to_line

_AREAS: tuple[Letter, ...] = ("q", "p")
_PART_ITEMS, _PART_BYTES = 2_000, 4_000_000
_SLACK_ITEMS = 1_000


class ListExport:
    """Hands the items of a list queue that a scope means, as lines, to ``write``: in the order in which they are taken.

    ``written`` counts lines, ``gone`` items that were named and are not there, ``cut`` those too long to be read, and
    ``unsearched`` those that could not be matched. ``is_incomplete`` says that the list changed too fast to read all of
    it. Iterate over it for its progress. Raises what the editor, the search and ``write`` raise.
    """

    def __init__(
        self,
        editor: ListEditor,
        search: Search,
        queue: str,
        scope: Scope | None,
        write: Callable[[str], object],
    ) -> None:
        self.written = self.cut = self.gone = self.unsearched = 0
        self.is_incomplete = False
        self._editor, self._search, self._queue, self._scope = editor, search, queue, scope
        self._write = write
        # How far items have been pushed on since their places were noted.
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
                for part in _parts(selection.items(area)):
                    for item in await self._with_bodies(part, area, selection.ready):
                        self._write(to_line(item._replace(rc=None, fr=None), selection.at_ms) + "\n")
                        self.written += 1
                    yield Seeing(self.written, depth, self.written)
            yield Seeing(depth, depth, self.written)
        finally:
            selection.close()

    async def _with_bodies(self, part: list[RawMessage], area: Letter, ready: int) -> list[RawMessage]:
        """Return those whose bytes are known or can be read still; the others are counted as gone."""
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


def _parts(items: Iterator[RawMessage]) -> Iterator[list[RawMessage]]:
    """Cut items into those whose bodies may be in memory at once."""
    part: list[RawMessage] = []
    heavy = 0
    for item in items:
        if part and (len(part) == _PART_ITEMS or heavy + item.size > _PART_BYTES):
            yield part
            part, heavy = [], 0
        part.append(item)
        heavy += item.size
    if part:
        yield part
