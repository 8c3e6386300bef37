"""Actions on an RSMQ queue that select no messages: send, import, create and set.

Each action has a function for its preview and one for its batches; ``QUEUE_ACTIONS`` has both.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Any, NamedTuple

from rsmq_tui.monitor.text import printable
from rsmq_tui.protocol import RawMessage, make_id, name_of, rsmq_error, validation
from rsmq_tui.protocol.rsmq.editor import QueueEditor, QueueFields
from rsmq_tui.protocol.rsmq.edits import Edit, EditKind, FieldBatch, FieldEdit, MessageBatch
from rsmq_tui.protocol.rsmq.operations import chunked
from rsmq_tui.triage.actions import Action, CreateQueue, Import, Send, SetAttributes
from rsmq_tui.triage.change import Step
from rsmq_tui.triage.jsonl import read_file
from rsmq_tui.triage.scope import Preview, SeeingCallback, preview_of_sending

# One call blocks the server for a millisecond or two.
PUT_MESSAGES, PUT_BYTES = 250, 1_000_000


async def _preview_send(editor: QueueEditor, base: Preview, action: Send, seeing: SeeingCallback) -> Preview:
    found = await preview_of_sending(base, seeing)
    await _existing(editor, action.queue)
    return found


async def _prepare_send(editor: QueueEditor, action: Send, preview: Preview) -> AsyncGenerator[Step, None]:
    there = await _existing(editor, action.queue)
    messages = await _new_messages(editor, action, there)
    if b"totalsent" not in there.attributes:
        # Create the counter first, so that an undo removes it again.
        total = (FieldEdit(b"totalsent", None, b"0"),)
        yield Step(FieldBatch(action.queue, total, there.listed, there.listed), counted=False, alone=True)
    for batch in _puts(action.queue, messages, sent=1):
        yield Step(batch)


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


async def _preview_import(editor: QueueEditor, base: Preview, action: Import, seeing: SeeingCallback) -> Preview:
    found = await preview_of_sending(base, seeing)
    await _existing(editor, action.queue)
    return replace(found, notes=("Messages with ids that are already in the queue are not imported.",))


async def _prepare_import(editor: QueueEditor, action: Import, preview: Preview) -> AsyncGenerator[Step, None]:
    await _existing(editor, action.queue)
    for batch in _puts(action.queue, read_file(action.path, preview.file)):
        yield Step(batch)


def _puts(queue: str, messages: Iterable[RawMessage], *, sent: int = 0) -> Iterator[MessageBatch]:
    """Yield the batches that put messages into a queue as they are."""
    for chunk in chunked(messages, PUT_MESSAGES, attrgetter("size"), PUT_BYTES):
        yield MessageBatch(EditKind.PUT, queue, tuple(Edit(None, message) for message in chunk), sent=sent)


async def _preview_create(editor: QueueEditor, base: Preview, action: CreateQueue, seeing: SeeingCallback) -> Preview:
    await _absent(editor, action.queue)
    return replace(base, what=f"vt {action.vt} s, delay {action.delay} s, maxsize {action.maxsize}")


async def _prepare_create(editor: QueueEditor, action: CreateQueue, preview: Preview) -> AsyncGenerator[Step, None]:
    there = await _absent(editor, action.queue)
    seconds = b"%d" % (await editor.clock_us() // 1_000_000)
    values = {name.encode(): b"%d" % value for name, value in _attributes(action).items() if value is not None}
    yield Step(creation(action.queue, values | {b"created": seconds, b"modified": seconds}, there))


def creation(queue: str, values: dict[bytes, bytes], there: QueueFields) -> FieldBatch:
    """Return the batch that creates a queue with those fields, if it does not exist."""
    fields = [FieldEdit(name, there.attributes.get(name), value) for name, value in values.items()]
    # The totals are unchanged, but compared on undo: if they have changed, the queue is in use and stays.
    totals = {name: there.attributes.get(name) for name in (b"totalsent", b"totalrecv")}
    fields += [FieldEdit(name, total, total) for name, total in totals.items()]
    return FieldBatch(queue, tuple(fields), there.listed, listed_after=True)


async def _preview_set(editor: QueueEditor, base: Preview, action: SetAttributes, seeing: SeeingCallback) -> Preview:
    there = await _existing(editor, action.queue)
    note = "Nothing is changed if the attributes have changed since this preview."
    return replace(base, what=_settings(action, there.attributes), notes=(note,), fields=there)


def _settings(action: SetAttributes, now: Mapping[bytes, bytes]) -> str:
    return ", ".join(
        f"{name} {printable(name_of(now.get(name.encode(), b'')), 20)} -> {value}"
        for name, value in _attributes(action).items()
        if value is not None
    )


async def _prepare_set(editor: QueueEditor, action: SetAttributes, preview: Preview) -> AsyncGenerator[Step, None]:
    now = await _existing(editor, action.queue)
    # Compare with the attributes that the preview showed.
    there = preview.fields or now
    values = {b"modified": b"%d" % (await editor.clock_us() // 1_000_000)}
    values |= {name.encode(): b"%d" % value for name, value in _attributes(action).items() if value is not None}
    fields = tuple(FieldEdit(name, there.attributes.get(name), value) for name, value in values.items())
    yield Step(FieldBatch(action.queue, fields, there.listed, there.listed))


def _attributes(action: CreateQueue | SetAttributes) -> dict[str, int | None]:
    return {"vt": action.vt, "delay": action.delay, "maxsize": action.maxsize}


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


class ActionParts(NamedTuple):
    """The functions of an action: its preview, and its batches.

    Both raise what the editor raises, and ``RsmqError`` if the protocol refuses the action.
    """

    preview: Callable[[QueueEditor, Preview, Any, SeeingCallback], Awaitable[Preview]]
    prepare: Callable[[QueueEditor, Any, Preview], AsyncGenerator[Step, None]]


QUEUE_ACTIONS: dict[type[Action], ActionParts] = {
    Send: ActionParts(_preview_send, _prepare_send),
    Import: ActionParts(_preview_import, _prepare_import),
    CreateQueue: ActionParts(_preview_create, _prepare_create),
    SetAttributes: ActionParts(_preview_set, _prepare_set),
}
