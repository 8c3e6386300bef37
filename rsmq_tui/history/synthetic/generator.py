"""Writes a synthetic history file by file: samples, list queues and inventories. Arrow does the work.

Each value is of a moment up to one interval before its row, different for each counter, but never after the last knot
of its curve. So counts vary as real ones do, and counters never fall.
"""

import json
import os
import threading
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rsmq_tui.files import FileLock, state_folder
from rsmq_tui.history.names import HistoryError, explain, stored_name
from rsmq_tui.history.reading import replaced_in
from rsmq_tui.history.rows import SampleRows, inventory_end, inventory_rows, place_columns
from rsmq_tui.history.schema import MESSAGES, OK, SAMPLES, SCHEMA_FILE, SCHEMAS, describe
from rsmq_tui.history.store import open_store
from rsmq_tui.history.synthetic import plan
from rsmq_tui.history.writer import write_sealed, write_sorted
from rsmq_tui.monitor import Thresholds, Verdict
from rsmq_tui.monitor.moments import DAY_MS
from rsmq_tui.protocol.kinds import LIST, RSMQ

LIMITS = Thresholds()
VERDICTS = (Verdict.OK, Verdict.AGED, Verdict.POISONED, Verdict.GROWING, Verdict.STALLED)
_FLOATS = (
    *("start", "sent", "sent_by", "received", "received_by", "deleted", "deleted_by", "lag", "lag_by"),
    *("rc", "rc_by", "again", "vt_s", "delay_s"),
)
_WHOLES = (
    *("queue", "maxsize", "created_ms", "poisons", "has_poison", "poison_most", "before", "verdict"),
    *("since", "poisoned"),
)
_TYPES = {**dict.fromkeys(_FLOATS, pa.float64()), **dict.fromkeys(_WHOLES, pa.int64())}


