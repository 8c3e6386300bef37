"""The recorded polls of a replay, the times at which verdicts changed or servers went away, and the incidents.

Changes are found by reading only a few columns, hour by hour. For each queue only the rows at which its verdict
changes or begins to be pending, and the first and last row of the hour, are kept. Results are cached.

Incidents are those of the analysis, by the same rule, as far as the hour before and the hour after show them.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import groupby
from statistics import median_low
from typing import NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from rsmq_tui.history.analysis.incidents import incidents_of
from rsmq_tui.history.analysis.values import OPEN, Episode, Incident
from rsmq_tui.history.names import HistoryError, Place, read_name
from rsmq_tui.history.reading import NONE_SEALED, History, Poll, RecordedSpan
from rsmq_tui.history.replay.tracking import VERDICTS, ReplaySpans
from rsmq_tui.history.schema import DOWN, OK
from rsmq_tui.history.store import SealedFile, day_span_ms, recorder_of
from rsmq_tui.monitor import Verdict
from rsmq_tui.monitor.incidents import Expected
from rsmq_tui.monitor.model import was_created_again
from rsmq_tui.monitor.moments import DAY_MS, HOUR_MS

WINDOW_MS = 600_000
_WINDOWS_KEPT = 4
_USUAL_INTERVAL_MS = 5_000
# Neither before nor after any moment.
_NO_DAY = (1 << 63, -(1 << 63))
# The number of intervals that the usual one is computed from.
_INTERVALS = 10


class Timeline:
    """A history's polls by time; raises ``HistoryError`` if there are none.

    ``places`` are those known so far: further ones are added when their polls are read. If several recorders recorded a
    place, the polls of the one that began first are used, because it knows most of what went on before; those of
    another one only while it did not record.
    """

    def __init__(self, history: History, near_ms: int | None = None) -> None:
        """List the files; all places of the day of ``near_ms``, or of the last day, are known from the start."""
        history.refresh()
        span = history.span()
        if span is None:
            why = history.problems[0] if history.problems else NONE_SEALED
            raise HistoryError(f"{history.label} contains nothing to replay yet: {why}")
        self.history = history
        self.span = span
        self.ranks = history.again(lambda: _ranks(history))
        self.places = history.again(lambda: _places(history, span.to_ms if near_ms is None else near_ms))
        self.spans = ReplaySpans(_USUAL_INTERVAL_MS)
        self._window = lru_cache(_WINDOWS_KEPT)(self._read_window)
        self.spans = ReplaySpans(self._interval_ms())
        self._window.cache_clear()

    def refresh(self) -> None:
        """List the files again."""
        before = self.history.listed()
        self.history.refresh()
        found = self.history.span()
        if found is not None and self.history.listed() != before:
            self.span = found
            self.ranks = self.history.again(lambda: _ranks(self.history))
            self._window.cache_clear()

    def polls(self, from_ms: int, to_ms: int) -> Iterator[Poll]:
        """Yield the polls of a span, both ends included."""
        for index in range(from_ms // WINDOW_MS, to_ms // WINDOW_MS + 1):
            window = self._window(index)
            first = bisect_left(window, from_ms, key=_time_of_poll)
            yield from window[first : bisect_right(window, to_ms, key=_time_of_poll)]

    def near(self, at_ms: int, direction: int) -> int | None:
        """Return the time of the first poll after a moment, or of the last before it if ``direction`` is negative."""
        for index in self.windows(at_ms, direction, WINDOW_MS):
            found = [poll.at_ms for poll in self._window(index) if (poll.at_ms - at_ms) * direction > 0]
            if found:
                return min(found) if direction > 0 else max(found)
        return None

    def windows(self, at_ms: int, direction: int, width_ms: int) -> Iterator[int]:
        """Yield the numbers of windows of that width that may contain polls, forward or back from a moment."""
        index: int | None = at_ms // width_ms
        while index is not None:
            yield index
            file_ms = self._file_ms((index + 1) * width_ms if direction > 0 else index * width_ms - 1, direction)
            index = None if file_ms is None else file_ms // width_ms

    def _file_ms(self, at_ms: int, direction: int) -> int | None:
        """Return the nearest moment at or after that one (or before it) for which a file may have rows."""
        for day in self._days()[:: 1 if direction > 0 else -1]:
            start_ms, end_ms = day_span_ms(day) or _NO_DAY
            span = RecordedSpan(at_ms, end_ms) if direction > 0 else RecordedSpan(start_ms, at_ms)
            files = self.history.files(span) if span.from_ms <= span.to_ms else []
            if files and direction > 0:
                return max(at_ms, min(file.span.from_ms for file in files))
            if files:
                return min(at_ms, max(file.span.to_ms for file in files))
        return None

    def played(self, times: dict[str, list[int]]) -> dict[str, list[int]]:
        """Return the times that are played, given the sorted times at which each recorder polled a place."""
        chosen: dict[str, list[int]] = {}
        for recorder in sorted(times, key=lambda recorder: self.ranks.get(recorder, len(self.ranks))):
            better = list(chosen.values())
            chosen[recorder] = [at_ms for at_ms in times[recorder] if not self._is_covered(at_ms, better)]
        return chosen

    def _is_covered(self, at_ms: int, better: Iterable[Sequence[int]]) -> bool:
        """Return whether another recorder polled shortly before and shortly after."""
        gap_ms = self.spans.gap_ms
        for times in better:
            place = bisect_right(times, at_ms)
            if 0 < place < len(times) and times[place] - gap_ms <= at_ms <= times[place - 1] + gap_ms:
                return True
        return False

    def _read_window(self, index: int) -> tuple[Poll, ...]:
        start_ms, end_ms = index * WINDOW_MS, (index + 1) * WINDOW_MS - 1
        # Polls shortly before and after decide which of several recorders is used.
        around_ms = self.spans.gap_ms if len(self.ranks) > 1 else 0
        polls = self._chosen(list(self.history.polls(RecordedSpan(start_ms - around_ms, end_ms + around_ms))))
        window = tuple(poll for poll in polls if start_ms <= poll.at_ms <= end_ms)
        # Known places keep their order.
        self.places += tuple(sorted({poll.place for poll in window}.difference(self.places)))
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
        """Return the usual time between polls at the end of the history."""
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


def _ranks(history: History) -> dict[str, int]:
    """Return the priority of each recorder: they are numbered in the order in which they began."""
    first: dict[str, SealedFile] = {}
    for file in history.listed():
        first.setdefault(recorder_of(file.name), file)
    days = Counter(file.day for file in first.values())

    def begun(recorder: str) -> tuple[str, int, str]:
        file = first[recorder]
        # Most begin on a day of their own: then no file is opened.
        span = history.span_in(file.name) if days[file.day] > 1 else None
        return file.day, 0 if span is None else span.from_ms, recorder

    return {recorder: rank for rank, recorder in enumerate(sorted(first, key=begun))}


def _places(history: History, near_ms: int) -> tuple[Place, ...]:
    """Return the places of the first and last file of each recorder and day, and of all files of that day.

    A recorder writes rows of each place even if polls fail. Only if the namespace was switched in a recording dashboard
    may a place be in none of these files. The files of that day are read anyway.
    """
    day_ms = near_ms // DAY_MS * DAY_MS
    found = set(history.places(RecordedSpan(day_ms, day_ms + DAY_MS - 1)))
    first = {(file.day, recorder_of(file.name)): file.name for file in reversed(history.listed())}
    last = {(file.day, recorder_of(file.name)): file.name for file in history.listed()}
    for name in {*first.values(), *last.values()}:
        found.update(history.places_in(name))
    return tuple(sorted(found))


_HOURS_KEPT = 48
_OF = ("profile", "server", "ns", "queue")
# A queue in its place; and the callback for the progress of a search.
Of = tuple[Place, str]
SeekCallback = Callable[[int], bool]
# Made once: Arrow tries to import numpy for each plain value.
_TRUE, _FALSE = pa.array([True]), pa.array([False])
_NO_CODE = pa.scalar(-1, pa.int32())
_NO_TIME = pa.scalar(-1, pa.int64())
_COLUMNS = ("at_ms", "recorder", *_OF, "verdict", "status", "since_ms", "pending_since_ms", "created_ms")


class VerdictChange(NamedTuple):
    """A queue's verdict changed at a poll; or, if ``queue`` is None, polls of a place began to fail or to succeed.

    ``before`` is None if the queue is new. For a place, ``before`` and ``after`` are ``ok`` or ``down``.
    """

    at_ms: int
    place: Place
    queue: str | None
    before: str | None
    after: str


class Turn(NamedTuple):
    """An incident of a queue, or an outage of a server, begins at a moment; or, if ``is_end``, it is over.

    One that began while nothing of its place was recorded has its turn at the first poll after that.
    """

    at_ms: int
    incident: Incident
    is_end: bool


ChangeT = TypeVar("ChangeT", VerdictChange, Turn)


class _Mark(NamedTuple):
    """The verdict of a queue, or the state of a place, at a moment, and since when its condition has held.

    ``created_ms`` is when the queue was created; None for lists and places, and if it is unknown. ``over_ms`` is when
    the condition of a trouble stopped holding, None if it holds or that is not recorded.
    """

    at_ms: int
    place: Place
    queue: str | None
    said: str
    since_ms: int
    created_ms: int | None
    over_ms: int | None

    def is_other(self, before: "_Mark") -> bool:
        """Return whether the queue is another one than that of an earlier mark: it was created again."""
        return was_created_again(before.created_ms, self.created_ms)


class VerdictChanges:
    """Finds changes and incidents in a timeline; ``expected`` is by profile."""

    def __init__(self, timeline: Timeline, expected: Mapping[str, Expected]) -> None:
        self._timeline = timeline
        self._expected = expected
        self._marks = lru_cache(_HOURS_KEPT)(self._read_marks)

    def forget(self) -> None:
        """Clear the cache, after new polls were recorded."""
        self._marks.cache_clear()

    def near(self, at_ms: int, direction: int, queue: Of, on_hour: SeekCallback | None = None) -> list[VerdictChange]:
        """Return the first changes of a queue and its place after a moment, all of one time.

        They are the last before it if ``direction`` is negative. Empty if there are no changes. ``on_hour`` is called
        with the time of each hour before it is searched; if it returns False, the search ends.
        """
        place, name = queue

        def changes(hour: int) -> Iterator[VerdictChange]:
            return (one for one in self._changes(hour) if one.place == place and one.queue in (name, None))

        return self._nearest(changes, at_ms, direction, on_hour)

    def turns_near(self, at_ms: int, direction: int, on_hour: SeekCallback | None = None) -> list[Turn]:
        """Return the incidents that begin or end first after a moment, as ``near`` does with changes.

        Those that no poll separates are returned together, although their times may differ by some ms. Each queue
        counts for itself, also if a head stands for it in the analysis: otherwise what begins first in a server would
        hide what begins on other queues within a minute, and its end the ends of these.
        """

        def between_polls(nearest_ms: int) -> RecordedSpan:
            poll_ms = self._timeline.near(nearest_ms - 1 if direction > 0 else nearest_ms, direction)
            if poll_ms is None or abs(poll_ms - nearest_ms) > self._timeline.spans.gap_ms:
                return RecordedSpan(nearest_ms, nearest_ms)
            return RecordedSpan(nearest_ms, poll_ms) if direction > 0 else RecordedSpan(poll_ms + 1, nearest_ms)

        return self._nearest(self._turns, at_ms, direction, on_hour, between_polls)

    def _nearest(
        self,
        find: Callable[[int], Iterable[ChangeT]],
        at_ms: int,
        direction: int,
        on_hour: SeekCallback | None,
        together: Callable[[int], RecordedSpan] = lambda at_ms: RecordedSpan(at_ms, at_ms),
    ) -> list[ChangeT]:
        for hour in self._timeline.windows(at_ms, direction, HOUR_MS):
            if on_hour is not None and not on_hour(hour * HOUR_MS):
                break
            found = [one for one in find(hour) if (one.at_ms - at_ms) * direction > 0]
            if found:
                from_ms, to_ms = together((min if direction > 0 else max)(one.at_ms for one in found))
                return [one for one in found if from_ms <= one.at_ms <= to_ms]
        return []

    def _turns(self, hour: int) -> Iterator[Turn]:
        marks = [mark for near in (hour - 1, hour, hour + 1) for mark in self._marks(near)]
        # Of each place, and of each server, whose incidents have no namespace.
        first_ms: dict[Place, int] = {}
        for mark in marks:
            for place in (mark.place, mark.place._replace(ns="")):
                first_ms.setdefault(place, mark.at_ms)
        episodes = list(_episodes(marks))
        outages = incidents_of((one for one in episodes if one.queue is None), self._expected)
        queues = (one for one in incidents_of(episodes, self._expected) if one.queue is not None)
        for incident in (*outages, *queues):
            begin_ms = max(incident.start_ms, first_ms[incident.place])
            for at_ms, is_end in ((begin_ms, False), (incident.recovered_ms, True)):
                if at_ms is not None and at_ms // HOUR_MS == hour:
                    yield Turn(at_ms, incident, is_end)

    def _changes(self, hour: int) -> list[VerdictChange]:
        """Return the changes of an hour, in chronological order."""
        said: dict[tuple[Place, str | None], str] = {}
        for mark in self._marks(hour - 1):
            said[mark.place, mark.queue] = mark.said
        found = []
        for mark in self._marks(hour):
            key = mark.place, mark.queue
            before = said.get(key)
            said[key] = mark.said
            is_new = before is None and mark.queue is not None and mark.said != Verdict.OK
            # The first row of a recording is not a change.
            if (is_new and self._is_followed(mark)) or (before is not None and before != mark.said):
                found.append(VerdictChange(mark.at_ms, mark.place, mark.queue, before, mark.said))
        return found

    def _is_followed(self, mark: _Mark) -> bool:
        """Return whether the place was polled shortly before."""
        around = self._timeline.polls(mark.at_ms - self._timeline.spans.gap_ms, mark.at_ms - 1)
        return any(poll.place == mark.place for poll in around)

    def _read_marks(self, hour: int) -> tuple[_Mark, ...]:
        return tuple(_new(sorted(self._read(hour), key=_order)))

    def _read(self, hour: int) -> Iterable[_Mark]:
        timeline = self._timeline
        within = RecordedSpan(hour * HOUR_MS, (hour + 1) * HOUR_MS - 1)
        around_ms = timeline.spans.gap_ms if len(timeline.ranks) > 1 else 0
        around = RecordedSpan(within.from_ms - around_ms, within.to_ms + around_ms)
        history = timeline.history
        tables = history.again(lambda: [(file, history.columns(file.name, _COLUMNS)) for file in history.files(around)])
        known = [_within(table, file.span, around) for file, table in tables if table is not None]
        if around_ms:
            known = self._played(known, within)
        for table in known:
            for row in _marking(table).to_pylist():
                place = Place.read(row["profile"], row["server"], row["ns"])
                queue = row["queue"]
                said = row["status"] if queue is None else row["verdict"]
                if queue is not None and said is not None and said not in VERDICTS:
                    # Of a later version, or of anybody's file: the queue is shown as broken too.
                    said = Verdict.BROKEN.value
                # Changes between ok and watching are ignored.
                said = OK if said == Verdict.WATCHING else said or OK
                at_ms, since_ms = row["at_ms"], row["since_ms"]
                since_ms = at_ms if since_ms is None or not 0 <= since_ms <= at_ms else since_ms
                over_ms = row["pending_since_ms"]
                # A verdict that is not pending says nothing, and watching is pending from its start.
                is_over = over_ms is not None and max(0, row["since_ms"] or 0) <= over_ms <= at_ms and said != OK
                name = None if queue is None else read_name(queue)
                yield _Mark(at_ms, place, name, said, since_ms, row["created_ms"], over_ms if is_over else None)

    def _played(self, tables: list[pa.Table], within: RecordedSpan) -> list[pa.Table]:
        """Leave out rows of recorders that are not the one played."""
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


def _episodes(marks: Sequence[_Mark]) -> Iterator[Episode]:
    """Yield the troubles of queues, and the outages of places, that some marks in the order of time show.

    A trouble ends when its condition stopped holding; if that is not recorded, with the verdict.
    """
    # Of each queue in trouble: the first and the last mark of its verdict, and the troubles since it was ok.
    shown: dict[tuple[Place, str | None], tuple[_Mark, _Mark]] = {}
    earlier: dict[tuple[Place, str | None], list[Episode]] = {}
    for mark in marks:
        key = mark.place, mark.queue
        begin, last = shown.get(key, (mark, mark))
        is_other = mark.is_other(begin)
        if begin.said != mark.said or is_other:
            episode = _episode(begin, last, mark.at_ms)
            earlier.setdefault(key, []).append(episode)
            del shown[key]
            begin = mark
            if is_other:
                # How those of the queue before it ended is not known.
                yield from earlier.pop(key)
            elif mark.said == OK:
                for one in earlier.pop(key):
                    yield replace(one, ended="over", recovered_ms=max(one.end_ms, episode.end_ms))
        if mark.said != OK:
            shown[key] = begin, mark
    for troubles in earlier.values():
        yield from troubles
    for begin, last in shown.values():
        yield _episode(begin, last, marks[-1].at_ms)


def _episode(begin: _Mark, last: _Mark, left_ms: int) -> Episode:
    end_ms = left_ms if last.over_ms is None else last.over_ms
    return Episode(
        place=begin.place,
        queue=begin.queue,
        verdict=begin.said if begin.queue is not None else DOWN,
        start_ms=min(max(begin.since_ms, min(begin.created_ms or 0, begin.at_ms)), end_ms),
        end_ms=end_ms,
        ended=OPEN,
        recovered_ms=None,
        created_ms=begin.created_ms,
    )


def _new(marks: Iterable[_Mark]) -> Iterator[_Mark]:
    """Leave out marks that repeat the one before of the same queue: each file begins and ends with some."""
    last: dict[tuple[Place, str | None], _Mark] = {}
    for mark in marks:
        key = mark.place, mark.queue
        before = last.get(key)
        is_same = before is not None and (before.said, before.over_ms) == (mark.said, mark.over_ms)
        if before is None or not is_same or mark.is_other(before):
            last[key] = mark
            yield mark


def _within(table: pa.Table, of: RecordedSpan, wanted: RecordedSpan) -> pa.Table:
    """Return the rows of a span from a file of that span."""
    if wanted.from_ms <= of.from_ms and of.to_ms <= wanted.to_ms:
        return table
    return table.filter((pc.field("at_ms") >= wanted.from_ms) & (pc.field("at_ms") <= wanted.to_ms))


def _marking(table: pa.Table) -> pa.Table:
    """Return the rows of a file that differ from the row before of the same queue, and the last row of each queue.

    What counts is the verdict, whether it is pending, and when the queue was created.
    """
    if table.num_rows == 0:
        return table
    begins, groups = _begins(table)
    at_ms = table.column("at_ms").combine_chunks()
    falls = pc.and_not(_fill(pc.less(at_ms.slice(1), at_ms.slice(0, len(at_ms) - 1)), _FALSE), begins)
    if begins.true_count != groups or falls.true_count:
        # Sealed files are sorted by queue; a file that another program rewrote may be sorted by time.
        table = table.sort_by([(name, "ascending") for name in (*_OF, "at_ms")])
        begins, _ = _begins(table)
    said = pc.coalesce(table.column("verdict"), table.column("status")).combine_chunks()
    ends = pa.concat_arrays([begins.slice(1), _TRUE])
    pending, created_ms = (
        pc.fill_null(table.column(name), _NO_TIME).combine_chunks() for name in ("pending_since_ms", "created_ms")
    )
    changes = pc.or_(pc.or_(_differs(said), _differs(pending)), _differs(created_ms))
    return table.filter(pc.or_(pc.or_(begins, changes), ends))


def _begins(table: pa.Table) -> tuple[pa.BooleanArray, int]:
    """Return for each row whether another queue begins there, and the number of queues."""
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
    """Return for each value whether it differs from the one before; True for the first."""
    return _fill(pc.not_equal(values.slice(1), values.slice(0, len(values) - 1)), _TRUE)


def _fill(found: pa.BooleanArray, first: pa.BooleanArray) -> pa.BooleanArray:
    """Return ``first`` followed by ``found``, which is for all values but the first."""
    return pa.concat_arrays([first, found])


def _order(mark: _Mark) -> tuple[int, Place, bool, str]:
    # A place's own mark comes first.
    return mark.at_ms, mark.place, mark.queue is not None, mark.queue or ""
