"""The recorded polls of a replay, and the times at which verdicts changed or servers went away and came back.

Changes are found by reading only a few columns, hour by hour. Of each queue only those rows are kept at which its
verdict changes, and its first and last row of the hour. Results are cached.
"""

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from statistics import median_low
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rsmq_tui.history.names import HistoryError, Place, read_name
from rsmq_tui.history.reading import History, Poll, Span, named
from rsmq_tui.history.replay.tracking import Pace
from rsmq_tui.history.schema import OK
from rsmq_tui.history.store import day_span_ms
from rsmq_tui.monitor import Verdict

WINDOW_MS = 600_000
_WINDOWS_KEPT = 4
_DAY_MS = 86_400_000
_USUAL_INTERVAL_MS = 5_000
# Neither before nor after any moment.
_NO_DAY = (1 << 63, -(1 << 63))
# So many tell what is usual.
_INTERVALS = 10


class Timeline:
    """A history's polls by their times; raises ``HistoryError`` where there is none of them.

    ``places`` are those known by now: a place that nothing told of before is there when its polls are read. Where
    several recorders recorded a place, the one that began on the earlier day plays while it does record, and another
    where it does not.
    """

    def __init__(self, history: History, near_ms: int | None = None) -> None:
        """Look what there is; of the day of ``near_ms``, or the last one, every place is known from the start."""
        history.refresh()
        span = history.span()
        if span is None:
            why = f": {history.problems[0]}" if history.problems else ""
            raise HistoryError(f"{history.label} contains nothing to replay yet{why}")
        self.history = history
        self.span = span
        self.ranks = _ranks(file.name for file in history.listed())
        self.places = _places(history, span.to_ms if near_ms is None else near_ms)
        self.pace = Pace(_USUAL_INTERVAL_MS)
        self._windows: OrderedDict[int, tuple[Poll, ...]] = OrderedDict()
        self.pace = Pace(self._interval_ms())
        self._windows.clear()

    def refresh(self) -> None:
        """Look for what was recorded, or removed, meanwhile."""
        before = self.history.listed()
        self.history.refresh()
        found = self.history.span()
        if found is not None and self.history.listed() != before:
            self.span = found
            self.ranks = _ranks(file.name for file in self.history.listed())
            self._windows.clear()

    def polls(self, from_ms: int, to_ms: int) -> Iterator[Poll]:
        """Yield the polls of that span, both ends in it."""
        for index in range(from_ms // WINDOW_MS, to_ms // WINDOW_MS + 1):
            window = self._window(index)
            first = bisect_left(window, from_ms, key=_time_of_poll)
            yield from window[first : bisect_right(window, to_ms, key=_time_of_poll)]

    def near(self, at_ms: int, direction: int) -> int | None:
        """Return when the first poll was made after that moment; where negative, the last one before it."""
        for index in self.windows(at_ms, direction, WINDOW_MS):
            found = [poll.at_ms for poll in self._window(index) if (poll.at_ms - at_ms) * direction > 0]
            if found:
                return min(found) if direction > 0 else max(found)
        return None

    def windows(self, at_ms: int, direction: int, width_ms: int) -> Iterator[int]:
        """Yield the numbers of the windows of a width that may hold something, from that of a moment on, or back."""
        index: int | None = at_ms // width_ms
        while index is not None:
            yield index
            file_ms = self._file_ms((index + 1) * width_ms if direction > 0 else index * width_ms - 1, direction)
            index = None if file_ms is None else file_ms // width_ms

    def _file_ms(self, at_ms: int, direction: int) -> int | None:
        """Return the moment nearest to that one, from there on or until there, of which a file may have rows."""
        for day in self._days()[:: 1 if direction > 0 else -1]:
            start_ms, end_ms = day_span_ms(day) or _NO_DAY
            span = Span(at_ms, end_ms) if direction > 0 else Span(start_ms, at_ms)
            files = self.history.files(span) if span.from_ms <= span.to_ms else []
            if files and direction > 0:
                return max(at_ms, min(file.span.from_ms for file in files))
            if files:
                return min(at_ms, max(file.span.to_ms for file in files))
        return None

    def played(self, times: dict[str, list[int]]) -> dict[str, list[int]]:
        """Return, of the times that each recorder polled a place at, sorted, those that are played."""
        chosen: dict[str, list[int]] = {}
        for recorder in sorted(times, key=lambda recorder: self.ranks.get(recorder, len(self.ranks))):
            better = list(chosen.values())
            chosen[recorder] = [at_ms for at_ms in times[recorder] if not self._is_covered(at_ms, better)]
        return chosen

    def _is_covered(self, at_ms: int, better: Iterable[Sequence[int]]) -> bool:
        """Tell whether another recorder polled shortly before and shortly after."""
        gap_ms = self.pace.gap_ms
        for times in better:
            place = bisect_right(times, at_ms)
            if 0 < place < len(times) and times[place] - gap_ms <= at_ms <= times[place - 1] + gap_ms:
                return True
        return False

    def _window(self, index: int) -> tuple[Poll, ...]:
        found = self._windows.get(index)
        if found is not None:
            self._windows.move_to_end(index)
            return found
        start_ms, end_ms = index * WINDOW_MS, (index + 1) * WINDOW_MS - 1
        # Which of several plays is told by what they did around.
        around_ms = self.pace.gap_ms if len(self.ranks) > 1 else 0
        polls = self._chosen(list(self.history.polls(Span(start_ms - around_ms, end_ms + around_ms))))
        window = tuple(poll for poll in polls if start_ms <= poll.at_ms <= end_ms)
        self._windows[index] = window
        # Those that are known keep their order.
        self.places += tuple(sorted({poll.place for poll in window}.difference(self.places)))
        while len(self._windows) > _WINDOWS_KEPT:
            self._windows.popitem(last=False)
        return window

    def _chosen(self, polls: list[Poll]) -> list[Poll]:
        by_place: dict[Place, dict[str, list[int]]] = {}
        for poll in polls:
            by_place.setdefault(poll.place, {}).setdefault(poll.recorder, []).append(poll.at_ms)
        if all(len(times) == 1 for times in by_place.values()):
            return polls
        played = {
            (place, recorder): set(kept)
            for place, times in by_place.items()
            for recorder, kept in self.played(times).items()
        }
        return [poll for poll in polls if poll.at_ms in played[poll.place, poll.recorder]]

    def _interval_ms(self) -> int:
        """Return the usual time between polls, towards the end."""
        spans: list[int] = []
        at_ms = self.span.to_ms + 1
        for _ in range(_WINDOWS_KEPT):
            last_ms = None if len(spans) >= _INTERVALS else self.near(at_ms, -1)
            if last_ms is None:
                break
            window = self._window(last_ms // WINDOW_MS)
            spans += [poll.interval_ms for poll in window if poll.interval_ms is not None]
            at_ms = window[0].at_ms
        return max(1, median_low(spans)) if spans else _USUAL_INTERVAL_MS

    def _days(self) -> list[str]:
        return [day for day, _ in groupby(file.day for file in self.history.listed())]


def _time_of_poll(poll: Poll) -> int:
    return poll.at_ms


def _ranks(names: Iterable[str]) -> dict[str, int]:
    """Return which recorder goes before which: names come day by day."""
    ranks: dict[str, int] = {}
    for name in names:
        ranks.setdefault(_recorder(name), len(ranks))
    return ranks


def _recorder(name: str) -> str:
    return name.rpartition("/")[2].partition("-")[0]


def _places(history: History, near_ms: int) -> tuple[Place, ...]:
    """Return the places of the first and last file of each recorder and day, and of all files of that day.

    A recorder writes a row of each place, whatever happens; only where somebody switched namespaces in a dashboard that
    records may a place be in none of these. The files of that day are looked at anyway.
    """
    day_ms = near_ms // _DAY_MS * _DAY_MS
    found = set(history.places(Span(day_ms, day_ms + _DAY_MS - 1)))
    first = {(file.day, _recorder(file.name)): file.name for file in reversed(history.listed())}
    last = {(file.day, _recorder(file.name)): file.name for file in history.listed()}
    for name in {*first.values(), *last.values()}:
        found.update(history.places_in(name))
    return tuple(sorted(found))


HOUR_MS = 3_600_000
_HOURS_KEPT = 48
_OF = ("profile", "server", "ns", "queue")
# A queue in its place; and what follows a search, hour by hour.
Of = tuple[Place, str]
Told = Callable[[int], bool]
# Made once: Arrow looks for numpy each time that it is given a plain value.
_TRUE, _FALSE = pa.array([True]), pa.array([False])
_NO_CODE = pa.scalar(-1, pa.int32())
_COLUMNS = ("at_ms", "recorder", *_OF, "verdict", "status")


class Change(NamedTuple):
    """A queue's verdict became another at a poll, or, where ``queue`` is None, polls of a place failed or work again.

    ``before`` is None where the queue is new. It is ``ok`` or ``down`` for a place.
    """

    at_ms: int
    place: Place
    queue: str | None
    before: str | None
    after: str


class _Mark(NamedTuple):
    """What was said of a queue, or of a place, at a moment."""

    at_ms: int
    place: Place
    queue: str | None
    said: str


class Changes:
    """Looks for changes in a timeline."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._hours: OrderedDict[int, tuple[_Mark, ...]] = OrderedDict()

    def forget(self) -> None:
        """Forget what was found: there is more now."""
        self._hours.clear()

    def near(self, at_ms: int, direction: int, queue: Of | None = None, told: Told | None = None) -> list[Change]:
        """Return the first changes after that moment, or, where negative, the last before it: all of one moment.

        There are none where nothing changes. ``queue`` wants those of one queue and its place only. ``told`` is given
        the time of each hour before it is looked through, and may end the search by False.
        """
        for hour in self._timeline.windows(at_ms, direction, HOUR_MS):
            if told is not None and not told(hour * HOUR_MS):
                break
            found = [change for change in self._changes(hour) if _is_wanted(change, queue)]
            times = [change.at_ms for change in found if (change.at_ms - at_ms) * direction > 0]
            if times:
                nearest_ms = min(times) if direction > 0 else max(times)
                return [change for change in found if change.at_ms == nearest_ms]
        return []

    def _changes(self, hour: int) -> list[Change]:
        """Return the changes of an hour, in the order of their times."""
        said: dict[tuple[Place, str | None], str] = {}
        for mark in self._marks(hour - 1):
            said[mark.place, mark.queue] = mark.said
        found = []
        for mark in self._marks(hour):
            key = mark.place, mark.queue
            before = said.get(key)
            said[key] = mark.said
            is_new = before is None and mark.queue is not None and mark.said != Verdict.OK
            # What is there as the recording begins did not change.
            if (is_new and self._is_followed(mark)) or (before is not None and before != mark.said):
                found.append(Change(mark.at_ms, mark.place, mark.queue, before, mark.said))
        return found

    def _is_followed(self, mark: _Mark) -> bool:
        """Tell whether the place was polled shortly before."""
        around = self._timeline.polls(mark.at_ms - self._timeline.pace.gap_ms, mark.at_ms - 1)
        return any(poll.place == mark.place for poll in around)

    def _marks(self, hour: int) -> tuple[_Mark, ...]:
        found = self._hours.get(hour)
        if found is None:
            found = self._hours[hour] = tuple(_new(sorted(self._read(hour), key=_order)))
            while len(self._hours) > _HOURS_KEPT:
                self._hours.popitem(last=False)
        return found

    def _read(self, hour: int) -> Iterable[_Mark]:
        timeline = self._timeline
        within = Span(hour * HOUR_MS, (hour + 1) * HOUR_MS - 1)
        around_ms = timeline.pace.gap_ms if len(timeline.ranks) > 1 else 0
        around = Span(within.from_ms - around_ms, within.to_ms + around_ms)
        tables = [(file, timeline.history.columns(file.name, _COLUMNS)) for file in timeline.history.files(around)]
        known = [_within(table, file.span, around) for file, table in tables if table is not None]
        if around_ms:
            known = self._played(known, within)
        for table in known:
            for row in _marking(table).to_pylist():
                place = named(row["profile"], row["server"], row["ns"])
                queue = row["queue"]
                said = row["status"] if queue is None else row["verdict"]
                # From ok to watching and back is no news.
                said = OK if said == Verdict.WATCHING else said or OK
                yield _Mark(row["at_ms"], place, None if queue is None else read_name(queue), said)

    def _played(self, tables: list[pa.Table], within: Span) -> list[pa.Table]:
        """Leave out what other recorders wrote of a place than the one that plays."""
        times: dict[tuple[str, ...], dict[str, list[int]]] = {}
        for table in tables:
            alone = table.filter(pc.is_null(table.column("queue")))
            for row in alone.select(["at_ms", "recorder", "profile", "server", "ns"]).to_pylist():
                at_ms, recorder, *place = row.values()
                times.setdefault(tuple(place), {}).setdefault(recorder, []).append(at_ms)
        kept = []
        for place, by_recorder in times.items():
            for polled in by_recorder.values():
                polled.sort()
            played = by_recorder if len(by_recorder) == 1 else self._timeline.played(by_recorder)
            for recorder, polled in played.items():
                wanted = [at_ms for at_ms in polled if within.from_ms <= at_ms <= within.to_ms]
                for table in tables:
                    mask = pc.is_in(table.column("at_ms"), value_set=pa.array(wanted, pa.int64()))
                    for name, value in zip(("recorder", "profile", "server", "ns"), (recorder, *place), strict=True):
                        mask = pc.and_(mask, pc.equal(table.column(name), value))
                    kept.append(table.filter(mask))
        return [table for table in kept if table.num_rows]


def _new(marks: Iterable[_Mark]) -> Iterator[_Mark]:
    """Leave out marks that say what the one before of the same queue said: each file begins and ends with some."""
    said: dict[tuple[Place, str | None], str] = {}
    for mark in marks:
        key = mark.place, mark.queue
        if said.get(key) != mark.said:
            said[key] = mark.said
            yield mark


def _within(table: pa.Table, of: Span, wanted: Span) -> pa.Table:
    """Return the rows of a span from a file of that span."""
    if wanted.from_ms <= of.from_ms and of.to_ms <= wanted.to_ms:
        return table
    return table.filter((pc.field("at_ms") >= wanted.from_ms) & (pc.field("at_ms") <= wanted.to_ms))


def _marking(table: pa.Table) -> pa.Table:
    """Return the rows of a file at which something else is said of a queue than in the row before, and the last."""
    if table.num_rows == 0:
        return table
    begins, groups = _begins(table)
    at_ms = table.column("at_ms").combine_chunks()
    falls = pc.and_not(_fill(pc.less(at_ms.slice(1), at_ms.slice(0, len(at_ms) - 1)), _FALSE), begins)
    if begins.true_count != groups or falls.true_count:
        # Files hold them queue by queue as they were written; whoever rewrote one may have sorted it by time.
        table = table.sort_by([(name, "ascending") for name in (*_OF, "at_ms")])
        begins, _ = _begins(table)
    said = pc.coalesce(table.column("verdict"), table.column("status")).combine_chunks()
    ends = pa.concat_arrays([begins.slice(1), _TRUE])
    return table.filter(pc.or_(pc.or_(begins, _differs(said)), ends))


def _begins(table: pa.Table) -> tuple[pa.BooleanArray, int]:
    """Tell of each row whether it is of another queue than the one before, and how many queues there are."""
    several = {}
    for name in _OF:
        encoded = table.column(name).combine_chunks().dictionary_encode()
        if len(encoded.dictionary) + (encoded.null_count > 0) > 1:
            several[name] = pc.fill_null(encoded.indices, _NO_CODE)
    begins = pa.concat_arrays([_TRUE, pa.repeat(_FALSE[0], table.num_rows - 1)])
    for codes in several.values():
        begins = pc.or_(begins, _differs(codes))
    return begins, pa.table(several).group_by(list(several)).aggregate([]).num_rows if several else 1


def _differs(values: pa.Array) -> pa.BooleanArray:
    """Tell of each value whether it differs from the one before; the first does."""
    return _fill(pc.not_equal(values.slice(1), values.slice(0, len(values) - 1)), _TRUE)


def _fill(found: pa.BooleanArray, first: pa.BooleanArray) -> pa.BooleanArray:
    """Return what was found of all values but the first with that of the first."""
    return pa.concat_arrays([first, found])


def _order(mark: _Mark) -> tuple[int, Place, bool, str]:
    # A place's own mark comes first.
    return mark.at_ms, mark.place, mark.queue is not None, mark.queue or ""


def _is_wanted(change: Change, queue: Of | None) -> bool:
    return queue is None or (change.place == queue[0] and change.queue in (queue[1], None))
