"""What differs between kinds of queues, for whoever makes changes: how they are previewed, prepared and exported."""

from collections.abc import AsyncGenerator, Callable
from typing import Protocol

from rsmq_tui.monitor.filters import parse_filter
from rsmq_tui.protocol import Address, QueueReader
from rsmq_tui.protocol.carrying import Carrier
from rsmq_tui.protocol.editor import QueueEditor
from rsmq_tui.protocol.lists.editor import ListEditor, editor_of
from rsmq_tui.protocol.lists.naming import LISTS_NS, ListNames
from rsmq_tui.triage.actions import Action, Copy, Fix, Hide, Import, MessageAction, Move, Send
from rsmq_tui.triage.changes import Change
from rsmq_tui.triage.exporting import Export
from rsmq_tui.triage.fixing import prepare_fix
from rsmq_tui.triage.journal import Journal
from rsmq_tui.triage.list_actions import target_of_rsmq
from rsmq_tui.triage.list_undoing import PUT_BACK
from rsmq_tui.triage.marked_export import MarkedExport
from rsmq_tui.triage.mixed import prepare_to_list
from rsmq_tui.triage.preparing import Prepared, prepare_messages
from rsmq_tui.triage.previewing import Seeing, preview_of
from rsmq_tui.triage.previews import Marked, Matching, Named, Preview, Scope
from rsmq_tui.triage.queue_actions import prepare_other


class Exporting(Protocol):
    """Hands messages to a file as lines; iterate over it for its progress."""

    written: int
    cut: int
    gone: int
    unsearched: int
    is_incomplete: bool

    def __aiter__(self) -> AsyncGenerator[Seeing, None]:
        """Write them."""
        ...


class Engine(Protocol):
    """What knows a kind of queues; every method raises what its editor raises, and ``TriageError``."""

    @property
    def editor(self) -> Carrier:
        """What carries its changes out."""
        ...

    def watch(self, ns: str) -> None:
        """Change the queues of another namespace from now on, where there are some."""
        ...

    async def preview(
        self, journal: Journal, profile: str, action: Action, scope: Scope | None, seeing: Callable[[Seeing], None]
    ) -> Preview:
        """Find out what an action would do."""
        ...

    def prepare(self, editor: Carrier, journal: Journal, preview: Preview) -> AsyncGenerator[Prepared, None]:
        """Prepare the batches of what was previewed."""
        ...

    def export(self, queue: str, scope: Scope | None, write: Callable[[str], object]) -> Exporting:
        """Hand what a scope means to ``write``."""
        ...

    async def aclose(self) -> None:
        """Close the connections."""
        ...


class RsmqEngine:
    """Knows RSMQ's queues of a namespace; raises ValueError for a URL that is none."""

    def __init__(self, server: Address | str, ns: str, names: ListNames) -> None:
        self._editor = QueueEditor(server, ns)
        self._reader = QueueReader(server, ns)
        self._names = names

    @property
    def editor(self) -> Carrier:
        """What carries its changes out."""
        return self._editor

    def watch(self, ns: str) -> None:
        """Change the queues of another namespace from now on."""
        self._editor = self._editor.within(ns)
        self._reader = self._reader.within(ns)

    async def preview(
        self, journal: Journal, profile: str, action: Action, scope: Scope | None, seeing: Callable[[Seeing], None]
    ) -> Preview:
        """Find out what an action would do."""
        return await preview_of(self._editor, self._reader, journal, profile, action, scope, seeing, self._names)

    def prepare(self, editor: Carrier, journal: Journal, preview: Preview) -> AsyncGenerator[Prepared, None]:
        """Prepare the batches of what was previewed."""
        action = preview.action
        queues = editor if isinstance(editor, QueueEditor) else QueueEditor.beside(editor, preview.ns)
        if isinstance(action, MessageAction):
            if preview.selection is None:
                raise TypeError("a preview of messages without a selection")
            if isinstance(action, Move) and (to := target_of_rsmq(action.target, preview.ns)).ns is None:
                return prepare_to_list(queues, self._names, action, to, preview.selection, preview.guard)
            return prepare_messages(queues, journal, action, preview.selection, preview.fields, preview.guard)
        if isinstance(action, Fix):
            return prepare_fix(queues, self._reader.within(preview.ns), action)
        return prepare_other(queues, preview)

    def export(self, queue: str, scope: Scope | None, write: Callable[[str], object]) -> Exporting:
        """Hand what a scope means to ``write``."""
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


def carrier(editor: Carrier, ns: str, queue: str) -> Carrier:
    """Return what changes a queue of that namespace, or a list queue, over the connections of an editor."""
    found = editor if editor.ns == ns else editor_of(editor, ns)
    return found.at(queue) if isinstance(found, ListEditor) else found


def notes_of_undo(change: Change) -> tuple[str, ...]:
    """Say what people should know before they take a change of list queues back."""
    is_put_back = change.ns == LISTS_NS and change.name not in (Copy.name, Send.name, Import.name, Hide.name)
    return (PUT_BACK,) if is_put_back else ()
