"""From what people asked for to the batches that the server is asked for, a chunk of messages at a time."""

from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

from rsmq_tui.protocol import RawMessage, make_id
from rsmq_tui.protocol.editor import QueueEditor, QueueFields
from rsmq_tui.protocol.edits import Batch, Edit, EditKind, FieldBatch, FieldEdit, MessageBatch, Outcome
from rsmq_tui.triage.actions import Copy, Delete, DeleteQueue, Hide, MessageAction, Move, Redrive, Release
from rsmq_tui.triage.journal import Journal
from rsmq_tui.triage.origins import Origins
from rsmq_tui.triage.selection import Selection

# One call holds the server for a millisecond or two: a move is five commands a message, the others one or two.
CHUNK_MESSAGES = 250
MOVE_MESSAGES = 100
CHUNK_BYTES = 1_000_000

TOO_LONG = "longer than the target's maxsize"
NO_TARGET = "the target queue does not exist"
NO_ORIGIN = "nothing says where it came from"

# Calling the classes takes three times as long, and there are millions of messages.
_raw_message = partial(tuple.__new__, RawMessage)
_edit = partial(tuple.__new__, Edit)


@dataclass(slots=True)
class Prepared:
    """A batch to carry out, and the messages that were sorted out before: the letters of those that are not the same.

    ``failed`` counts by reason those that cannot be done at all. ``counted`` says whether the batch is what people
    asked for, or only serves it; ``renames`` that a message whose id is taken gets another one. ``alone`` asks for
    everything before it to be carried out first, and for it itself before the next is prepared. ``undoes`` is the
    number of the batch that it takes
    back, in the change that is being undone.
    """

    batch: Batch | None = None
    sorted_out: str = ""
    failed: Counter[str] = field(default_factory=Counter)
    counted: bool = True
    renames: bool = False
    alone: bool = False
    undoes: int | None = None


async def prepare_messages(
    editor: QueueEditor, journal: Journal, action: MessageAction, selection: Selection
) -> AsyncGenerator[Prepared, None]:
    """Prepare a change of messages; raises what the editor raises."""
    own = await editor.fields(action.queue)
    targets = Targets(editor, own)
    if isinstance(action, Move) and action.create and action.target != action.queue:
        made = await targets.create(action.target)
        if made is not None:
            yield Prepared(made, counted=False, alone=True)
    origins: Origins | None = None
    size = MOVE_MESSAGES if isinstance(action, Move | Redrive) else CHUNK_MESSAGES
    for chunk in selection.chunks(size, CHUNK_BYTES):
        match action:
            case Delete() | DeleteQueue():
                yield await _removal(editor, action.queue, chunk, own.exists)
            case Hide(seconds=seconds):
                yield await _rescore(editor, action.queue, chunk, own.exists, seconds * 1000)
            case Release():
                yield await _rescore(editor, action.queue, chunk, own.exists, 0)
            case Copy(target=target):
                yield await _copies(editor, action.queue, target, chunk, targets)
            case Move(target=target):
                yield await _move(editor, action.queue, target, chunk, targets)
            case Redrive():
                origins = origins or Origins(action, journal, editor.label, editor.ns)
                async for prepared in _redrive(editor, action.queue, chunk, targets, origins):
                    yield prepared
    if isinstance(action, DeleteQueue):
        async for prepared in _last_of(editor, action.queue):
            yield prepared


def puts(queue: str, messages: Iterable[RawMessage], *, sent: int = 0) -> Iterator[MessageBatch]:
    """Walk through the batches that put messages into a queue as they are."""
    chunk: list[Edit] = []
    heavy = 0
    for message in messages:
        if chunk and (len(chunk) == CHUNK_MESSAGES or heavy + message.size > CHUNK_BYTES):
            yield MessageBatch(EditKind.PUT, queue, tuple(chunk), sent=sent)
            chunk, heavy = [], 0
        chunk.append(Edit(None, message))
        heavy += message.size
    if chunk:
        yield MessageBatch(EditKind.PUT, queue, tuple(chunk), sent=sent)


