"""The one door to every change of list queues: as ``Triage``, but for these."""

from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path

from rsmq_tui.monitor.filters import Filter
from rsmq_tui.monitor.json_paths import JsonPath
from rsmq_tui.monitor.list_looking import search_lists
from rsmq_tui.monitor.search import Progress
from rsmq_tui.protocol import Address
from rsmq_tui.protocol.carrying import Carrier
from rsmq_tui.protocol.lists.editor import ListEditor
from rsmq_tui.protocol.lists.naming import LISTS_NS, ListNames
from rsmq_tui.protocol.lists.reader import ListReader
from rsmq_tui.triage.actions import Action
from rsmq_tui.triage.desk import Triage
from rsmq_tui.triage.engines import Exporting
from rsmq_tui.triage.journal import KEEP_DAYS, LIMIT_BYTES, Journal
from rsmq_tui.triage.list_export import ListExport
from rsmq_tui.triage.list_preparing import prepare_lists
from rsmq_tui.triage.list_previewing import preview_of_lists
from rsmq_tui.triage.preparing import Prepared
from rsmq_tui.triage.previewing import Seeing
from rsmq_tui.triage.previews import Preview, Scope


class ListTriage(Triage):
    """Changes the list queues of one server, or refuses to when it is read-only.

    ``names`` tells their keys, ``ns`` is the namespace of RSMQ that targets are in which do not say one, and ``age``
    where the JSON of an item tells when it was made. Every method raises ``TriageError``. Close it with ``aclose``.
    """

    def __init__(
        self,
        server: Address | str,
        names: ListNames,
        folder: Path,
        *,
        patterns: Sequence[str] = (),
        ns: str = "rsmq",
        age: JsonPath | None = None,
        read_only: bool = False,
        profile: str = "",
        keep_days: int | None = KEEP_DAYS,
        limit_bytes: int = LIMIT_BYTES,
    ) -> None:
        super().__init__(
            server,
            LISTS_NS,
            folder,
            read_only=read_only,
            profile=profile,
            keep_days=keep_days,
            limit_bytes=limit_bytes,
            engine=ListEngine(server, names, ns, patterns, age),
        )


class ListEngine:
    """Knows the list queues of a server; raises ValueError for a URL that is none."""

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
    def editor(self) -> Carrier:
        """What carries its changes out."""
        return self._editor

    def watch(self, ns: str) -> None:
        """Nothing: list queues are in no namespace."""

    async def preview(
        self, journal: Journal, profile: str, action: Action, scope: Scope | None, seeing: Callable[[Seeing], None]
    ) -> Preview:
        """Find out what an action would do."""
        editor = self._editor.at(action.queue)
        return await preview_of_lists(editor, self._search, self._ns, journal, profile, action, scope, seeing)

    def prepare(self, editor: Carrier, journal: Journal, preview: Preview) -> AsyncGenerator[Prepared, None]:
        """Prepare the batches of what was previewed."""
        return prepare_lists(self._editor.at(preview.action.queue), self._ns, preview)

    def export(self, queue: str, scope: Scope | None, write: Callable[[str], object]) -> Exporting:
        """Hand what a scope means to ``write``."""
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
