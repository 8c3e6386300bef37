"""Actions on an RSMQ queue that select no messages: send, import, create and set."""

from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from dataclasses import replace
from operator import attrgetter

from rsmq_tui.monitor.text import printable
from rsmq_tui.protocol import RawMessage, make_id, name_of, rsmq_error, validation
from rsmq_tui.protocol.rsmq.editor import QueueEditor, QueueFields
from rsmq_tui.protocol.rsmq.edits import Edit, EditKind, FieldBatch, FieldEdit, MessageBatch
from rsmq_tui.protocol.rsmq.operations import chunked
from rsmq_tui.triage.actions import CreateQueue, Import, Send, SetAttributes
from rsmq_tui.triage.change import Step
from rsmq_tui.triage.jsonl import read_file
from rsmq_tui.triage.scope import Preview, ScanCallback, preview_of_sending

# One call blocks the server for a millisecond or two.
PUT_MESSAGES, PUT_BYTES = 250, 1_000_000


async def preview_of_queue(editor: QueueEditor, base: Preview, on_progress: ScanCallback) -> Preview:
    """Return ``base``, completed with what its action would do.

    Raises what the editor raises, and ``RsmqError`` if the protocol refuses the action.
    """
    action = base.action
    if isinstance(action, CreateQueue):
        await _absent(editor, action.queue)
        return replace(base, what=f"vt {action.vt} s, delay {action.delay} s, maxsize {action.maxsize}")
    found = await preview_of_sending(base, on_progress)
    there = await _existing(editor, action.queue)
    match action:
        case SetAttributes():
            note = "Nothing is changed if the attributes have changed since this preview."
            return replace(base, what=_settings(action, there.attributes), notes=(note,), fields=there)
        case Import():
            return replace(found, notes=("Messages with ids that are already in the queue are not imported.",))
    return found


async def prepare_queue(editor: QueueEditor, preview: Preview) -> AsyncGenerator[Step, None]:
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


async def _new_messages(editor: QueueEditor, action: Send, there: QueueFields) -> Iterator[RawMessage]:
    longest = max((validation.stored_size(body) for body in action.bodies), default=0)
    limit = there.attributes.get(b"maxsize", b"-1")
    if limit.isdigit() and longest > int(limit):
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
    for chunk in chunked(messages, PUT_MESSAGES, attrgetter("size"), PUT_BYTES):
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
        f"{name_of(name)} {printable(name_of(now.get(name, b'')), 20)} -> {name_of(value)}"
        for name, value in _attributes(action).items()
    )


def _attributes(action: CreateQueue | SetAttributes) -> dict[bytes, bytes]:
    """Return the attributes that an action sets."""
    values = {b"vt": action.vt, b"delay": action.delay, b"maxsize": action.maxsize}
    return {name: b"%d" % value for name, value in values.items() if value is not None}


async def _existing(editor: QueueEditor, queue: str) -> QueueFields:
    there = await editor.fields(queue)
    if not there.exists:
        raise rsmq_error("queueNotFound")
    return there


async def _absent(editor: QueueEditor, queue: str) -> QueueFields:
    there = await editor.fields(queue)
    if b"vt" in there.attributes:
        raise rsmq_error("queueExists")
    return there