async def removal_of(
    editor: QueueEditor, queue: str, seen: Sequence[RawMessage], exists: bool, sent: int = 0
) -> Prepared:
    """Prepare the removal of messages that are still what was seen; their bodies go to the journal."""
    unread = [message.id for message in seen if message.body is None]
    read = dict(zip(unread, (await editor.values(queue, unread))[1], strict=True)) if unread else {}
    edits, sorted_out = [], []
    for message in seen:
        whole = message
        if message.id in read:
            body, rc, fr = read[message.id]
            if rc != message.rc or (body is None and message.size):
                # Left out of the journal, and seen for what it is by the next look.
                sorted_out.append(Outcome.CHANGED if rc is not None or body is not None else Outcome.GONE)
                continue
            whole = _raw_message((message.id, message.score, rc, fr, len(body or b""), body))
        edits.append(_edit((whole, None)))
    batch = MessageBatch(EditKind.REMOVE, queue, tuple(edits), must_exist=exists, sent=sent) if edits else None
    return Prepared(batch, "".join(sorted_out))


class Targets:
    """What is known of the queues that messages go to."""

    def __init__(self, editor: QueueEditor, own: QueueFields) -> None:
        self._editor = editor
        self._own = own
        self._known: dict[str, QueueFields] = {}

    async def fields(self, queue: str) -> QueueFields:
        """Return a queue's fields, as they were when it was first asked for."""
        if queue not in self._known:
            self._known[queue] = await self._editor.fields(queue)
        return self._known[queue]

    async def maxsize(self, queue: str) -> int | None:
        """Return the longest body that a queue takes, in bytes, or None where there is no limit."""
        raw = (await self.fields(queue)).attributes.get(b"maxsize", b"")
        limit = int(raw) if raw.isdigit() else -1
        return None if limit < 0 else limit

    async def create(self, queue: str) -> FieldBatch | None:
        """Return the batch that makes a queue with our own attributes, or None where it is there."""
        there = await self.fields(queue)
        if there.exists:
            return None
        seconds = b"%d" % (await self._editor.clock_us() // 1_000_000)
        values = {name: self._own.attributes.get(name, b"0") for name in (b"vt", b"delay", b"maxsize")}
        values |= {b"created": seconds, b"modified": seconds}
        self._known[queue] = QueueFields(values, listed=True, depth=0)
        return creation(queue, values, there)


def creation(queue: str, values: dict[bytes, bytes], there: QueueFields) -> FieldBatch:
    """Return the batch that makes a queue with those fields, where there is none."""
    fields = [FieldEdit(name, there.attributes.get(name), value) for name, value in values.items()]
    # With totals as they are: where they have moved since, somebody uses the queue, and nobody takes it back.
    totals = {name: there.attributes.get(name) for name in (b"totalsent", b"totalrecv")}
    fields += [FieldEdit(name, total, total) for name, total in totals.items()]
    return FieldBatch(queue, tuple(fields), there.listed, listed_after=True)


async def _removal(editor: QueueEditor, queue: str, chunk: list[RawMessage], exists: bool) -> Prepared:
    return await removal_of(editor, queue, chunk, exists)


async def _rescore(editor: QueueEditor, queue: str, chunk: list[RawMessage], exists: bool, later_ms: int) -> Prepared:
    at_ms = await editor.clock_us() // 1000
    due = b"%d" % (at_ms + later_ms)
    edits = [
        _edit((_raw_message((id, score, rc, None, size, None)), _raw_message((id, due, rc, None, size, None))))
        for id, score, rc, _, size, _ in chunk
    ]
    return Prepared(MessageBatch(EditKind.RESCORE, queue, tuple(edits), must_exist=exists))


async def _move(editor: QueueEditor, queue: str, target: str, chunk: list[RawMessage], targets: Targets) -> Prepared:
    prepared, fitting = await _fitting(target, chunk, targets)
    edits = [_edit((message, message)) for message in (message._replace(body=None) for message in fitting)]
    if edits:
        prepared.batch = MessageBatch(EditKind.MOVE, queue, tuple(edits), target)
        prepared.renames = True
    return prepared


async def _copies(editor: QueueEditor, queue: str, target: str, chunk: list[RawMessage], targets: Targets) -> Prepared:
    prepared, fitting = await _fitting(target, chunk, targets)
    at_ms, whole = await editor.messages(queue, [message.id for message in fitting])
    edits = []
    for number, (message, now) in enumerate(zip(fitting, whole, strict=True)):
        if now is None or now.rc != message.rc or float(now.score) != float(message.score):
            prepared.sorted_out += Outcome.GONE if now is None else Outcome.CHANGED
            continue
        id = make_id(at_ms * 1000 + number).encode() if target == queue else now.id
        edits.append(Edit(None, now._replace(id=id, rc=None, fr=None, score=b"%d" % at_ms)))
    if edits:
        prepared.batch = MessageBatch(EditKind.PUT, target, tuple(edits))
        prepared.renames = True
    return prepared


async def _redrive(
    editor: QueueEditor, queue: str, chunk: list[RawMessage], targets: Targets, origins: Origins
) -> AsyncGenerator[Prepared, None]:
    at_ms, whole = await editor.messages(queue, [message.id for message in chunk])
    left = Prepared()
    ways: dict[str, list[Edit]] = {}
    known = await origins.of([message for message in whole if message is not None])
    for message, now in zip(chunk, whole, strict=True):
        if now is None or now.rc != message.rc:
            left.sorted_out += Outcome.GONE if now is None else Outcome.CHANGED
            continue
        target = known.get(now.id)
        limit = None if target is None else await targets.maxsize(target)
        if target is None or target == queue:
            left.failed[NO_ORIGIN] += 1
        elif not (await targets.fields(target)).exists:
            left.failed[NO_TARGET] += 1
        elif limit is not None and now.size > limit:
            left.failed[TOO_LONG] += 1
        else:
            before = now._replace(score=message.score, body=None)
            again = before._replace(score=b"%d" % at_ms, rc=None, fr=None)
            ways.setdefault(target, []).append(Edit(before, again))
    yield left
    for target, edits in ways.items():
        yield Prepared(MessageBatch(EditKind.MOVE, queue, tuple(edits), target), renames=True)


async def _fitting(target: str, chunk: list[RawMessage], targets: Targets) -> tuple[Prepared, list[RawMessage]]:
    """Sort out what the target does not take."""
    prepared = Prepared()
    if not (await targets.fields(target)).exists:
        prepared.failed[NO_TARGET] += len(chunk)
        return prepared, []
    limit = await targets.maxsize(target)
    fitting = [message for message in chunk if limit is None or message.size <= limit]
    if len(fitting) < len(chunk):
        prepared.failed[TOO_LONG] += len(chunk) - len(fitting)
    return prepared, fitting


async def _last_of(editor: QueueEditor, queue: str) -> AsyncGenerator[Prepared, None]:
    """Prepare what is left of a queue when its messages are gone: stray fields, then the queue itself."""
    yield Prepared(alone=True)
    listed = (await editor.fields(queue)).listed
    cursor, first = 0, True
    while cursor or first:
        first = False
        cursor, strays = await editor.stray_fields(queue, cursor)
        rest = iter(strays.items())
        while part := tuple(FieldEdit(name, value, None) for name, value in islice(rest, CHUNK_MESSAGES)):
            yield Prepared(FieldBatch(queue, part, listed, listed, empty=True), counted=False, alone=True)
    last = await editor.fields(queue)
    fields = tuple(FieldEdit(name, value, None) for name, value in last.attributes.items())
    yield Prepared(FieldBatch(queue, fields, last.listed, False, empty=True))