class Lines:
    """The line segments of a day that begins at ``from_ms``; times are relative to that, in ms."""

    def __init__(self, from_ms: int, queues: Sequence[tuple[plan.Queue, plan.Knots]]) -> None:
        self.from_ms = from_ms
        self._knots = [knots for _, knots in queues]
        self._begin: list[int] = []
        self._starts: list[float] = []
        rows: list[list[Any]] = []
        for queue, knots in queues:
            self._begin.append(len(rows))
            self._starts.extend(knots.at_ms[:-1])
            rows.extend(_stretch(queue, knots, number, from_ms) for number in range(len(knots.at_ms) - 1))
        # The row of the poll itself, without values.
        self._place = len(rows)
        rows.append([None] * len(_TYPES))
        columns = zip(*rows, strict=True)
        self._values = {
            name: pa.array(column, type_) for (name, type_), column in zip(_TYPES.items(), columns, strict=True)
        }

    def of(self, at_ms: Sequence[int]) -> dict[str, pa.Array]:
        """Return the values of the segments at these polls, one for each row, in the order of a sealed file.

        Sealed files begin with the queue with the smallest counter, and with the last poll of each queue.
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


def _stretch(queue: plan.Queue, knots: plan.Knots, number: int, day_ms: int) -> list[Any]:
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
        None if event.since_ms is None else int(event.since_ms),
        None if event.poison_ms is None else int(event.poison_ms + (LIMITS.poison_rc - 1) * queue.vt_s * 1000),
    ]


def _verdict(event: plan.CurveState, slopes: Sequence[float]) -> int:
    """Return the verdict that applies while messages are ready."""
    if event.is_stalled:
        return VERDICTS.index(Verdict.STALLED)
    grown = (slopes[0] - slopes[2]) * LIMITS.growing_ms
    arrived = slopes[0] * LIMITS.growing_ms
    is_growing = event.is_growing and grown >= LIMITS.growing_messages and grown > LIMITS.growing_share * arrived
    return VERDICTS.index(Verdict.GROWING if is_growing else Verdict.OK)


_SAMPLES_SCHEMA = SCHEMAS[SAMPLES]
_JITTERS = 71
_INDEX, _WHOLE, _FLOAT = pa.int32(), pa.int64(), pa.float64()
# Made once: Arrow tries to import numpy for each plain number.
_NONE, _ZERO = pa.scalar(None, _WHOLE), pa.scalar(0, _WHOLE)
_POISON_RC, _AGED_MS = pa.scalar(LIMITS.poison_rc, _WHOLE), pa.scalar(LIMITS.aged_ms, _WHOLE)
_FIRST, _UNKNOWN = pa.scalar(0, _INDEX), pa.scalar(None, _INDEX)
_NUMBERS = {verdict: pa.scalar(number, _WHOLE) for number, verdict in enumerate(VERDICTS)}
_WORDS = pa.array([str(verdict) for verdict in VERDICTS])
_EMPTY, _CLEARS, _STEADY, _STALLED, _GROWING = map(pa.scalar, ("empty", "clears", "steady", "stalled", "growing"))
# A backlog clears if deletes exceed arrivals by this factor.
_CATCHING_UP = pa.scalar(1.02)


def samples_of(
    wanted: plan.HistorySpec, file: plan.File, times: plan.Times, lines: Lines, queues: Sequence[plan.Queue]
) -> pa.Table:
    """Return the rows of the polls of a file, in the order of a sealed file; ``times`` is not empty."""
    found = lines.of(times.at_ms)
    rows, copies = len(found["queue"]), len(queues) + 1
    at_ms = _tiled(times.at_ms, copies)
    now = _tiled([at - lines.from_ms for at in times.at_ms], copies).cast(_FLOAT)
    seed, every_ms = plan.mixed(wanted.seed, _JITTERS, file.span.from_ms), pa.scalar(float(wanted.every_ms))

    def counter(name: str, number: int) -> tuple[pa.Array, pa.Array]:
        """Return a counter, and the moments of its values."""
        late = pc.multiply(pc.random(rows, initializer=(seed + number) % (1 << 63)), every_ms)
        moment = pc.max_element_wise(pc.subtract(now, late), found["start"], skip_nulls=False)
        return _line(found[name], found[f"{name}_by"], moment), moment

    sent = counter("sent", 0)[0]
    received, seen = counter("received", 1)
    received = pc.min_element_wise(_whole(received), _whole(sent), skip_nulls=False)
    deleted = pc.min_element_wise(_whole(counter("deleted", 2)[0]), received, skip_nulls=False)
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
    verdict = _verdicts(found["verdict"], is_ready, poisoned, age)
    aged_ms = pc.add(pc.subtract(at_ms, age), _AGED_MS)
    catches_up = pc.greater(found["deleted_by"], pc.multiply(found["sent_by"], _CATCHING_UP))
    drain = pc.if_else(catches_up, _CLEARS, _STEADY)
    columns = {
        "at_ms": at_ms,
        "interval_ms": _tiled(times.interval_ms, copies),
        "depth": pc.add(ready, hidden),
        "ready": ready,
        "hidden": hidden,
        # No message is sent with a delay.
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
        "verdict": pa.DictionaryArray.from_arrays(verdict.cast(_INDEX), _WORDS),
        "since_ms": pc.choose(verdict, _NONE, aged_ms, found["poisoned"], found["since"], found["since"]),
        "drain": pc.if_else(is_ready, pc.choose(verdict, drain, drain, drain, _GROWING, _STALLED), _EMPTY),
    }
    return pa.table(_with_words(columns, found["queue"], queues, file.recorder))


def _verdicts(events: pa.Array, is_ready: pa.Array, poisoned: pa.Array, age: pa.Array) -> pa.Array:
    """Return the number of each row's verdict."""
    is_aged = pc.and_(is_ready, pc.greater_equal(age, _AGED_MS))
    found = pc.if_else(is_aged, _NUMBERS[Verdict.AGED], _NUMBERS[Verdict.OK])
    found = pc.if_else(pc.greater(poisoned, _ZERO), _NUMBERS[Verdict.POISONED], found)
    return pc.if_else(pc.and_(is_ready, pc.greater(events, _ZERO)), events, found)


def _with_words(
    columns: dict[str, pa.Array], numbers: pa.Array, queues: Sequence[plan.Queue], recorder: str
) -> dict[str, pa.Array]:
    """Return all columns in the order of the schema; ``numbers`` are those of the queues."""
    rows = len(numbers)
    same = {**place_columns(recorder, plan.PLACE), "status": OK}
    is_queue = pc.is_valid(numbers)
    names = pa.array([stored_name(queue.name) for queue in queues])
    columns["queue"] = pa.DictionaryArray.from_arrays(numbers.cast(_INDEX), names)
    kind = pc.if_else(is_queue, _FIRST, _UNKNOWN)
    columns["kind"] = pa.DictionaryArray.from_arrays(kind, pa.array([RSMQ.name]))
    none = pa.repeat(_FIRST, rows + 1)
    columns["problems"] = pa.ListArray.from_arrays(none, pa.array([], pa.string()), mask=pc.invert(is_queue))
    found = {}
    for column in _SAMPLES_SCHEMA:
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


