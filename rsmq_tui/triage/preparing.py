"""From what people asked for to the batches that the server is asked for, a chunk of messages at a time."""

from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial

from rsmq_tui.monitor.reading import score_like, score_units
from rsmq_tui.protocol import RawMessage, RsmqError, make_id
from rsmq_tui.protocol.batches import Batch
from rsmq_tui.protocol.editor import QueueEditor, QueueFields
from rsmq_tui.protocol.edits import Condition, Edit, EditKind, FieldBatch, FieldEdit, MessageBatch, Outcome
from rsmq_tui.protocol.messages import raw_message
from rsmq_tui.triage.actions import Copy, Delete, DeleteQueue, Hide, MessageAction, Move, Redrive, Release
from rsmq_tui.triage.ahead import ahead
from rsmq_tui.triage.guards import Guard
from rsmq_tui.triage.journal import Journal
from rsmq_tui.triage.origins import Origins
from rsmq_tui.triage.reports import OF_QUEUE
from rsmq_tui.triage.selection import Selection
from rsmq_tui.triage.targets import Targets

# One call holds the server for a millisecond or two: a move is five commands a message, the others one or two.
CHUNK_MESSAGES = 250
MOVE_MESSAGES = 100
CHUNK_BYTES = 1_000_000
# Fields that are compared byte for byte take four times as long.
STRAY_BYTES = 250_000

TOO_LONG = "longer than the target's maxsize"
NO_TARGET = "the target queue does not exist"
NO_QUEUE = "the target is not a queue"
NO_ORIGIN = "its source queue is unknown"
LEFT_ANOTHER = f"{OF_QUEUE}not changed: it was recreated"
LEFT_CHANGED = f"{OF_QUEUE}not changed: its attributes have changed"
LEFT_GONE = f"{OF_QUEUE}already deleted"
KEPT = f"{OF_QUEUE}kept: it holds messages"
KEPT_CHANGED = f"{OF_QUEUE}kept: it received messages or was changed at the last moment"

# So many batches are prepared while those before are carried out: what is asked for them would else wait behind those.
AHEAD_BATCHES = 8
# Bodies that wait like that: one alone may have half a gigabyte.
AHEAD_BYTES = 4_000_000

# What is compared of a queue that is deleted: one of the same name that was made since is another.
_IDENTITY = (b"created", b"vt", b"delay", b"maxsize")

_NOTHING = RawMessage(b"", b"", None, None, 0, None)
# As raw_message.
_edit = partial(tuple.__new__, Edit)


@dataclass(slots=True)
class Prepared:
    """A batch to carry out, and the messages that were sorted out before: the letters of those that may not change.

    ``changed`` are the ids of those of them that are not what was seen.
    ``left`` says why those of them, or of the batch, are left alone, where it is not for what became of messages;
    ``failed`` counts by reason those that cannot be done at all. ``counted`` says whether the batch is what people
    asked for, or only serves it; ``renames`` that a message whose id is taken gets another one. ``alone`` asks for
    everything before it to be carried out first, and for it itself before the next is prepared. ``undoes`` is the
    number of the batch that it takes back, in the change that is being undone. ``heard`` is told the outcome. ``note``
    is a sentence for the report.
    """

    batch: Batch | None = None
    sorted_out: str = ""
    changed: list[bytes] = field(default_factory=list)
    left: str = ""
    failed: Counter[str] = field(default_factory=Counter)
    counted: bool = True
    renames: bool = False
    alone: bool = False
    undoes: int | None = None
    heard: Callable[[str], None] | None = None
    note: str = ""

    def sort_out(self, message: RawMessage, letter: Outcome) -> None:
        """Leave a message alone."""
        self.sorted_out += letter
        if letter is Outcome.CHANGED:
            self.changed.append(message.id)


async def prepare_messages(
    editor: QueueEditor,
    journal: Journal,
    action: MessageAction,
    selection: Selection,
    seen: QueueFields | None,
    guard: Guard,
) -> AsyncGenerator[Prepared, None]:
    """Prepare a change of messages; ``seen`` is what the queue was then. Raises what the editor raises."""
    own = await editor.fields(action.queue)
    if isinstance(action, DeleteQueue) and (left := _why_left(own, seen)):
        yield Prepared(sorted_out=Outcome.CHANGED * (selection.count + 1), left=left)
        return
    targets = Targets(editor, own)
    if isinstance(action, Move) and action.create and action.target != action.queue:
        made = await targets.create(action.target)
        if made is not None:
            yield Prepared(made, counted=False, alone=True)
    changes = _changes(editor, journal, action, selection, own, targets, guard)
    async with aclosing(ahead(changes, AHEAD_BATCHES, _bytes_of, AHEAD_BYTES)) as coming:
        async for prepared in coming:
            yield prepared
    if isinstance(action, DeleteQueue):
        async for prepared in _last_of(editor, action.queue, seen):
            yield prepared


