"""The backend of RSMQ queues: preview, plan and export."""

from collections.abc import AsyncGenerator, Callable

from rsmq_tui.monitor.filters.language import parse_filter
from rsmq_tui.protocol import Address, QueueReader
from rsmq_tui.protocol.editing import EditExecutor
from rsmq_tui.protocol.lists.naming import ListNames
from rsmq_tui.protocol.rsmq.editor import QueueEditor
from rsmq_tui.triage.actions import Fix, MessageAction, Move, target_of_rsmq
from rsmq_tui.triage.change import Step
from rsmq_tui.triage.export import Exporting
from rsmq_tui.triage.journal import Journal
from rsmq_tui.triage.lists.transfer import prepare_to_list
from rsmq_tui.triage.rsmq.export import Export, MarkedExport
from rsmq_tui.triage.rsmq.fixes import prepare_fix
from rsmq_tui.triage.rsmq.plan import prepare_messages
from rsmq_tui.triage.rsmq.preview import preview_of
from rsmq_tui.triage.rsmq.queues import QUEUE_ACTIONS
from rsmq_tui.triage.scope import Marked, Matching, Named, Preview, Scope, SeeingCallback
from rsmq_tui.triage.service import Backend


class RsmqBackend(Backend):
    """The changes of RSMQ queues in a namespace; raises ValueError for an invalid URL."""

    def __init__(self, server: Address | str, ns: str, names: ListNames) -> None:
        self._editor = QueueEditor(server, ns)
        self._reader = QueueReader(server, ns)
        self._names = names

    @property
    def editor(self) -> EditExecutor:
        """The executor of its edits."""
        return self._editor

    def watch(self, ns: str) -> None:
        """Switch to another namespace."""
        self._editor = self._editor.within(ns)
        self._reader = self._reader.within(ns)

    async def preview(self, base: Preview, journal: Journal, scope: Scope | None, seeing: SeeingCallback) -> Preview:
        """Return ``base``, completed with what its action would do."""
        return await preview_of(self._editor, self._reader, base, journal, scope, seeing, self._names)

    def prepare(self, editor: EditExecutor, journal: Journal, preview: Preview) -> AsyncGenerator[Step, None]:
        """Yield the batches of a previewed change."""
        action = preview.action
        queues = editor if isinstance(editor, QueueEditor) else QueueEditor.sharing(editor, preview.ns)
        if isinstance(action, MessageAction):
            if preview.selection is None:
                raise TypeError("a preview of messages without a selection")
            if isinstance(action, Move) and (to := target_of_rsmq(action.target, preview.ns)).ns is None:
                return prepare_to_list(queues, self._names, action, to, preview.selection, preview.guard)
            return prepare_messages(queues, journal, action, preview.selection, preview.fields, preview.guard)
        if isinstance(action, Fix):
            return prepare_fix(queues, self._reader.within(preview.ns), action)
        return QUEUE_ACTIONS[type(action)].prepare(queues, action, preview)

    def export(self, queue: str, scope: Scope | None, write: Callable[[str], object]) -> Exporting:
        """Return an export that passes the messages of a scope to ``write``."""
        match scope:
            case Marked(messages=messages):
                return MarkedExport(self._editor, queue, [message.id for message in messages], write)
            case Named(ids=ids):
                return MarkedExport(self._editor, queue, ids, write)
            case Matching(filter=wanted, limit=limit):
                return Export(self._reader, queue, wanted, write, limit)
        return Export(self._reader, queue, parse_filter(""), write, None)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._editor.aclose()
        await self._reader.aclose()
