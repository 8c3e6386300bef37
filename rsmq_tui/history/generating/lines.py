"""A day of all queues as stretches in which everything goes in a line, and which of them the rows of a file are on."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rsmq_tui.history.generating.curves import Event, Knots
from rsmq_tui.history.generating.roles import Queue
from rsmq_tui.monitor import Thresholds, Verdict

LIMITS = Thresholds()
VERDICTS = (Verdict.OK, Verdict.AGED, Verdict.POISONED, Verdict.GROWING, Verdict.STALLED)
_FLOATS = (
    *("start", "sent", "sent_by", "received", "received_by", "deleted", "deleted_by", "lag", "lag_by"),
    *("rc", "rc_by", "again", "vt_s", "delay_s"),
)
_WHOLES = ("queue", "maxsize", "created_ms", "poisons", "has_poison", "poison_most", "before", "verdict")
_TYPES = {**dict.fromkeys(_FLOATS, pa.float64()), **dict.fromkeys(_WHOLES, pa.int64())}


class Lines:
    """The stretches of a day, which begins at ``from_ms``: times are from there on, in ms."""

    def __init__(self, from_ms: int, queues: Sequence[tuple[Queue, Knots]]) -> None:
        self.from_ms = from_ms
        self._knots = [knots for _, knots in queues]
        self._begin: list[int] = []
        self._starts: list[float] = []
        rows: list[list[Any]] = []
        for queue, knots in queues:
            self._begin.append(len(rows))
            self._starts.extend(knots.at_ms[:-1])
            rows.extend(_stretch(queue, knots, number, from_ms) for number in range(len(knots.at_ms) - 1))
        # The row of a poll that tells of the whole place: nothing is known of it.
        self._place = len(rows)
        rows.append([None] * len(_TYPES))
        columns = zip(*rows, strict=True)
        self._values = {
            name: pa.array(column, type_) for (name, type_), column in zip(_TYPES.items(), columns, strict=True)
        }

    def of(self, at_ms: Sequence[int]) -> dict[str, pa.Array]:
        """Return the values of the stretches that these polls are on, once for each row, as sealed files have them.

        These begin with the queue whose counter is the least, and with the last poll of each.
        """
        first_ms, last_ms = at_ms[0], at_ms[-1]
        found = []
        for begin, knots in zip(self._begin, self._knots, strict=True):
            times = knots.at_ms
            first = bisect_right(times, first_ms) - 1
            last = bisect_right(times, last_ms, first) - 1
            found.append((knots.sent[first], begin + first, begin + last))
        found.sort()
        polls, rows = len(at_ms), 0
        stretches: list[int] = []
        ends: list[int] = []
        for _, first, last in found:
            left = polls
            for stretch in range(last, first, -1):
                begin = bisect_left(at_ms, self._starts[stretch], 0, left)
                if begin < left:
                    rows += left - begin
                    stretches.append(stretch)
                    ends.append(rows)
                    left = begin
            if left:
                rows += left
                stretches.append(first)
                ends.append(rows)
        stretches.append(self._place)
        ends.append(rows + polls)
        chosen, run_ends = pa.array(stretches, pa.int32()), pa.array(ends, pa.int32())
        return {
            name: pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(run_ends, values.take(chosen)))
            for name, values in self._values.items()
        }


def _stretch(queue: Queue, knots: Knots, number: int, day_ms: int) -> list[Any]:
    from_ms = knots.at_ms[number]
    event, lasts_ms, start = knots.events[number], knots.at_ms[number + 1] - from_ms, from_ms - day_ms
    lines: list[float] = []
    slopes: list[float] = []
    for values in (knots.sent, knots.received, knots.deleted, knots.lag_ms):
        slope = (values[number + 1] - values[number]) / lasts_ms if lasts_ms > 0 else 0.0
        lines.extend((values[number] - slope * start, slope))
        slopes.append(slope)
    rc, rc_by = 1.0, 0.0
    if event.poison_ms is not None:
        rc_by = 1 / (queue.vt_s * 1000)
        rc = 1 + (day_ms - event.poison_ms) * rc_by
    has_poison = int(event.poison_ms is not None)
    return [
        *(start, *lines, rc, rc_by, queue.again, queue.vt_s, queue.delay_s),
        *(queue.number, queue.maxsize, int(event.created_ms), event.poisons, has_poison, queue.poison_most),
        event.poisons - has_poison,
        _verdict(event, slopes),
    ]


def _verdict(event: Event, slopes: Sequence[float]) -> int:
    """Return what is wrong as long as messages are ready."""
    if event.is_stalled:
        return VERDICTS.index(Verdict.STALLED)
    grown = (slopes[0] - slopes[2]) * LIMITS.growing_ms
    arrived = slopes[0] * LIMITS.growing_ms
    is_growing = event.is_growing and grown >= LIMITS.growing_messages and grown > LIMITS.growing_share * arrived
    return VERDICTS.index(Verdict.GROWING if is_growing else Verdict.OK)