_LIST_UNKNOWN = (
    *("oldest_ready_age_ms", "totalsent", "totalrecv", "vt_s", "delay_s", "maxsize", "created_ms", "modified_ms"),
    *("poison", "highest_rc", "oldest_ready_waiting_ms"),
)
# Verdicts that depend on ages or receive counts.
_UNKNOWN_VERDICTS = pa.array([str(Verdict.AGED), str(Verdict.POISONED)])
_OK, _LIST_ZERO = pa.scalar(str(Verdict.OK)), pa.scalar(0, pa.int64())


def as_lists(table: pa.Table) -> pa.Table:
    """Convert the rows to those of list queues."""
    schema, rows = SCHEMAS[SAMPLES], table.num_rows
    is_queue = pc.is_valid(table.column("queue"))
    verdict = table.column("verdict").cast(pa.string())
    is_unknown = pc.is_in(verdict, value_set=_UNKNOWN_VERDICTS)
    columns = {
        "ns": pa.repeat(pa.scalar(stored_name(plan.LISTS.ns)), rows),
        "since_ms": pc.if_else(is_unknown, pa.scalar(None, pa.int64()), table.column("since_ms")),
        "kind": pc.if_else(is_queue, pa.scalar(LIST.name), pa.scalar(None, pa.string())),
        "verdict": pc.if_else(is_unknown, _OK, verdict),
        "expired": pc.if_else(is_queue, _LIST_ZERO, pa.scalar(None, pa.int64())),
        **{name: pa.nulls(rows, schema.field(name).type) for name in _LIST_UNKNOWN},
    }
    return pa.table({field.name: columns.get(field.name, table.column(field.name)) for field in schema}).cast(schema)


_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
# The limit of an inventory, like the recorder's.
_MESSAGES_MAX = 100_000
# The time between the inventories of two queues.
_QUEUE_MS = 2
_ID, _SIZE, _AGAIN, _POISON = 51, 52, 53, 54

_COLUMNS = ("id", "sent_ms", "due_ms", "rc", "fr_ms", "size")
_Message = tuple[str, int, int, int, int | None, int]


def messages_of(file: plan.File, at_ms: int, queues: Sequence[tuple[plan.Queue, plan.Curve]]) -> pa.Table:
    """Return the rows of the inventories of all queues that begin at a time."""
    batches = []
    for number, (queue, curve) in enumerate(queues):
        begun_ms, found = at_ms + number * _QUEUE_MS, list(_messages(queue, curve, at_ms + number * _QUEUE_MS))
        of = {"at_ms": begun_ms, "inventory_ms": begun_ms}
        columns = dict(zip(_COLUMNS, map(list, zip(*found[:_MESSAGES_MAX], strict=True)), strict=False))
        batches.append(inventory_rows(file.recorder, plan.PLACE, queue.name, columns, len(found[:_MESSAGES_MAX]), **of))
        if len(found) <= _MESSAGES_MAX:
            batches.append(inventory_end(file.recorder, plan.PLACE, queue.name, **of))
    return pa.Table.from_batches(batches)


