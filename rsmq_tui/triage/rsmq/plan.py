"""From an action, on messages or on a queue, to batches of guarded edits, a chunk at a time."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from math import inf
from operator import attrgetter
from typing import TypeVar

from rsmq_tui.monitor.messages.reading import score_like, score_units
from rsmq_tui.monitor.text import printable
from rsmq_tui.protocol import RawMessage, RsmqError, make_id, name_of, rsmq_error, validation
from rsmq_tui.protocol.outcomes import Outcome
from rsmq_tui.protocol.rsmq.editor import QueueFields, RsmqEditor
from rsmq_tui.protocol.rsmq.edits import Edit, EditCondition, EditKind, Edits, FieldBatch, FieldEdit, MessageBatch
from rsmq_tui.protocol.rsmq.operations import Messages, chunked, raw_message
from rsmq_tui.triage import actions
from rsmq_tui.triage.actions import CreateQueue, Import, Send, SetAttributes
from rsmq_tui.triage.change import OF_QUEUE, Step
from rsmq_tui.triage.errors import TriageError, explain
from rsmq_tui.triage.journal.journal import Journal
from rsmq_tui.triage.jsonl import read_file
from rsmq_tui.triage.rsmq.redrive import RedriveSources
from rsmq_tui.triage.scope import Guard, Preview, ScanCallback, Selection, preview_of_sending

T = TypeVar("T")


async def prefetched(
    items: AsyncGenerator[T, None], count: int, weigh: Callable[[T], int] = lambda item: 0, weight: int = 1
) -> AsyncGenerator[T, None]:
    """Yield the items of a generator in order, and let it run ahead in a task; raises what it raises.

    The generator pauses while ``count`` items wait, or while they weigh ``weight`` or more together. Running ahead, its
    reads reach the server before the edits of earlier items keep it busy. Close it with ``aclose`` when leaving early,
    which also ends the generator.
    """
    waiting: deque[tuple[T, int]] = deque()
    changed = asyncio.Event()

    async def fill() -> None:
        async with aclosing(items):
            async for item in items:
                waiting.append((item, weigh(item)))
                changed.set()
                while len(waiting) >= count or sum(each for _, each in waiting) >= weight:
                    changed.clear()
                    await changed.wait()

    making = asyncio.create_task(fill())
    making.add_done_callback(lambda _: changed.set())
    try:
        while waiting or not making.done():
            if waiting:
                item, _ = waiting.popleft()
                changed.set()
                yield item
            else:
                changed.clear()
                await changed.wait()
        # Raise the error that ended the task, including a cancellation.
        await making
    finally:
        making.cancel()
        await asyncio.gather(making, return_exceptions=True)


_TARGETS_KNOWN = 1_000
# No time or size has more digits.
_DIGITS_MAX = 15
# The attributes of queues that the canonical client creates.
DEFAULT_ATTRIBUTES = {b"vt": b"30", b"delay": b"0", b"maxsize": b"65536"}
# A UTF-16 code unit, in which maxsize is measured, takes up to three bytes of UTF-8.
_BYTES_PER_UNIT = 3


class Targets:
    """A cache of the queues that messages go to."""

    def __init__(self, editor: RsmqEditor, own: QueueFields) -> None:
        self._editor = editor
        self._own = own
        self._known: dict[str, QueueFields] = {}

    async def fields(self, queue: str) -> QueueFields:
        """Return a queue's fields, which may be cached; raises ``RsmqError`` if it is not a queue."""
        if queue not in self._known:
            validation.queue_name(queue)
            if len(self._known) >= _TARGETS_KNOWN:
                self._known.clear()
            self._known[queue] = await self._editor.fields(queue)
        return self._known[queue]

    async def maxsize(self, queue: str) -> int | None:
        """Return the longest body that a queue accepts, in UTF-16 code units, or None if there is no limit."""
        raw = (await self.fields(queue)).attributes.get(b"maxsize", b"")
        limit = int(raw) if raw.isdigit() else -1
        return None if limit < 0 else limit

    async def fitting(self, queue: str, target: str, messages: Sequence[RawMessage]) -> Sequence[RawMessage]:
        """Return the messages that a target accepts; bodies are read if their lengths in bytes do not decide it."""
        limit = await self.maxsize(target)
        if limit is None or all(message.size <= limit for message in messages):
            return messages
        unsure = [message.id for message in messages if limit < message.size <= limit * _BYTES_PER_UNIT]
        read = await self._editor.values(queue, unsure)
        units = {id: validation.stored_size(body or b"") for id, (body, _, _) in zip(unsure, read, strict=True)}
        return [message for message in messages if units.get(message.id, message.size) <= limit]

    async def create(self, queue: str) -> FieldBatch | None:
        """Return the batch that creates a queue with the attributes of the source queue, or None if it exists.

        Those that the source does not have get their defaults.
        """
        there = await self.fields(queue)
        if there.exists:
            return None
        seconds = b"%d" % (await self._editor.clock_us() // 1_000_000)
        values = {name: self._own.attributes.get(name, usual) for name, usual in DEFAULT_ATTRIBUTES.items()}
        values |= {b"created": seconds, b"modified": seconds}
        self._known[queue] = QueueFields(values, listed=True, depth=0)
        return creation(queue, values, there)


# One call blocks the server for about a millisecond: to rescore a message takes 3 µs, to remove it 4 µs, to put it back
# 6 µs, and to move it 11 µs. What is removed is put back by an undo, in the same batches.
CHUNK_MESSAGES = 250
PUT_MESSAGES = 170
MOVE_MESSAGES = 100
CHUNK_BYTES = 1_000_000
# Fields that are compared byte for byte take four times as long.
STRAY_BYTES = 250_000

TOO_LONG = "longer than the target's maxsize"
NO_TARGET = "the target queue does not exist"
NO_QUEUE = "the target is not a queue"
NO_SOURCE = "its source queue is unknown"
LEFT_ANOTHER = f"{OF_QUEUE}not changed: it was recreated"
LEFT_CHANGED = f"{OF_QUEUE}not changed: its attributes have changed"
LEFT_GONE = f"{OF_QUEUE}already deleted"
KEPT = f"{OF_QUEUE}kept: it holds messages"
KEPT_CHANGED = f"{OF_QUEUE}kept: it received messages or was changed at the last moment"

# How many batches are prefetched, and the limit for their bodies, each of which may have half a gigabyte.
_PREFETCHED = 8
_PREFETCHED_BYTES = 4_000_000

# Attributes that identify a queue to be deleted: if they differ, it was changed or recreated.
_IDENTITY = (b"created", b"vt", b"delay", b"maxsize")


async def prepare_messages(
    editor: RsmqEditor, journal: Journal, action: actions.MessageAction, preview: Preview
) -> AsyncGenerator[Step, None]:
    """Yield the batches of a change; raises what the editor raises."""
    selection, seen = preview.selection, preview.fields
    if selection is None:
        raise TypeError("a preview of messages without a selection")
    own = await editor.fields(action.queue)
    if isinstance(action, actions.DeleteQueue) and (left := _why_left(own, seen)):
        yield Step(excluded=Outcome.CHANGED * (selection.count + 1), skip_reason=left)
        return
    preparing = _Preparing(editor, journal, action, own, preview.guard)
    if isinstance(action, actions.Move) and action.create and action.target != action.queue:
        if not own.attributes and not own.depth:
            # It was deleted since, so there is nothing to move, and nothing to create the target from.
            yield Step(excluded=Outcome.GONE * selection.count)
            return
        made = await preparing.targets.create(action.target)
        if made is not None:
            outcomes: list[str] = []
            yield Step(made, counted=False, alone=True, on_outcome=outcomes.append)
            if outcomes == [Outcome.DONE]:
                yield Step(note=f"queue {printable(action.target)} was created")
    async with aclosing(prefetched(preparing.changes(selection), _PREFETCHED, _bytes_of, _PREFETCHED_BYTES)) as coming:
        async for step in coming:
            yield step
    if isinstance(action, actions.DeleteQueue):
        async for step in _last_of(editor, action.queue, seen):
            yield step


def _bytes_of(step: Step) -> int:
    """Return the total length of a batch's bodies; if both sides of an edit have one, it is the same."""
    if not isinstance(step.batch, MessageBatch):
        return 0
    return sum(map(len, filter(None, Edits.of(step.batch.edits).known.bodies)))


class _Preparing:
    """Prepares the batches of one change of messages; ``own`` are the queue's fields now."""

    def __init__(
        self, editor: RsmqEditor, journal: Journal, action: actions.MessageAction, own: QueueFields, guard: Guard
    ) -> None:
        self.targets = Targets(editor, own)
        self._editor, self._journal, self._action, self._own, self._guard = editor, journal, action, own, guard

    async def changes(self, selection: Selection) -> AsyncGenerator[Step, None]:
        """Yield the batches for the selected messages, one chunk at a time."""
        action, guard, editor = self._action, self._guard, self._editor
        sources: RedriveSources | None = None
        for counted in selection.chunks(_messages_per_batch(action), CHUNK_BYTES):
            chunk = counted
            if guard.ages is not None:
                at_ms = await editor.clock_us() // 1000
                chunk = counted.kept([guard.ages(message, at_ms) for message in counted])
                yield Step(excluded=Outcome.UNMATCHED * (len(counted) - len(chunk)))
            if not chunk:
                continue
            match action:
                case actions.Delete() | actions.DeleteQueue():
                    conditions = guard.conditions
                    yield await removal_of(
                        editor, action.queue, chunk, must_exist=self._own.exists, conditions=conditions
                    )
                case actions.Hide() | actions.Release():
                    yield await self._rescore(chunk, action.seconds * 1000 if isinstance(action, actions.Hide) else 0)
                case actions.Copy(target=target):
                    yield await self._copies(target, chunk)
                case actions.Move(target=target):
                    yield await self._move(target, chunk)
                case actions.Redrive():
                    sources = sources or RedriveSources(action, self._journal, editor.label, editor.ns)
                    async for step in self._redrive(chunk, sources):
                        yield step

    async def _rescore(self, chunk: Messages, later_ms: int) -> Step:
        due_ms = await self._editor.clock_us() // 1000 + later_ms
        scores = chunk.scores
        dues = [score_like(score, due_ms) for score in scores] if score_units(scores) else [b"%d" % due_ms] * len(chunk)
        nothing = [None] * len(chunk)
        before = chunk.having(fr=nothing, body=nothing)
        edits = Edits(before, before.having(score=dues))
        exists, conditions = self._own.exists, self._guard.conditions
        queue = self._action.queue
        return Step(MessageBatch(EditKind.RESCORE, queue, edits, must_exist=exists, conditions=conditions))

    async def _move(self, target: str, chunk: Messages) -> Step:
        step, fitting = await self._fitting(target, chunk)
        if fitting:
            moved = Messages.of(fitting).having(body=[None] * len(fitting))
            conditions = self._guard.conditions
            step.batch = MessageBatch(
                EditKind.MOVE,
                self._action.queue,
                Edits(moved, moved),
                target,
                conditions=conditions,
                keeps=conditions is not None,
            )
            step.renames = True
        return step

    async def _copies(self, target: str, chunk: Messages) -> Step:
        queue = self._action.queue
        step, fitting = await self._fitting(target, chunk)
        at_ms, whole = await self._editor.messages(queue, [message.id for message in fitting])
        edits = []
        for number, now in enumerate(still_there(step, self._guard, fitting, whole, at_ms)):
            within = target == queue
            id = make_id(at_ms * 1000 + number).encode() if within else now.id
            score = score_like(now.score, at_ms) if within else b"%d" % at_ms
            edits.append(Edit(None, now._replace(id=id, rc=None, fr=None, score=score)))
        if edits:
            step.batch = MessageBatch(EditKind.PUT, target, tuple(edits))
            step.renames = True
        return step

    async def _redrive(self, chunk: Messages, sources: RedriveSources) -> AsyncGenerator[Step, None]:
        queue = self._action.queue
        at_ms, whole = await self._editor.messages(queue, chunk.ids, bodies=sources.need_bodies)
        left = Step()
        ways: dict[str, list[RawMessage]] = {}
        known = await sources.of([message for message in whole if message is not None])
        for now in still_there(left, self._guard, chunk, whole, at_ms):
            if (target := known.get(now.id, queue)) == queue:
                left.failed[NO_SOURCE] += 1
            else:
                ways.setdefault(target, []).append(now._replace(body=None))
        batches = []
        for target, messages in ways.items():
            try:
                step, fitting = await self._fitting(target, messages)
            except RsmqError:
                # A body may contain a name that is not valid for a queue.
                left.failed[NO_QUEUE] += len(messages)
                continue
            left.failed.update(step.failed)
            edits = tuple(Edit(before, before._replace(score=b"%d" % at_ms, rc=None, fr=None)) for before in fitting)
            if edits:
                batches.append(MessageBatch(EditKind.MOVE, queue, edits, target, conditions=self._guard.conditions))
        yield left
        for batch in batches:
            yield Step(batch, renames=True)

    async def _fitting(self, target: str, chunk: Sequence[RawMessage]) -> tuple[Step, Sequence[RawMessage]]:
        """Return the messages that the target accepts, and a step that counts the others as failed."""
        step = Step()
        if not (await self.targets.fields(target)).exists:
            step.failed[NO_TARGET] += len(chunk)
            return step, []
        fitting = await self.targets.fitting(self._action.queue, target, chunk)
        if len(fitting) < len(chunk):
            step.failed[TOO_LONG] += len(chunk) - len(fitting)
        return step, fitting


def _messages_per_batch(action: actions.MessageAction) -> int:
    match action:
        case actions.Move() | actions.Redrive():
            return MOVE_MESSAGES
        case actions.Hide() | actions.Release():
            return CHUNK_MESSAGES
    return PUT_MESSAGES


def still_there(
    step: Step, guard: Guard, seen: Sequence[RawMessage], read: Sequence[RawMessage | None], at_ms: int
) -> Iterator[RawMessage]:
    """Yield the messages that were read again and may be changed; the others are excluded from the step."""
    for message, now in zip(seen, read, strict=True):
        letter = guard.letter(message, now, at_ms)
        if now is None or letter is not Outcome.DONE:
            step.exclude(message, letter)
        else:
            yield now


async def removal_of(
    editor: RsmqEditor,
    queue: str,
    seen: Messages,
    *,
    must_exist: bool,
    sent: int = 0,
    conditions: tuple[EditCondition, ...] | None = None,
) -> Step:
    """Return the removal of messages that are unchanged, or meet ``conditions``; its edits contain the bodies."""
    step, removed = Step(), seen
    if None in seen.bodies:
        unread = [message.id for message in seen if message.body is None]
        read = dict(zip(unread, await editor.values(queue, unread), strict=True))
        there = []
        for message in seen:
            whole = message
            if message.id in read:
                body, rc, fr = read[message.id]
                if (conditions is None and rc != message.rc) or (body is None and message.size):
                    # It has changed since: leave it out of the batch and the journal.
                    step.exclude(message, Outcome.CHANGED if rc is not None or body is not None else Outcome.GONE)
                    continue
                whole = raw_message((message.id, message.score, rc, fr, len(body or b""), body))
            there.append(whole)
        removed = Messages.of(there)
    if removed:
        step.batch = MessageBatch(
            EditKind.REMOVE, queue, Edits(removed, None), must_exist=must_exist, sent=sent, conditions=conditions
        )
    return step


async def _last_of(editor: RsmqEditor, queue: str, seen: QueueFields | None) -> AsyncGenerator[Step, None]:
    """Yield the removal of a queue without messages: stray fields first, then the queue itself."""
    yield Step(alone=True)
    there = await editor.fields(queue)
    if there.depth:
        yield Step(excluded=Outcome.CHANGED, skip_reason=_why_left(there, seen) or KEPT)
        return
    listed = there.listed
    async for part in strays(editor, queue):
        fields = tuple(FieldEdit(name, value, None) for name, value in part.items())
        yield Step(FieldBatch(queue, fields, listed, listed, empty=True), counted=False, alone=True)
    last = await editor.fields(queue)
    if left := _why_left(last, seen):
        yield Step(excluded=Outcome.CHANGED, skip_reason=left)
        return
    fields = tuple(FieldEdit(name, value, None) for name, value in last.attributes.items())
    yield Step(FieldBatch(queue, fields, last.listed, False, empty=True), skip_reason=KEPT_CHANGED)


async def strays(editor: RsmqEditor, queue: str) -> AsyncIterator[dict[bytes, bytes]]:
    """Yield all fields of a queue that are not attributes, in parts for one call each."""
    part: dict[bytes, bytes] = {}
    part_bytes = 0
    async for sizes in editor.stray_fields(queue):
        async for found in editor.field_values(queue, sizes):
            for name, value in found.items():
                if part and (len(part) == CHUNK_MESSAGES or part_bytes + len(value) > STRAY_BYTES):
                    yield part
                    part, part_bytes = {}, 0
                part[name] = value
                part_bytes += len(value)
    if part:
        yield part


def _why_left(now: QueueFields, seen: QueueFields | None) -> str:
    """Return why a queue that has changed since ``seen`` is not deleted; empty if it has not."""
    if seen is None or all(now.attributes.get(name) == seen.attributes.get(name) for name in _IDENTITY):
        return ""
    if not now.exists:
        return LEFT_GONE
    return LEFT_CHANGED if now.attributes.get(b"created") == seen.attributes.get(b"created") else LEFT_ANOTHER


def check_action(action: actions.Action) -> None:
    """Raise ``RsmqError``, or ``TriageError``, if the protocol refuses an action, whatever is on the server."""
    if isinstance(action, actions.Fix):
        # The problem to fix may be the queue's name.
        return
    validation.queue_name(action.queue)
    match action:
        case actions.Move(target=str() as target) if actions.target_of_rsmq(target, "").ns is None:
            return
        case actions.Move(target=str() as target) | actions.Redrive(target=str() as target):
            try:
                validation.queue_name(target)
            except RsmqError as error:
                raise TriageError(f"the target {printable(target)}: {explain(error)}") from error
        case actions.Send():
            if action.delay_s is not None:
                validation.seconds("delay", action.delay_s)
        case actions.CreateQueue() | actions.SetAttributes():
            if isinstance(action, actions.SetAttributes) and action.vt is action.delay is action.maxsize is None:
                raise TriageError("nothing to change: give a vt, a delay or a maxsize")
            for name, value in (("vt", action.vt), ("delay", action.delay)):
                if value is not None:
                    validation.seconds(name, value)
            if action.maxsize is not None:
                validation.maxsize(action.maxsize)


async def preview_of_queue(editor: RsmqEditor, base: Preview, on_progress: ScanCallback) -> Preview:
    """Return ``base``, completed with what its action would do.

    Raises what the editor raises, and ``RsmqError`` if the protocol refuses the action.
    """
    action = base.action
    if isinstance(action, CreateQueue):
        await _absent(editor, action.queue)
        settings = (f"{name_of(name)} {_setting(name, value)}" for name, value in _attributes(action).items())
        return replace(base, what=", ".join(settings))
    found = await preview_of_sending(base, on_progress)
    there = await _existing(editor, action.queue)
    match action:
        case SetAttributes():
            note = "Nothing is changed if the attributes have changed since this preview."
            return replace(base, what=_settings(action, there.attributes), notes=(note,), fields=there)
        case Import():
            return replace(found, notes=_OF_IMPORT)
        case Send():
            longest, limit = _longest(action, there)
            if longest > limit:
                raise TriageError(
                    f"{'the body' if found.count == 1 else 'the longest body'} has {longest:,} characters (UTF-16 code "
                    f"units), and the queue accepts {limit:,}: rsmq-tui queues set {printable(action.queue)} "
                    "--maxsize N changes that"
                )
    return found


_OF_IMPORT = (
    "Ids, due times and receive counts are kept.",
    "Messages with ids that are already in the queue are not imported.",
)


async def prepare_queue(editor: RsmqEditor, preview: Preview) -> AsyncGenerator[Step, None]:
    """Yield the batches of an action; raises as ``preview_of_queue`` does."""
    action = preview.action
    if isinstance(action, CreateQueue):
        there = await _absent(editor, action.queue)
        seconds = b"%d" % (await editor.clock_us() // 1_000_000)
        values = _attributes(action) | {b"created": seconds, b"modified": seconds}
        yield Step(creation(action.queue, values, there))
        return
    there = await _existing(editor, action.queue)
    match action:
        case Send():
            messages = await _new_messages(editor, action, there)
            if b"totalsent" not in there.attributes:
                # Create the counter first, so that an undo removes it again.
                total = (FieldEdit(b"totalsent", None, b"0"),)
                yield Step(FieldBatch(action.queue, total, there.listed, there.listed), counted=False, alone=True)
            for batch in _puts(action.queue, messages, sent=1):
                yield Step(batch)
        case Import():
            for batch in _puts(action.queue, read_file(action.path, preview.file)):
                yield Step(batch)
        case SetAttributes():
            # Compare with the attributes that the preview showed.
            there = preview.fields or there
            values = {b"modified": b"%d" % (await editor.clock_us() // 1_000_000)} | _attributes(action)
            fields = tuple(FieldEdit(name, there.attributes.get(name), value) for name, value in values.items())
            yield Step(FieldBatch(action.queue, fields, there.listed, there.listed))


def _longest(action: Send, there: QueueFields) -> tuple[int, float]:
    """Return the length of the longest body, and that which the queue accepts, in UTF-16 code units."""
    limit = there.attributes.get(b"maxsize", b"-1")
    longest = max((validation.stored_size(body) for body in action.bodies), default=0)
    return longest, int(limit) if limit.isdigit() else inf


async def _new_messages(editor: RsmqEditor, action: Send, there: QueueFields) -> Iterator[RawMessage]:
    longest, limit = _longest(action, there)
    if longest > limit:
        raise rsmq_error("messageTooLong")
    at_us = await editor.clock_us()
    delay = there.attributes.get(b"delay", b"0") if action.delay_s is None else b"%d" % action.delay_s
    due_ms = at_us // 1000 + (int(delay) if delay.isdigit() else 0) * 1000
    # Ids a microsecond apart keep the order among equal scores.
    return (
        RawMessage(make_id(at_us + number).encode(), b"%d" % due_ms, None, None, len(body), body)
        for number, body in enumerate(action.bodies)
    )


def _puts(queue: str, messages: Iterable[RawMessage], *, sent: int = 0) -> Iterator[MessageBatch]:
    """Yield the batches that put messages into a queue as they are."""
    for chunk in chunked(messages, PUT_MESSAGES, attrgetter("size"), CHUNK_BYTES):
        yield MessageBatch(EditKind.PUT, queue, tuple(Edit(None, message) for message in chunk), sent=sent)


def creation(queue: str, values: dict[bytes, bytes], there: QueueFields) -> FieldBatch:
    """Return the batch that creates a queue with those fields, if it does not exist."""
    fields = [FieldEdit(name, there.attributes.get(name), value) for name, value in values.items()]
    # The totals are unchanged, but compared on undo: if they have changed, the queue is in use and stays.
    totals = {name: there.attributes.get(name) for name in (b"totalsent", b"totalrecv")}
    fields += [FieldEdit(name, total, total) for name, total in totals.items()]
    return FieldBatch(queue, tuple(fields), there.listed, listed_after=True)


def _settings(action: SetAttributes, now: Mapping[bytes, bytes]) -> str:
    return ", ".join(
        f"{name_of(name)} {_setting(name, now.get(name, b''))} -> {_setting(name, value)}"
        for name, value in _attributes(action).items()
    )


def _setting(name: bytes, raw: bytes) -> str:
    """Return the value of an attribute with its unit; what is not a number is shown as it is."""
    if name == b"maxsize" and raw == b"-1":
        return "no limit"
    if not raw.isdigit() or len(raw) > _DIGITS_MAX:
        return printable(name_of(raw), 20)
    return f"{int(raw):,} {'characters' if name == b'maxsize' else 's'}"


def _attributes(action: CreateQueue | SetAttributes) -> dict[bytes, bytes]:
    """Return the attributes that an action sets."""
    values = {b"vt": action.vt, b"delay": action.delay, b"maxsize": action.maxsize}
    return {name: b"%d" % value for name, value in values.items() if value is not None}


async def _existing(editor: RsmqEditor, queue: str) -> QueueFields:
    there = await editor.fields(queue)
    if not there.exists:
        raise rsmq_error("queueNotFound")
    return there


async def _absent(editor: RsmqEditor, queue: str) -> QueueFields:
    there = await editor.fields(queue)
    if b"vt" in there.attributes:
        raise rsmq_error("queueExists")
    return there
