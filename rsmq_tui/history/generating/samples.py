"""A file of samples: the lines of all queues, told poll by poll, as sealed files hold them. Arrow does the work.

A value is told of a moment up to one interval ago, another for each counter, and never beyond the last knot: so counts
are uneven, as they are, and counters never fall.
"""

from collections.abc import Sequence
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from rsmq_tui.history.generating.chance import mixed
from rsmq_tui.history.generating.lines import LIMITS, VERDICTS, Lines
from rsmq_tui.history.generating.plan import PLACE, File, Times, Wanted
from rsmq_tui.history.generating.roles import Queue
from rsmq_tui.history.names import stored_name
from rsmq_tui.history.schema import OK, SAMPLES, SCHEMAS
from rsmq_tui.monitor import Verdict

_SCHEMA = SCHEMAS[SAMPLES]
_JITTERS = 71
_INDEX, _WHOLE, _FLOAT = pa.int32(), pa.int64(), pa.float64()
# Made once: Arrow looks for numpy each time that it is given a plain number.
_NONE, _ZERO = pa.scalar(None, _WHOLE), pa.scalar(0, _WHOLE)
_POISON_RC, _AGED_MS = pa.scalar(LIMITS.poison_rc, _WHOLE), pa.scalar(LIMITS.aged_ms, _WHOLE)
_FIRST, _UNKNOWN = pa.scalar(0, _INDEX), pa.scalar(None, _INDEX)
_NUMBERS = {verdict: pa.scalar(number, _WHOLE) for number, verdict in enumerate(VERDICTS)}
_WORDS = pa.array([str(verdict) for verdict in VERDICTS])


def samples_of(wanted: Wanted, file: File, times: Times, lines: Lines, queues: Sequence[Queue]) -> pa.Table:
    """Return the rows of the polls of a file, in the order of a sealed file; ``times`` has some."""
    found = lines.of(times.at_ms)
    rows, copies = len(found["queue"]), len(queues) + 1
    at_ms = _tiled(times.at_ms, copies)
    now = _tiled([at - lines.from_ms for at in times.at_ms], copies).cast(_FLOAT)
    seed, every_ms = mixed(wanted.seed, _JITTERS, file.span.from_ms), pa.scalar(float(wanted.every_ms))

    def told(name: str, number: int) -> tuple[pa.Array, pa.Array]:
        """Return a counter, and the moments that it is told of."""
        late = pc.multiply(pc.random(rows, initializer=(seed + number) % (1 << 63)), every_ms)
        moment = pc.max_element_wise(pc.subtract(now, late), found["start"], skip_nulls=False)
        return _line(found[name], found[f"{name}_by"], moment), moment

    sent = told("sent", 0)[0]
    received, seen = told("received", 1)
    received = pc.min_element_wise(_whole(received), _whole(sent), skip_nulls=False)
    deleted = pc.min_element_wise(_whole(told("deleted", 2)[0]), received, skip_nulls=False)
    sent = _whole(sent)
    lag = _line(found["lag"], found["lag_by"], seen)
    age = pc.add(_whole(lag), _whole(pc.subtract(now, seen)))
    ready = pc.subtract(sent, received)
    is_ready = pc.greater(ready, _ZERO)
    poison = found["has_poison"]
    rc = pc.min_element_wise(_whole(_line(found["rc"], found["rc_by"], now)), found["poison_most"], skip_nulls=False)
    poisoned = pc.multiply(poison, pc.greater_equal(rc, _POISON_RC).cast(_WHOLE))
    hidden = pc.add(pc.subtract(received, deleted), poison)
    again = _whole(pc.multiply(received.cast(_FLOAT), found["again"]))
    extra = pc.add(pc.multiply(found["before"], found["poison_most"]), pc.multiply(poison, rc))
    columns = {
        "at_ms": at_ms,
        "interval_ms": _tiled(times.interval_ms, copies),
        "depth": pc.add(ready, hidden),
        "ready": ready,
        "hidden": hidden,
        # Nothing is sent with a delay.
        "oldest_ready_age_ms": pc.if_else(is_ready, age, _NONE),
        "oldest_ready_waiting_ms": pc.if_else(is_ready, age, _NONE),
        "totalsent": pc.add(sent, found["poisons"]),
        "totalrecv": pc.add(pc.add(received, again), extra),
        "vt_s": found["vt_s"],
        "delay_s": found["delay_s"],
        "maxsize": found["maxsize"],
        "created_ms": found["created_ms"],
        "modified_ms": found["created_ms"],
        "poison": poisoned,
        "highest_rc": rc,
        "verdict": _verdicts(found["verdict"], is_ready, poisoned, age),
    }
    return pa.table(_with_words(columns, found["queue"], queues, file.recorder))


def _verdicts(events: pa.Array, is_ready: pa.Array, poisoned: pa.Array, age: pa.Array) -> pa.Array:
    is_aged = pc.and_(is_ready, pc.greater_equal(age, _AGED_MS))
    found = pc.if_else(is_aged, _NUMBERS[Verdict.AGED], _NUMBERS[Verdict.OK])
    found = pc.if_else(pc.greater(poisoned, _ZERO), _NUMBERS[Verdict.POISONED], found)
    found = pc.if_else(pc.and_(is_ready, pc.greater(events, _ZERO)), events, found)
    return pa.DictionaryArray.from_arrays(found.cast(_INDEX), _WORDS)


def _with_words(
    columns: dict[str, pa.Array], numbers: pa.Array, queues: Sequence[Queue], recorder: str
) -> dict[str, pa.Array]:
    """Return all columns in their order; ``numbers`` are those of the queues."""
    rows = len(numbers)
    same = {
        "recorder": recorder,
        "profile": stored_name(PLACE.profile),
        "server": PLACE.server,
        "ns": stored_name(PLACE.ns),
        "status": OK,
    }
    is_queue = pc.is_valid(numbers)
    names = pa.array([stored_name(queue.name) for queue in queues])
    columns["queue"] = pa.DictionaryArray.from_arrays(numbers.cast(_INDEX), names)
    kind = pc.if_else(is_queue, _FIRST, _UNKNOWN)
    columns["kind"] = pa.DictionaryArray.from_arrays(kind, pa.array(["rsmq"]))
    none = pa.repeat(_FIRST, rows + 1)
    columns["problems"] = pa.ListArray.from_arrays(none, pa.array([], pa.string()), mask=pc.invert(is_queue))
    found = {}
    for column in _SCHEMA:
        if column.name in columns:
            found[column.name] = columns[column.name]
        elif column.name in same:
            found[column.name] = _repeated(same[column.name], rows)
        else:
            found[column.name] = pa.nulls(rows, column.type)
    return found


@lru_cache(maxsize=64)
def _repeated(text: str, rows: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.repeat(_FIRST, rows), pa.array([text]))


def _tiled(values: Sequence[int | None], copies: int) -> pa.Array:
    """Return the values of all polls, the last first, once for each queue."""
    once = pa.array(values[::-1], _WHOLE)
    return pa.concat_arrays([once] * copies)


def _line(start: pa.Array, slope: pa.Array, at: pa.Array) -> pa.Array:
    return pc.add(start, pc.multiply(slope, at))


def _whole(values: pa.Array) -> pa.Array:
    return pc.floor(values).cast(_WHOLE)