def _messages(queue: plan.Queue, curve: plan.Curve, at_ms: int) -> Iterator[_Message]:
    """Yield the messages of a queue, the oldest first."""
    counts = curve.counts(at_ms)
    vt_ms, delay_ms, life = round(queue.vt_s * 1000), round(queue.delay_s * 1000), round(counts.created_ms)
    event = counts.event
    if event.poison_ms is not None:
        first_ms = round(event.poison_ms)
        rc = 1 + (at_ms - first_ms) // vt_ms
        sent_ms = first_ms - round(queue.wait_ms)
        id_ = _id(sent_ms, plan.mixed(queue.seed, queue.number, _POISON, event.poisons))
        yield id_, sent_ms, first_ms + rc * vt_ms, rc, first_ms, 666
    first, last = int(counts.deleted) + 1, min(int(counts.sent), int(counts.deleted) + _MESSAGES_MAX + 1)
    for number, sent in zip(range(first, last + 1), curve.sent_at(first, last, at_ms), strict=True):
        chance = plan.mixed(queue.seed, queue.number, life, number)
        sent_ms, size = min(at_ms, round(sent)), 60 + plan.mixed(chance, _SIZE) % 1500
        id_ = _id(sent_ms, chance)
        if number > counts.received:
            yield id_, sent_ms, sent_ms + delay_ms, 0, None, size
            continue
        seen_ms = min(at_ms, round(sent_ms + counts.lag_ms))
        rc = 1 + (plan.share(chance, _AGAIN) < queue.again)
        yield id_, sent_ms, seen_ms + vt_ms, rc, max(sent_ms, seen_ms - (rc - 1) * vt_ms), size


def _id(sent_ms: int, chance: int) -> str:
    """Return an id in the canonical format: the time in microseconds, and 22 characters."""
    left, prefix = sent_ms * 1000 + chance % 1000, ""
    while left:
        left, digit = divmod(left, 36)
        prefix = _DIGITS[digit] + prefix
    return f"{prefix.rjust(10, '0')}{chance:016x}{plan.mixed(chance, _ID) >> 40:06x}"


_MARK = "_generated.json"
_SCRATCH = "_generating"
_DOWN = "connection refused"


class Progress(NamedTuple):
    """The progress: files, rows, messages and bytes; ``day`` is the current day."""

    day: str
    files: int
    of: int
    rows: int
    messages: int
    bytes: int
    kept: int
    """Files that already existed."""


