"""Moves between list queues and RSMQ queues, in both directions. A message is always in at least one of them."""

from collections.abc import AsyncGenerator, Sequence
from operator import attrgetter

from rsmq_tui.monitor.text import printable
from rsmq_tui.protocol import RawMessage, RsmqError, make_id, validation
from rsmq_tui.protocol.editing import EditExecutor
from rsmq_tui.protocol.keys import Keys, name_bytes
from rsmq_tui.protocol.lists.editor import ListEditor
from rsmq_tui.protocol.lists.edits import ListBatch, ListKind, list_item
from rsmq_tui.protocol.lists.naming import ListNames
from rsmq_tui.protocol.rsmq.editor import RsmqEditor
from rsmq_tui.protocol.rsmq.edits import Edit
from rsmq_tui.protocol.rsmq.operations import chunked
from rsmq_tui.triage.actions import Copy, Move, Target
from rsmq_tui.triage.change import Step
from rsmq_tui.triage.errors import TriageError
from rsmq_tui.triage.rsmq.plan import CHUNK_BYTES, MOVE_MESSAGES, NO_TARGET, TOO_LONG, Targets, still_there
from rsmq_tui.triage.scope import Guard, Preview

NO_BODY = "it has no body"


class TransferTarget:
    """The target of items of a list queue: a list, or an RSMQ queue, in which they get new ids of the server's time."""

    def __init__(self, editor: ListEditor, to: Target) -> None:
        self._editor = editor
        self._to = to
        self._rsmq = None if to.ns is None else RsmqEditor.sharing(editor, to.ns)
        self._maxsize: int | None = None
        self._exists: bool | None = None

    async def fitting(self, items: Sequence[RawMessage], step: Step) -> list[RawMessage]:
        """Return the items that the target accepts; the others are counted as failed."""
        if self._rsmq is None:
            return list(items)
        if self._exists is None:
            there = await self._rsmq.fields(self._to.queue)
            self._exists = there.exists
            self._maxsize = await Targets(self._rsmq, there).maxsize(self._to.queue)
        if not self._exists:
            step.failed[NO_TARGET] += len(items)
            return []
        limit = self._maxsize
        fitting = [item for item in items if limit is None or validation.stored_size(item.body or b"") <= limit]
        if len(fitting) < len(items):
            step.failed[TOO_LONG] += len(items) - len(fitting)
        return fitting

    async def afters(self, items: Sequence[RawMessage]) -> list[RawMessage]:
        """Return the messages that the items become in the target."""
        if self._rsmq is None:
            return [list_item(item.body or b"") for item in items]
        at_us = await self._rsmq.clock_us()
        score = b"%d" % (at_us // 1000)
        # Ids a microsecond apart keep the order among equal scores.
        return [
            RawMessage(make_id(at_us + number).encode(), score, None, None, item.size, item.body)
            for number, item in enumerate(items)
        ]

    def puts(self, afters: Sequence[RawMessage]) -> ListBatch:
        """Return the batch that puts copies into the target."""
        edits, to = tuple(Edit(None, after) for after in afters), self._to
        return ListBatch(ListKind.PUT, to.queue, edits, self._editor.names, ns=to.ns, sent=0 if to.ns is None else 1)


async def prepare_to_list(
    editor: RsmqEditor, names: ListNames, action: Move, to: Target, preview: Preview
) -> AsyncGenerator[Step, None]:
    """Yield the batches from an RSMQ queue to a list: to the end that is taken last, in the order of delivery."""
    if preview.selection is None:
        raise TypeError("a preview of messages without a selection")
    unread = (message._replace(body=None) for message in preview.selection)
    messages = sorted(unread, key=lambda message: (float(message.score), message.id))
    for part in chunked(messages, MOVE_MESSAGES, attrgetter("size"), CHUNK_BYTES):
        yield await _to_list(editor, names, action, to, part, preview.guard)


async def _to_list(
    editor: RsmqEditor, names: ListNames, action: Move, to: Target, seen: Sequence[RawMessage], guard: Guard
) -> Step:
    step, befores = Step(), []
    at_ms, whole = await editor.messages(action.queue, [message.id for message in seen])
    for now in still_there(step, guard, seen, whole, at_ms):
        if now.body is None:
            step.failed[NO_BODY] += 1
        else:
            befores.append(now)
    if not befores:
        return step
    afters = [list_item(before.body or b"") for before in befores]
    if isinstance(action, Copy):
        edits = tuple(Edit(None, after) for after in afters)
        step.batch = ListBatch(ListKind.PUT, to.queue, edits, names)
    else:
        edits = tuple(map(Edit, befores, afters))
        step.batch = ListBatch(
            ListKind.MOVE, action.queue, edits, names, to.queue, ns=editor.ns, conditions=guard.conditions
        )
    return step


async def list_target_notes(editor: RsmqEditor, names: ListNames, action: Move, to: Target) -> list[str]:
    """Return notes on moving messages to a list; raises ``TriageError`` if it is not possible."""
    owner = names.owner(to.queue)
    if not to.queue or owner is not None:
        reason = (
            f"the target belongs to {printable(owner or '')}"
            if to.queue
            else "name the list by its whole key: list:KEY"
        )
        raise TriageError(reason)
    refuse_other_slots(editor, names, [to.queue], [Target(action.queue, editor.ns)])
    await refuse_unreadable(ListEditor.beside(editor, names), to)
    return ["They are added at its end, in the order of delivery. Lists have no receive counts; undo restores them."]


async def refuse_unreadable(editor: ListEditor, to: Target) -> None:
    """Raise ``TriageError``, which names the target, if its keys have wrong types; raises what the editor raises."""
    try:
        await editor.facts(to.queue)
    except RsmqError as error:
        raise TriageError(f"{printable(to.text)}: {error}") from error


def refuse_other_slots(editor: EditExecutor, names: ListNames, lists: Sequence[str], queues: Sequence[Target]) -> None:
    """Raise ``TriageError`` if, on a cluster, the keys of these queues are in different slots."""
    keys = [key for name in lists for key in (name_bytes(name), names.processing_key(name), names.leases_key(name))]
    keys += [names.marker(name, "x") for name in lists]
    keys += [Keys(to.ns or "").messages(to.queue) for to in queues] + [Keys(to.ns or "").index for to in queues]
    if not editor.can_reach_at_once(*keys):
        targets = " and ".join([*lists, *(to.text for to in queues)])
        raise TriageError(
            f"on this cluster the keys of {targets} are in different slots: give them one hash tag, as in queue:{{x}}"
        )
