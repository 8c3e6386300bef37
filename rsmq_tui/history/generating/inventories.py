"""An inventory: every message that there is at a time, with the id, the times and the size that it has in each."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from rsmq_tui.history.generating.chance import mixed, share
from rsmq_tui.history.generating.curves import Curve
from rsmq_tui.history.generating.plan import PLACE, File
from rsmq_tui.history.generating.roles import Queue
from rsmq_tui.history.names import stored_name
from rsmq_tui.history.schema import MESSAGES, SCHEMAS

_SCHEMA = SCHEMAS[MESSAGES]
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
# Beyond this an inventory is cut short, as the recorder's is.
_MESSAGES_MAX = 100_000
# The inventories of queues follow one another.
_QUEUE_MS = 2
_ID, _SIZE, _AGAIN, _POISON = 51, 52, 53, 54

_COLUMNS = ("id", "sent_ms", "due_ms", "rc", "fr_ms", "size")
_Message = tuple[str, int, int, int, int | None, int]


def messages_of(file: File, at_ms: int, queues: Sequence[tuple[Queue, Curve]]) -> pa.Table:
    """Return the rows of the inventories of all queues that begin at a time."""
    rows: dict[str, list[Any]] = {
        name: [] for name in ("at_ms", "queue", "id", "sent_ms", "due_ms", "rc", "fr_ms", "size")
    }
    for number, (queue, curve) in enumerate(queues):
        begun_ms, name, before = at_ms + number * _QUEUE_MS, stored_name(queue.name), len(rows["id"])
        found = list(_messages(queue, curve, begun_ms))
        columns = zip(*found[:_MESSAGES_MAX], strict=True) if found else ((),) * len(_COLUMNS)
        # The last row says that the inventory is whole.
        end = [None] if len(found) <= _MESSAGES_MAX else []
        for column, values in zip(_COLUMNS, columns, strict=True):
            rows[column].extend((*values, *end))
        count = len(rows["id"]) - before
        rows["at_ms"].extend([begun_ms] * count)
        rows["queue"].extend([name] * count)
    same = {"recorder": file.recorder, "profile": stored_name(PLACE.profile), "server": PLACE.server}
    same["ns"] = stored_name(PLACE.ns)
    rows["inventory_ms"] = rows["at_ms"]
    count = len(rows["id"])
    return pa.table(
        {
            field.name: pa.array(rows[field.name], field.type)
            if field.name in rows
            else pa.array([same.get(field.name)] * count, field.type)
            for field in _SCHEMA
        },
        schema=_SCHEMA,
    )


def _messages(queue: Queue, curve: Curve, at_ms: int) -> Iterator[_Message]:
    """Yield the messages of a queue, the oldest first."""
    counts = curve.counts(at_ms)
    vt_ms, delay_ms, life = round(queue.vt_s * 1000), round(queue.delay_s * 1000), round(counts.created_ms)
    event = counts.event
    if event.poison_ms is not None:
        first_ms = round(event.poison_ms)
        rc = 1 + (at_ms - first_ms) // vt_ms
        sent_ms = first_ms - round(queue.wait_ms)
        id_ = _id(sent_ms, mixed(queue.seed, queue.number, _POISON, event.poisons))
        yield id_, sent_ms, first_ms + rc * vt_ms, rc, first_ms, 666
    first, last = int(counts.deleted) + 1, min(int(counts.sent), int(counts.deleted) + _MESSAGES_MAX + 1)
    for number, sent in zip(range(first, last + 1), curve.sent_at(first, last, at_ms), strict=True):
        chance = mixed(queue.seed, queue.number, life, number)
        sent_ms, size = min(at_ms, round(sent)), 60 + mixed(chance, _SIZE) % 1500
        id_ = _id(sent_ms, chance)
        if number > counts.received:
            yield id_, sent_ms, sent_ms + delay_ms, 0, None, size
            continue
        seen_ms = min(at_ms, round(sent_ms + counts.lag_ms))
        rc = 1 + (share(chance, _AGAIN) < queue.again)
        yield id_, sent_ms, seen_ms + vt_ms, rc, max(sent_ms, seen_ms - (rc - 1) * vt_ms), size


def _id(sent_ms: int, chance: int) -> str:
    """Return an id as clients make them: the time in microseconds, and 22 characters."""
    left, prefix = sent_ms * 1000 + chance % 1000, ""
    while left:
        left, digit = divmod(left, 36)
        prefix = _DIGITS[digit] + prefix
    return f"{prefix.rjust(10, '0')}{chance:016x}{mixed(chance, _ID) >> 40:06x}"