class Generator:
    """Generates a history in ``out``, a folder or a URL; ``state`` is the user's folder, for temporary files.

    Raises ``HistoryError`` if ``out`` cannot be written or contains another history.
    """

    def __init__(self, wanted: plan.HistorySpec, out: str | Path, *, state: Path | None = None) -> None:
        self.plan = plan.Plan(wanted)
        self._store, segments = open_store(str(out), state or state_folder())
        self.label = self._store.label
        self._scratch = segments.parent / _SCRATCH
        self._queues = [
            (queue := plan.queue_of(number, wanted.seed), plan.Curve(queue)) for number in range(wanted.queues)
        ]
        self._lists = [
            (queue := plan.list_queue_of(number, wanted.seed), plan.Curve(queue)) for number in range(wanted.lists)
        ]
        self._stopped = threading.Event()

    def run(self, tell: Callable[[Progress], None] = lambda _: None, threads: int | None = None) -> Progress:
        """Write the missing files, and return their totals; raises ``HistoryError``.

        If it is stopped, all files are complete, and the next run continues.
        """
        try:
            self._store.prepare()
            with self._scratching():
                self._begin()
                return self._make(list(self.plan.files()), tell, threads or os.cpu_count() or 1)
        except HistoryError:
            raise
        except Exception as error:
            # Each kind of filesystem has errors of its own.
            raise HistoryError(explain(error, self.label)) from error

    def _make(self, files: Sequence[plan.File], tell: Callable[[Progress], None], threads: int) -> Progress:
        there = {file.name for table in (SAMPLES, MESSAGES) for file in self._store.files(table)}
        there |= replaced_in(self._store, there)
        missing = [file for file in files if not there.issuperset(self._names(file))]
        done = Progress("", len(files) - len(missing), len(files), 0, 0, 0, len(files) - len(missing))
        waiting = deque(missing)
        # All queues of one day; files are in chronological order.
        day_of_queues, day_of_lists = (lru_cache(1)(partial(_lines, queues)) for queues in (self._queues, self._lists))
        with ThreadPoolExecutor(threads) as pool:
            running: set[Future[tuple[str, int, int, int]]] = set()
            try:
                while waiting or running:
                    while waiting and len(running) <= threads:
                        file = waiting.popleft()
                        from_ms = file.span.from_ms // DAY_MS * DAY_MS
                        curves = day_of_queues(from_ms), day_of_lists(from_ms) if self._lists else None
                        running.add(pool.submit(self._file, file, *curves, there))
                    ready, running = wait(running, return_when=FIRST_COMPLETED)
                    for future in ready:
                        day, rows, messages, size = future.result()
                        done = done._replace(
                            day=day,
                            files=done.files + 1,
                            rows=done.rows + rows,
                            messages=done.messages + messages,
                            bytes=done.bytes + size,
                        )
                        tell(done)
            except BaseException:
                self._stopped.set()
                raise
        return done

    def _begin(self) -> None:
        mark = json.dumps(self.plan.wanted.must_equal) + "\n"
        found = self._store.read(_MARK)
        if found is None and (self._store.read(SCHEMA_FILE) is not None or self._is_used()):
            raise HistoryError(f"{self.label} contains a recorded history: name another folder")
        if found not in (None, mark):
            raise HistoryError(
                f"{self.label} was generated with other options: use the same options, or another folder"
            )
        if found is None:
            self._store.write(_MARK, mark, self._scratch / _MARK)
            self._store.write(SCHEMA_FILE, describe(), self._scratch / SCHEMA_FILE)

    def _is_used(self) -> bool:
        return any(self._store.files(table) for table in (SAMPLES, MESSAGES))

    @contextmanager
    def _scratching(self) -> Iterator[None]:
        """Create and lock the folder for temporary files."""
        self._scratch.mkdir(parents=True, exist_ok=True)
        lock = FileLock.acquire(self._scratch / "lock")
        if lock is None:
            raise HistoryError(
                f"{self.label} is already being generated: wait until it is done, or name another folder"
            )
        try:
            yield
        finally:
            with suppress(OSError):
                for path in self._scratch.iterdir():
                    path.unlink()
                self._scratch.rmdir()
            lock.release()

    def _names(self, file: plan.File) -> list[str]:
        tables = [SAMPLES] if not self.plan.inventories(file.span) else [SAMPLES, MESSAGES]
        return [f"{table}/day={file.day}/{file.name}" for table in tables]

    def _file(self, file: plan.File, lines: Lines, lists: Lines | None, there: set[str]) -> tuple[str, int, int, int]:
        """Write one file of samples, and one of messages if due; return the day, rows, messages and bytes."""
        rows = messages = size = 0
        if not self._stopped.is_set() and f"{SAMPLES}/day={file.day}/{file.name}" not in there:
            rows, size = self._samples(file, lines, lists)
        inventories, name = self.plan.inventories(file.span), f"{MESSAGES}/day={file.day}/{file.name}"
        if inventories and not self._stopped.is_set() and name not in there:
            table = pa.concat_tables([messages_of(file, at_ms, self._queues) for at_ms in inventories])
            messages, size = table.num_rows, size + self._publish(name, lambda path: write_sealed(table, path))
        return file.day, rows, messages, size

    def _samples(self, file: plan.File, lines: Lines, lists: Lines | None) -> tuple[int, int]:
        """Write a file of samples, in which lists are a separate place; return its rows and bytes."""
        times, failed = self.plan.polls(file.span)
        name, wanted = f"{SAMPLES}/day={file.day}/{file.name}", self.plan.wanted
        tables = []
        if times.at_ms:
            tables.append(samples_of(wanted, file, times, lines, [queue for queue, _ in self._queues]))
            if lists is not None:
                queues = [queue for queue, _ in self._lists]
                tables.append(as_lists(samples_of(wanted, file, times, lists, queues)))
        if len(tables) == 1 and not failed:
            # The rows are sorted already.
            return tables[0].num_rows, self._publish(name, lambda path: write_sorted(tables[0], path, [plan.PLACE]))
        for place in (plan.PLACE,) if lists is None else (plan.PLACE, plan.LISTS):
            down = SampleRows(file.recorder, place)
            tables += [pa.Table.from_batches([down.failed(_DOWN, at_ms)]) for at_ms in failed]
        if not tables:
            return 0, 0
        whole = pa.concat_tables([table.cast(SCHEMAS[SAMPLES]) for table in tables])
        return whole.num_rows, self._publish(name, lambda path: write_sealed(whole, path))

    def _publish(self, name: str, write: Callable[[Path], None]) -> int:
        path = self._scratch / name.replace("/", "_")
        write(path)
        size = path.stat().st_size
        self._store.publish(path, name)
        return size


def _lines(queues: Sequence[tuple[plan.Queue, plan.Curve]], from_ms: int) -> Lines:
    """Return the lines of queues on the day that begins there."""
    return Lines(from_ms, [(queue, curve.day(from_ms)) for queue, curve in queues])
