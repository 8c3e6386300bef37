"""The queues that messages go to: whether they are there, what they take, and how they are made."""

from collections.abc import Sequence

from rsmq_tui.protocol import RawMessage, validation
from rsmq_tui.protocol.editor import QueueEditor, QueueFields
from rsmq_tui.protocol.edits import FieldBatch, FieldEdit

_TARGETS_KNOWN = 1_000
# A UTF-16 code unit, in which maxsize is measured, takes up to three bytes of UTF-8.
_BYTES_PER_UNIT = 3


class Targets:
    """What is known of the queues that messages go to."""

    def __init__(self, editor: QueueEditor, own: QueueFields) -> None:
        self._editor = editor
        self._own = own
        self._known: dict[str, QueueFields] = {}

    async def fields(self, queue: str) -> QueueFields:
        """Return a queue's fields, as they were when it was asked for lately; raises ``RsmqError`` where it is none."""
        if queue not in self._known:
            validation.queue_name(queue)
            if len(self._known) >= _TARGETS_KNOWN:
                self._known.clear()
            self._known[queue] = await self._editor.fields(queue)
        return self._known[queue]

    async def maxsize(self, queue: str) -> int | None:
        """Return the longest body that a queue takes, in UTF-16 code units, or None where there is no limit."""
        raw = (await self.fields(queue)).attributes.get(b"maxsize", b"")
        limit = int(raw) if raw.isdigit() else -1
        return None if limit < 0 else limit

    async def fitting(self, queue: str, target: str, messages: Sequence[RawMessage]) -> list[RawMessage]:
        """Return those of a queue's messages that a target takes; bodies are read where their lengths do not tell."""
        limit = await self.maxsize(target)
        if limit is None or all(message.size <= limit for message in messages):
            return list(messages)
        unsure = [message.id for message in messages if limit < message.size <= limit * _BYTES_PER_UNIT]
        read = (await self._editor.values(queue, unsure))[1] if unsure else ()
        units = {id: validation.stored_size(body or b"") for id, (body, _, _) in zip(unsure, read, strict=True)}
        return [message for message in messages if units.get(message.id, message.size) <= limit]

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