def _bytes_of(prepared: Prepared) -> int:
    """Return how many bytes of bodies a batch holds, which is in either side of an edit, or in both the same."""
    if not isinstance(prepared.batch, MessageBatch):
        return 0
    return sum([len((before or after or _NOTHING).body or b"") for before, after in prepared.batch.edits])


async def _changes(
    editor: QueueEditor,
    journal: Journal,
    action: MessageAction,
    selection: Selection,
    own: QueueFields,
    targets: Targets,
    guard: Guard,
) -> AsyncGenerator[Prepared, None]:
    """Prepare what becomes of each message, a chunk of them at a time."""
    origins: Origins | None = None
    size = MOVE_MESSAGES if isinstance(action, Move | Redrive) else CHUNK_MESSAGES
    for counted in selection.chunks(size, CHUNK_BYTES):
        chunk = counted
        if guard.ages is not None:
            at_ms = await editor.clock_us() // 1000
            chunk = [message for message in counted if guard.ages(message, at_ms)]
            yield Prepared(sorted_out=Outcome.UNMATCHED * (len(counted) - len(chunk)))
        if not chunk:
            continue
        match action:
            case Delete() | DeleteQueue():
                yield await removal_of(editor, action.queue, chunk, own.exists, conditions=guard.conditions)
            case Hide() | Release():
                later_ms = action.seconds * 1000 if isinstance(action, Hide) else 0
                yield await _rescore(editor, action.queue, chunk, own.exists, later_ms, guard)
            case Copy(target=target):
                yield await _copies(editor, action.queue, target, chunk, targets, guard)
            case Move(target=target):
                yield await _move(action.queue, target, chunk, targets, guard)
            case Redrive():
                origins = origins or Origins(action, journal, editor.label, editor.ns)
                async for prepared in _redrive(editor, action.queue, chunk, targets, origins, guard):
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
    editor: QueueEditor,
    queue: str,
    seen: Sequence[RawMessage],
    exists: bool,
    sent: int = 0,
    conditions: tuple[Condition, ...] | None = None,
) -> Prepared:
    """Prepare the removal of messages that are still what was seen, or meet conditions; the journal gets the bodies."""
    unread = [message.id for message in seen if message.body is None]
    read = dict(zip(unread, (await editor.values(queue, unread))[1], strict=True)) if unread else {}
    if seen and not read:
        whole_edits = tuple([_edit((message, None)) for message in seen])
        whole_batch = MessageBatch(
            EditKind.REMOVE, queue, whole_edits, must_exist=exists, sent=sent, conditions=conditions
        )
        return Prepared(whole_batch)
    prepared, edits = Prepared(), []
    for message in seen:
        whole = message
        if message.id in read:
            body, rc, fr = read[message.id]
            if (conditions is None and rc != message.rc) or (body is None and message.size):
                # Left out of the journal, and seen for what it is by the next look.
                prepared.sort_out(message, Outcome.CHANGED if rc is not None or body is not None else Outcome.GONE)
                continue
            whole = raw_message((message.id, message.score, rc, fr, len(body or b""), body))
        edits.append(_edit((whole, None)))
    if edits:
        prepared.batch = MessageBatch(
            EditKind.REMOVE, queue, tuple(edits), must_exist=exists, sent=sent, conditions=conditions
        )
    return prepared


async def _rescore(
    editor: QueueEditor, queue: str, chunk: list[RawMessage], exists: bool, later_ms: int, guard: Guard
) -> Prepared:
    at_ms = await editor.clock_us() // 1000
    scores = [message.score for message in chunk]
    due_ms = at_ms + later_ms
    dues = [score_like(score, due_ms) for score in scores] if score_units(scores) else [b"%d" % due_ms] * len(chunk)
    edits = [
        _edit((raw_message((id, score, rc, None, size, None)), raw_message((id, due, rc, None, size, None))))
        for (id, score, rc, _, size, _), due in zip(chunk, dues, strict=True)
    ]
    return Prepared(MessageBatch(EditKind.RESCORE, queue, tuple(edits), must_exist=exists, conditions=guard.conditions))


async def _move(queue: str, target: str, chunk: list[RawMessage], targets: Targets, guard: Guard) -> Prepared:
    prepared, fitting = await _fitting(queue, target, chunk, targets)
    edits = [_edit((message, message)) for message in (message._replace(body=None) for message in fitting)]
    if edits:
        is_guarded = guard.conditions is not None
        prepared.batch = MessageBatch(
            EditKind.MOVE, queue, tuple(edits), target, conditions=guard.conditions, keeps=is_guarded
        )
        prepared.renames = True
    return prepared


