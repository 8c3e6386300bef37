"""Since when a queue stalls or grows that did so all the time before the polls that were read."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rsmq_tui.history.place import Place
from rsmq_tui.history.reading import Span, named
from rsmq_tui.history.replay_changes import Of
from rsmq_tui.history.replay_past import QueuePast
from rsmq_tui.history.replay_polls import WINDOW_MS, Timeline
from rsmq_tui.history.replay_tracking import PlaceTrack
from rsmq_tui.monitor import Verdict

# How far back it is looked for when a trouble began, and for the last numbers before an outage.
LOOK_BACK_MS = 6 * 3_600_000
_COLUMNS = ("at_ms", "profile", "server", "ns", "queue", "ready", "totalsent", "totalrecv", "verdict")


class _Run(NamedTuple):
    """Since when a queue idled and grew, as it was known at ``seen_ms``; None where it did not."""

    idle_from_ms: int | None
    growing_from_ms: int | None
    seen_ms: int

    def begins(self, from_ms: int | None, at_ms: int | None) -> bool:
        """Tell whether that moment lies between one of its beginnings and when it was known."""
        return from_ms is not None and at_ms is not None and from_ms <= at_ms <= self.seen_ms


class _Search:
    """What is still looked for of a queue, whose troubles began no later than it was first read."""

    def __init__(self, past: QueuePast) -> None:
        self.past = past
        self._is_idle = past.idle_from_ms == past.seen_from_ms
        self._is_growing = past.growing_from_ms == past.seen_from_ms

    @property
    def is_over(self) -> bool:
        """Whether nothing is looked for any more."""
        return not (self._is_idle or self._is_growing)

    def join(self, run: _Run | None) -> None:
        """Take the beginnings from what was known before, where they are the same."""
        past = self.past
        if run is None:
            return
        if self._is_idle and run.begins(run.idle_from_ms, past.idle_from_ms):
            past.idle_from_ms, self._is_idle = run.idle_from_ms, False
        if self._is_growing and run.begins(run.growing_from_ms, past.growing_from_ms):
            past.growing_from_ms, self._is_growing = run.growing_from_ms, False

    def stretch(self, row: Mapping[str, Any]) -> None:
        """Let the troubles begin as early as that row, or be done with them."""
        past, at_ms = self.past, row["at_ms"]
        is_same = past.sample is not None and (row["totalsent"] or 0) <= past.sample.totalsent
        is_known = is_same and row["ready"] is not None
        self._is_idle = self._is_idle and is_known and past.idles_in(row)
        if self._is_idle:
            past.idle_from_ms = at_ms
        self._is_growing = self._is_growing and is_known and row["verdict"] == Verdict.GROWING
        if self._is_growing:
            past.growing_from_ms = at_ms


class LookingBack:
    """Looks through a few columns of what was before, and remembers what came of it."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._runs: dict[Of, _Run] = {}

    def remember(self, tracks: Mapping[Place, PlaceTrack]) -> None:
        """Remember since when these troubles are, for whoever looks at a moment soon after or before."""
        for key, past in _pasts(tracks):
            if past.sample is not None:
                self._runs[key] = _Run(past.idle_from_ms, past.growing_from_ms, past.sample.at_ms)

    def find(self, tracks: Mapping[Place, PlaceTrack], from_ms: int) -> None:
        """Give troubles their beginnings that were there in the first polls from ``from_ms`` on."""
        gap_ms = self._timeline.pace.gap_ms
        wanted = {key: _Search(past) for key, past in _pasts(tracks) if past.seen_from_ms - from_ms <= gap_ms}
        first_ms, end_ms = from_ms - LOOK_BACK_MS, from_ms
        while wanted := self._left(wanted):
            last_ms = self._timeline.last_file_ms(end_ms - 1) if end_ms > first_ms else None
            if last_ms is None:
                break
            start_ms = max(last_ms - WINDOW_MS + 1, first_ms)
            for row in self._rows(wanted, Span(start_ms, end_ms - 1)):
                search = wanted.get((named(row["profile"], row["server"], row["ns"]), row["queue"]))
                if search is not None:
                    search.stretch(row)
            end_ms = start_ms
        self.remember(tracks)

    def _left(self, wanted: dict[Of, _Search]) -> dict[Of, _Search]:
        for key, search in wanted.items():
            search.join(self._runs.get(key))
        return {key: search for key, search in wanted.items() if not search.is_over}

    def _rows(self, wanted: Iterable[Of], span: Span) -> list[dict[str, Any]]:
        """Return the rows of these queues, the last one first."""
        names = pa.array(sorted({name for _, name in wanted}), pa.string())
        rows: list[dict[str, Any]] = []
        for file in self._timeline.files(span):
            table = self._timeline.history.columns(file.name, _COLUMNS)
            if table is not None:
                is_wanted = pc.is_in(pc.field("queue"), value_set=names)
                within = (pc.field("at_ms") >= span.from_ms) & (pc.field("at_ms") <= span.to_ms)
                rows += table.filter(is_wanted & within).to_pylist()
        return sorted(rows, key=lambda row: -row["at_ms"])


def _pasts(tracks: Mapping[Place, PlaceTrack]) -> Iterator[tuple[Of, QueuePast]]:
    for place, track in tracks.items():
        for name, past in track.queues.items():
            yield (place, name), past
