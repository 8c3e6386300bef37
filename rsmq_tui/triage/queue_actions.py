"""Preparing what is not about messages that are there: sending, importing, making a queue, changing its attributes."""

from collections.abc import AsyncGenerator, Iterator

from rsmq_tui.protocol import RawMessage, make_id, rsmq_error, validation
from rsmq_tui.protocol.editor import QueueEditor, QueueFields
from rsmq_tui.protocol.edits import FieldBatch, FieldEdit
from rsmq_tui.triage.actions import Action, CreateQueue, Fix, Import, Move, Redrive, Send, SetAttributes
from rsmq_tui.triage.list_actions import target_of_rsmq
from rsmq_tui.triage.preparing import Prepared, puts
from rsmq_tui.triage.previews import Preview
from rsmq_tui.triage.targets import creation
from rsmq_tui.triage.transfer import read_file


async def prepare_other(editor: QueueEditor, preview: Preview) -> AsyncGenerator[Prepared, None]:
    """Prepare such a change; raises what the editor raises, and ``RsmqError`` for what the protocol refuses."""
    action = preview.action
    match action:
        case Send():
            messages = await _new_messages(editor, action)
            there = await _existing(editor, action.queue)
            if b"totalsent" not in there.attributes:
                # Taking back the first messages takes the total back as well, where there was none.
                total = (FieldEdit(b"totalsent", None, b"0"),)
                yield Prepared(FieldBatch(action.queue, total, there.listed, there.listed), counted=False, alone=True)
            for batch in puts(action.queue, messages, sent=1):
                yield Prepared(batch)
        case Import():
            await _existing(editor, action.queue)
            for batch in puts(action.queue, read_file(action.path, preview.file)):
                yield Prepared(batch)
        case CreateQueue():
            yield Prepared(await _creation(editor, action))
        case SetAttributes():
            yield Prepared(await _setting(editor, action, preview.fields))
        case _:
            raise TypeError(f"not prepared here: {action}")


def check(action: Action) -> None:
    """Raise ``RsmqError`` where the protocol would refuse an action whatever the server holds."""
    if isinstance(action, Fix):
        # What is wrong with a queue may be its name.
        return
    validation.queue_name(action.queue)
    match action:
        case Move(target=str() as target) if target_of_rsmq(target, "").ns is None:
            return
        case Move(target=str() as target) | Redrive(target=str() as target):
            validation.queue_name(target)
        case Send():
            if action.delay_s is not None:
                validation.seconds("delay", action.delay_s)
        case CreateQueue() | SetAttributes():
            if isinstance(action, SetAttributes) and action.vt is action.delay is action.maxsize is None:
                raise rsmq_error("noAttributeSupplied")
            for name, value in (("vt", action.vt), ("delay", action.delay)):
                if value is not None:
                    validation.seconds(name, value)
            if action.maxsize is not None:
                validation.maxsize(action.maxsize)


async def _existing(editor: QueueEditor, queue: str) -> QueueFields:
    there = await editor.fields(queue)
    if not there.exists:
        raise rsmq_error("queueNotFound")
    return there


async def _new_messages(editor: QueueEditor, action: Send) -> Iterator[RawMessage]:
    there = await _existing(editor, action.queue)
    longest = max((validation.stored_size(body) for body in action.bodies), default=0)
    limit = there.attributes.get(b"maxsize", b"-1")
    if limit.isdigit() and longest > int(limit):
        raise rsmq_error("messageTooLong")
    at_us = await editor.clock_us()
    delay = there.attributes.get(b"delay", b"0") if action.delay_s is None else b"%d" % action.delay_s
    due_ms = at_us // 1000 + (int(delay) if delay.isdigit() else 0) * 1000
    # A microsecond apart, so that they keep their order among equal scores.
    return (
        RawMessage(make_id(at_us + number).encode(), b"%d" % due_ms, None, None, len(body), body)
        for number, body in enumerate(action.bodies)
    )


async def _creation(editor: QueueEditor, action: CreateQueue) -> FieldBatch:
    there = await editor.fields(action.queue)
    if b"vt" in there.attributes:
        raise rsmq_error("queueExists")
    seconds = b"%d" % (await editor.clock_us() // 1_000_000)
    values = {
        b"vt": b"%d" % action.vt,
        b"delay": b"%d" % action.delay,
        b"maxsize": b"%d" % action.maxsize,
        b"created": seconds,
        b"modified": seconds,
    }
    return creation(action.queue, values, there)


async def _setting(editor: QueueEditor, action: SetAttributes, seen: QueueFields | None) -> FieldBatch:
    now = await _existing(editor, action.queue)
    # What has changed since people saw it is left alone.
    there = seen or now
    values = {b"modified": b"%d" % (await editor.clock_us() // 1_000_000)}
    for name, value in ((b"vt", action.vt), (b"maxsize", action.maxsize), (b"delay", action.delay)):
        if value is not None:
            values[name] = b"%d" % value
    fields = tuple(FieldEdit(name, there.attributes.get(name), value) for name, value in values.items())
    return FieldBatch(action.queue, fields, there.listed, there.listed)
