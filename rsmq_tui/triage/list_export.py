"""Exporting what is in a list queue, as it is now; nothing on the server changes."""

from collections.abc import AsyncGenerator, Callable

from rsmq_tui.protocol.lists.editor import ListEditor
from rsmq_tui.protocol.lists.edits import spot_of
from rsmq_tui.triage.list_selecting import Area, Search, select
from rsmq_tui.triage.list_selection import ListSelection
from rsmq_tui.triage.previewing import Seeing
from rsmq_tui.triage.previews import Scope
from rsmq_tui.triage.transfer import to_line


class ListExport:
    """Hands the items of a list queue that a scope means, as lines, to ``write``: in the order in which they are taken.

    ``written`` counts lines, ``gone`` items that were named and are not there, ``cut`` those too long to be read, and
    ``unsearched`` those that could not be matched. Iterate over it for its progress. Raises what the editor, the search
    and ``write`` raise.
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
        self._editor, self._search, self._queue, self._scope = editor, search, queue, scope
        self._write = write

    async def __aiter__(self) -> AsyncGenerator[Seeing, None]:
        selection = ListSelection()
        try:
            found = await select(
                self._editor, self._search, self._queue, self._scope, Area(), selection, lambda _: None
            )
            self.gone, self.unsearched = found.elsewhere, found.unsearched
            depth = selection.count + self.gone
            for area in ("q", "p"):
                for number, item in enumerate(selection.items(area)):
                    body = item.body
                    if body is None:
                        spot = spot_of(item.id)
                        (body,) = await self._editor.items_at(self._queue, area, [spot.position])
                    if body is None:
                        self.gone += 1
                    else:
                        self._write(to_line(item._replace(body=body, rc=None, fr=None), selection.at_ms) + "\n")
                        self.written += 1
                    if number % 500 == 0:
                        yield Seeing(self.written, depth, self.written)
            yield Seeing(depth, depth, self.written)
        finally:
            selection.close()