async def _copies(
    editor: QueueEditor, queue: str, target: str, chunk: list[RawMessage], targets: Targets, guard: Guard
) -> Prepared:
    prepared, fitting = await _fitting(queue, target, chunk, targets)
    at_ms, whole = await editor.messages(queue, [message.id for message in fitting])
    edits = []
    for number, (message, now) in enumerate(zip(fitting, whole, strict=True)):
        letter = guard.letter(message, now, at_ms)
        if now is None or letter is not Outcome.DONE:
            prepared.sort_out(message, letter)
            continue
        within = target == queue
        id = make_id(at_ms * 1000 + number).encode() if within else now.id
        score = score_like(now.score, at_ms) if within else b"%d" % at_ms
        edits.append(Edit(None, now._replace(id=id, rc=None, fr=None, score=score)))
    if edits:
        prepared.batch = MessageBatch(EditKind.PUT, target, tuple(edits))
        prepared.renames = True
    return prepared


async def _redrive(
    editor: QueueEditor, queue: str, chunk: list[RawMessage], targets: Targets, origins: Origins, guard: Guard
) -> AsyncGenerator[Prepared, None]:
    read = editor.messages if origins.need_bodies else editor.seen
    at_ms, whole = await read(queue, [message.id for message in chunk])
    left = Prepared()
    ways: dict[str, list[RawMessage]] = {}
    known = await origins.of([message for message in whole if message is not None])
    for message, now in zip(chunk, whole, strict=True):
        letter = guard.letter(message, now, at_ms)
        if now is None or letter is not Outcome.DONE:
            left.sort_out(message, letter)
        elif (target := known.get(now.id, queue)) == queue:
            left.failed[NO_ORIGIN] += 1
        else:
            ways.setdefault(target, []).append(now._replace(body=None))
    batches = []
    for target, messages in ways.items():
        try:
            prepared, fitting = await _fitting(queue, target, messages, targets)
        except RsmqError:
            # Bodies may name anything.
            left.failed[NO_QUEUE] += len(messages)
            continue
        left.failed.update(prepared.failed)
        edits = [Edit(before, before._replace(score=b"%d" % at_ms, rc=None, fr=None)) for before in fitting]
        if edits:
            batches.append(MessageBatch(EditKind.MOVE, queue, tuple(edits), target, conditions=guard.conditions))
    yield left
    for batch in batches:
        yield Prepared(batch, renames=True)


async def _fitting(
    queue: str, target: str, chunk: list[RawMessage], targets: Targets
) -> tuple[Prepared, list[RawMessage]]:
    """Sort out what the target does not take."""
    prepared = Prepared()
    if not (await targets.fields(target)).exists:
        prepared.failed[NO_TARGET] += len(chunk)
        return prepared, []
    fitting = await targets.fitting(queue, target, chunk)
    if len(fitting) < len(chunk):
        prepared.failed[TOO_LONG] += len(chunk) - len(fitting)
    return prepared, fitting


async def _last_of(editor: QueueEditor, queue: str, seen: QueueFields | None) -> AsyncGenerator[Prepared, None]:
    """Prepare what is left of a queue when its messages are gone: stray fields, then the queue itself."""
    yield Prepared(alone=True)
    there = await editor.fields(queue)
    if there.depth:
        yield Prepared(sorted_out=Outcome.CHANGED, left=_why_left(there, seen) or KEPT)
        return
    listed = there.listed
    async for part in strays(editor, queue):
        fields = tuple(FieldEdit(name, value, None) for name, value in part.items())
        yield Prepared(FieldBatch(queue, fields, listed, listed, empty=True), counted=False, alone=True)
    last = await editor.fields(queue)
    if left := _why_left(last, seen):
        yield Prepared(sorted_out=Outcome.CHANGED, left=left)
        return
    fields = tuple(FieldEdit(name, value, None) for name, value in last.attributes.items())
    yield Prepared(FieldBatch(queue, fields, last.listed, False, empty=True), left=KEPT_CHANGED)


async def strays(editor: QueueEditor, queue: str) -> AsyncIterator[dict[bytes, bytes]]:
    """Walk through all fields of a queue that are no attributes, as many at a time as one call takes."""
    part: dict[bytes, bytes] = {}
    heavy = 0
    cursor: int | None = None
    while cursor != 0:
        cursor, sizes = await editor.stray_fields(queue, cursor or 0)
        # What a scan returns once more must not come again when it is gone.
        sizes = {name: size for name, size in sizes.items() if name not in part}
        async for found in editor.field_values(queue, sizes):
            for name, value in found.items():
                if part and (len(part) == CHUNK_MESSAGES or heavy + len(value) > STRAY_BYTES):
                    yield part
                    part, heavy = {}, 0
                part[name] = value
                heavy += len(value)
    if part:
        yield part


def _why_left(now: QueueFields, seen: QueueFields | None) -> str:
    """Say why a queue is not deleted that is no longer what was seen; nothing where it is."""
    if seen is None or all(now.attributes.get(name) == seen.attributes.get(name) for name in _IDENTITY):
        return ""
    if not now.exists:
        return LEFT_GONE
    return LEFT_CHANGED if now.attributes.get(b"created") == seen.attributes.get(b"created") else LEFT_ANOTHER
