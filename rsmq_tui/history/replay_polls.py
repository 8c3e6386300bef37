"""The polls of a history to play: window by window, so that memory is bounded, and of one recorder at a time."""

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from statistics import median_low

from rsmq_tui.history.errors import HistoryError
from rsmq_tui.history.keeping import day_span_ms
from rsmq_tui.history.place import Place
from rsmq_tui.history.reading import History, Poll, RowFile, Span
from rsmq_tui.history.replay_tracking import Pace

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
            first = bisect_left(window, from_ms, key=_time)
            yield from window[first : bisect_right(window, to_ms, key=_time)]

    def after(self, at_ms: int) -> int | None:
        """Return when the next poll was made after that moment."""
        index: int | None = at_ms // WINDOW_MS
        while index is not None:
            window = self._window(index)
            place = bisect_right(window, at_ms, key=_time)
            if place < len(window):
                return window[place].at_ms
            next_ms = self.next_file_ms((index + 1) * WINDOW_MS)
            index = None if next_ms is None else next_ms // WINDOW_MS
        return None

    def before(self, at_ms: int) -> int | None:
        """Return when the last poll was made before that moment."""
        index: int | None = at_ms // WINDOW_MS
        while index is not None:
            window = self._window(index)
            place = bisect_left(window, at_ms, key=_time)
            if place:
                return window[place - 1].at_ms
            last_ms = self.last_file_ms(index * WINDOW_MS - 1)
            index = None if last_ms is None else last_ms // WINDOW_MS
        return None

    def next_file_ms(self, from_ms: int) -> int | None:
        """Return the first moment from then on of which a file may have rows."""
        for day in self._days():
            _, end_ms = day_span_ms(day) or _NO_DAY
            files = self.history.files(Span(from_ms, end_ms)) if end_ms >= from_ms else []
            if files:
                return max(from_ms, min(file.span.from_ms for file in files))
        return None

    def last_file_ms(self, to_ms: int) -> int | None:
        """Return the last moment until then of which a file may have rows."""
        for day in reversed(self._days()):
            start_ms, _ = day_span_ms(day) or _NO_DAY
            files = self.history.files(Span(start_ms, to_ms)) if start_ms <= to_ms else []
            if files:
                return min(to_ms, max(file.span.to_ms for file in files))
        return None

    def files(self, span: Span) -> list[RowFile]:
        """Return the files that have rows of a span."""
        return self.history.files(span)

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
            last_ms = None if len(spans) >= _INTERVALS else self.before(at_ms)
            if last_ms is None:
                break
            window = self._window(last_ms // WINDOW_MS)
            spans += [poll.interval_ms for poll in window if poll.interval_ms is not None]
            at_ms = window[0].at_ms
        return max(1, median_low(spans)) if spans else _USUAL_INTERVAL_MS

    def _days(self) -> list[str]:
        return [day for day, _ in groupby(file.day for file in self.history.listed())]


def _time(poll: Poll) -> int:
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
