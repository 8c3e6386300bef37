"""Replays a history: a moment of recorded time, and the snapshot that a live poller would have made then.

There is no clock here: the player says how much time has passed.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rsmq_tui.history.names import Place
from rsmq_tui.history.reading import History, Poll, Span, named
from rsmq_tui.history.replay.polls import WINDOW_MS, Change, Changes, Of, Timeline, Told
from rsmq_tui.history.replay.tracking import PlaceTrack, QueueHistory
from rsmq_tui.monitor import Snapshot, Thresholds, Verdict
from rsmq_tui.monitor.fleet import Fleet
from rsmq_tui.monitor.series import Trend


def labels_of(places: Iterable[Place], known: Mapping[Place, str] | None = None) -> dict[Place, str]:
    """Return what each place is called on the screen, as the dashboard does; nothing where there is only one.

    Those that are ``known`` keep what they are called, unless it was nothing.
    """
    places = list(places)
    if len(places) == 1:
        return {places[0]: ""}
    kept = {place: label for place, label in (known or {}).items() if label}
    new = [place for place in places if place not in kept]
    taken = set(kept.values())
    for label in (_by_name, _by_name_and_ns, _in_full):
        labels = {place: label(place) for place in new}
        if len(taken.union(labels.values())) == len(taken) + len(new):
            return kept | labels
    return kept | {place: f"{_in_full(place)} {number}" for number, place in enumerate(new, len(kept))}


def _by_name(place: Place) -> str:
    return place.profile or place.server


def _by_name_and_ns(place: Place) -> str:
    return f"{_by_name(place)} {place.ns}"


def _in_full(place: Place) -> str:
    return f"{place.profile} {place.server} {place.ns}".strip()


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

    def __init__(self, past: QueueHistory) -> None:
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


def _pasts(tracks: Mapping[Place, PlaceTrack]) -> Iterator[tuple[Of, QueueHistory]]:
    for place, track in tracks.items():
        for name, past in track.queues.items():
            yield (place, name), past


class Instant(NamedTuple):
    """What is shown at a moment, and all that it goes on from."""

    at_ms: int
    snapshot: Snapshot
    labels: Mapping[Place, str]
    tracks: dict[Place, PlaceTrack]
    together: Fleet


class Replay:
    """A position in recorded time, and the ``snapshot`` of it.

    It begins at ``from_ms``, or an hour before the end of what was recorded, and ends with the recording, or at
    ``to_ms``: ``play`` stops there, while everything else goes wherever there is something. Raises ``HistoryError``
    where nothing was recorded.
    """

    def __init__(
        self,
        history: History,
        *,
        from_ms: int | None = None,
        to_ms: int | None = None,
        thresholds: Thresholds | None = None,
    ) -> None:
        self.thresholds = thresholds or Thresholds()
        self.timeline = Timeline(history, from_ms)
        self.labels = labels_of(self.timeline.places)
        self.position_ms = 0
        self.snapshot = Snapshot(0, "", "")
        self.skipped: Span | None = None
        self._to_ms = to_ms
        self._changes = Changes(self.timeline)
        self._tracks: dict[Place, PlaceTrack] = {}
        self._looking_back = LookingBack(self.timeline)
        self._together = Fleet(())
        span = self.timeline.span
        self.seek(max(span.from_ms, span.to_ms - 3_600_000) if from_ms is None else from_ms)

    @property
    def span(self) -> Span:
        """What was recorded, from the first poll to the last."""
        return self.timeline.span

    @property
    def end_ms(self) -> int:
        """Where playing ends."""
        to_ms = self.span.to_ms
        # Whoever went on beyond the end that was asked for means it.
        return to_ms if self._to_ms is None or self.position_ms >= self._to_ms else min(to_ms, self._to_ms)

    @property
    def is_at_end(self) -> bool:
        """Whether playing has come to its end."""
        return self.position_ms in (self._to_ms, self.span.to_ms)

    def refresh(self) -> None:
        """Look for what was recorded meanwhile."""
        self.timeline.refresh()
        self._changes.forget()

    def seek(self, at_ms: int) -> None:
        """Go to a moment, or as near as there is something."""
        timeline = self.timeline
        if at_ms > timeline.span.to_ms:
            self.refresh()
        at_ms = max(timeline.span.from_ms, min(at_ms, timeline.span.to_ms))
        self.skipped = None
        self._looking_back.remember(self._tracks)
        self._tracks = {}
        from_ms = at_ms - timeline.pace.warm_ms
        self._take_last_known(from_ms, at_ms)
        polls = list(timeline.polls(from_ms, at_ms))
        for place in {poll.place for poll in polls}:
            self._track(place)
        # What is not there yet is not waited for.
        self._together = Fleet(tuple(label for place, label in self.labels.items() if place in self._tracks))
        self._take(polls)
        self._look_back(from_ms)
        # Screens look at it meanwhile: it goes with the snapshot.
        self.position_ms = at_ms
        self._show()

    def play(self, elapsed_ms: int) -> None:
        """Let so much recorded time pass, but not beyond the end; where nothing was recorded, go on behind that."""
        before_ms, end_ms = self.position_ms, self.end_ms
        to_ms = min(end_ms, before_ms + elapsed_ms)
        next_ms = self.timeline.after(before_ms)
        gap_ms = max((track.pace.gap_ms for track in self._tracks.values()), default=self.timeline.pace.gap_ms)
        is_gap = next_ms is not None and next_ms - before_ms > gap_ms
        if is_gap and next_ms is not None and to_ms < next_ms <= end_ms:
            last_ms = max((track.last_ms or 0 for track in self._tracks.values()), default=0)
            self._go_on(next_ms)
            self.skipped = Span(last_ms or before_ms, next_ms)
        elif to_ms > before_ms:
            self._go_on(to_ms)

    def instant(self) -> Instant:
        """Return what ``take_back`` goes back to."""
        return Instant(self.position_ms, self.snapshot, self.labels, self._tracks, self._together)

    def take_back(self, instant: Instant) -> None:
        """Go back to where it was before it last played."""
        if self.position_ms == instant.at_ms:
            return
        if self._tracks is instant.tracks or self.labels is not instant.labels:
            # What was shown has gone on, poll by poll.
            self.seek(instant.at_ms)
            return
        self.skipped, self._tracks, self._together = None, instant.tracks, instant.together
        self.position_ms, self.snapshot = instant.at_ms, instant.snapshot

    def step(self, count: int) -> bool:
        """Go so many polls on, or back where negative; tell whether there was one to go to."""
        at_ms = self.position_ms
        for _ in range(abs(count)):
            if count > 0:
                next_ms = self.timeline.after(at_ms)
            else:
                # The poll that is shown may be of a moment ago.
                shown_ms = self.timeline.before(at_ms + 1)
                next_ms = None if shown_ms is None else self.timeline.before(shown_ms)
            if next_ms is None:
                break
            at_ms = next_ms
        if at_ms == self.position_ms:
            return False
        if at_ms > self.position_ms:
            self._go_on(at_ms)
        else:
            self.seek(at_ms)
        return True

    def go_to_change(self, direction: int, queue: Of | None = None, told: Told | None = None) -> list[Change]:
        """Go to the next change of a verdict, or the one before where negative; return what changed, if anything."""
        find = self._changes.after if direction > 0 else self._changes.before
        found = find(self.position_ms, queue, told)
        if found:
            self.seek(found[0].at_ms)
        return found

    def _go_on(self, at_ms: int) -> None:
        """Go forward: poll by poll where that is shorter than to begin anew."""
        is_far = at_ms - self.position_ms > self.timeline.pace.kept_ms
        polls = [] if is_far else list(self.timeline.polls(self.position_ms + 1, at_ms))
        # A place that begins takes its place among the others, as if one had come from elsewhere.
        if is_far or any(poll.place not in self._tracks for poll in polls):
            self.seek(at_ms)
            return
        self.skipped = None
        self._take(polls)
        self.position_ms = at_ms
        self._show()

    def _take(self, polls: list[Poll]) -> None:
        for poll in polls:
            light = self._track(poll.place).take(poll)
            if len(self.labels) > 1:
                self._together.take(light)

    def _track(self, place: Place) -> PlaceTrack:
        track = self._tracks.get(place)
        if track is None:
            if place not in self.labels:
                self._name_places()
            track = self._tracks[place] = self._new_track(place)
        return track

    def _new_track(self, place: Place) -> PlaceTrack:
        return PlaceTrack(place, self.labels[place], self.thresholds, self.timeline.pace)

    def _name_places(self) -> None:
        """Let the places that were found meanwhile have labels; one that was alone until now gets its first."""
        # Others look at them meanwhile.
        self.labels = labels_of(self.timeline.places, self.labels)
        for place, track in self._tracks.items():
            track.label = self.labels[place]

    def _show(self) -> None:
        # A place shows from its first poll on; in the order in which it stands everywhere.
        shown = [place for place in self.labels if place in self._tracks]
        # Where nothing is known of any, that is what all of them show.
        tracks = [self._tracks[place] for place in shown] or [self._new_track(place) for place in self.labels]
        parts = [track.snapshot(self.position_ms) for track in tracks]
        if len(self.labels) == 1:
            self.snapshot = parts[0]
            return
        for part in parts:
            self.snapshot = self._together.take(part)
        # It goes on with every poll, and whoever draws must not see that.
        self.snapshot = replace(self.snapshot, trend=_copied(self.snapshot.trend))

    def _take_last_known(self, from_ms: int, to_ms: int) -> None:
        """Begin with the last numbers before an outage: it is them that are stale, and no queue became empty."""
        timeline = self.timeline
        is_known: dict[Place, bool] = {}
        for poll in timeline.polls(from_ms, to_ms):
            is_known[poll.place] = is_known.get(poll.place, False) or poll.failure is None
        # Without any poll of late, what is shown is what was before.
        unknown = {place for place in timeline.places if not is_known.get(place, False)}
        first_ms, end_ms = to_ms - LOOK_BACK_MS, from_ms - 1
        while unknown and end_ms >= first_ms:
            files = [file for file in timeline.files(Span(first_ms, end_ms)) if not unknown.isdisjoint(file.places)]
            if not files:
                return
            last_ms = min(end_ms, max(file.span.to_ms for file in files))
            end_ms = last_ms // WINDOW_MS * WINDOW_MS - 1
            for poll in reversed(list(timeline.polls(end_ms + 1, last_ms))):
                if poll.place in unknown and poll.failure is None:
                    unknown.discard(poll.place)
                    self._track(poll.place).take(poll)

    def _look_back(self, from_ms: int) -> None:
        """Find out since when a queue stalls or grows that did so all the time since that moment."""
        self._looking_back.find(self._tracks, from_ms)


def _copied(trend: Trend) -> Trend:
    same = Trend()
    same.totals.extend(trend.totals)
    return same
