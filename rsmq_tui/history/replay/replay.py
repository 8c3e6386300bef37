"""Replays a history: a position in recorded time, and the snapshot that a live poller would have made then.

There is no clock here: the player says how much time has passed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from rsmq_tui.history.names import Place
from rsmq_tui.history.reading import History, Poll, RecordedSpan
from rsmq_tui.history.replay.polls import (
    WINDOW_MS,
    ChangeT,
    Of,
    SeekCallback,
    Timeline,
    Turn,
    VerdictChange,
    VerdictChanges,
)
from rsmq_tui.history.replay.tracking import PlaceTrack
from rsmq_tui.monitor import QueueState, Snapshot, Thresholds
from rsmq_tui.monitor.fleet import Fleet
from rsmq_tui.monitor.incidents import Expected
from rsmq_tui.monitor.moments import HOUR_MS
from rsmq_tui.monitor.tracking.trend import Trend


def labels_of(places: Iterable[Place], known: Mapping[Place, str] | None = None) -> dict[Place, str]:
    """Return the label of each place on the screen, as in the live dashboard; empty if there is only one place.

    Places in ``known`` keep their label, unless it was empty.
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


# How far back to search for the last numbers before an outage.
LOOK_BACK_MS = 6 * HOUR_MS


class Instant(NamedTuple):
    """The state of a replay at a moment, from which it can be continued."""

    at_ms: int
    snapshot: Snapshot
    labels: Mapping[Place, str]
    tracks: dict[Place, PlaceTrack]
    fleet: Fleet


class Replay:
    """A position in recorded time, and the ``snapshot`` of it.

    It begins at ``from_ms``, or an hour before the end of the recording. ``play`` stops at ``to_ms``, or at the end of
    the recording; seeking and stepping can go beyond ``to_ms``. Troubles that are ``expected``, by profile, are no
    incidents. Raises ``HistoryError`` if nothing was recorded.
    """

    def __init__(
        self,
        history: History,
        *,
        from_ms: int | None = None,
        to_ms: int | None = None,
        expected: Mapping[str, Expected] | None = None,
    ) -> None:
        # The thresholds of the recorder of each place at that moment.
        self.thresholds: dict[Place, Thresholds] = {}
        self.timeline = Timeline(history, from_ms)
        self.labels = labels_of(self.timeline.places)
        self.position_ms = 0
        self.snapshot = Snapshot(0, "", "")
        self.skipped: RecordedSpan | None = None
        self._to_ms = to_ms
        self._changes = VerdictChanges(self.timeline, expected or {})
        self._tracks: dict[Place, PlaceTrack] = {}
        self._fleet = Fleet(())
        span = self.timeline.span
        self._begin_ms = self._all_begun_ms(span.from_ms)
        self.seek(max(span.from_ms, span.to_ms - HOUR_MS) if from_ms is None else from_ms)

    @property
    def span(self) -> RecordedSpan:
        """The recorded span, from the first poll to the last."""
        return self.timeline.span

    @property
    def end_ms(self) -> int:
        """Where playing ends."""
        to_ms = self.span.to_ms
        # After a seek beyond ``to_ms``, play to the end of the recording.
        return to_ms if self._to_ms is None or self.position_ms >= self._to_ms else min(to_ms, self._to_ms)

    @property
    def is_at_end(self) -> bool:
        """Whether the position is at ``end_ms``."""
        return self.position_ms in (self._to_ms, self.span.to_ms)

    def refresh(self) -> None:
        """List the files again, to include new polls."""
        self.timeline.refresh()
        self._changes.forget()

    def seek(self, at_ms: int) -> None:
        """Go to a moment, clamped to the recorded span; to its first round of polls, one of each place."""
        timeline = self.timeline
        if at_ms > timeline.span.to_ms:
            self.refresh()
        at_ms = max(self._begin_ms, min(at_ms, timeline.span.to_ms))
        self.skipped = None
        self._tracks = {}
        from_ms = at_ms - timeline.spans.warm_ms
        self._take_last_known(from_ms, at_ms)
        polls = list(timeline.polls(from_ms, at_ms))
        for place in {poll.place for poll in polls}:
            self._track(place)
        # Do not wait for polls that are not recorded yet.
        self._fleet = Fleet(tuple(label for place, label in self.labels.items() if place in self._tracks))
        self._take(polls)
        # Replaced together with the snapshot, because screens read it concurrently.
        self.position_ms = at_ms
        self._show()

    def _all_begun_ms(self, from_ms: int) -> int:
        """Return when the last place of the first round was polled: a recorder polls all of them at about that time."""
        first: dict[Place, int] = {}
        for poll in self.timeline.polls(from_ms, from_ms + self.timeline.spans.interval_ms // 2):
            first.setdefault(poll.place, poll.at_ms)
        return max(first.values(), default=from_ms)

    def play(self, elapsed_ms: int) -> None:
        """Advance by ``elapsed_ms`` of recorded time, at most to the end; gaps are skipped."""
        before_ms, end_ms = self.position_ms, self.end_ms
        to_ms = min(end_ms, before_ms + elapsed_ms)
        next_ms = self.timeline.near(before_ms, 1)
        gap_ms = max((track.spans.gap_ms for track in self._tracks.values()), default=self.timeline.spans.gap_ms)
        is_gap = next_ms is not None and next_ms - before_ms > gap_ms
        if is_gap and next_ms is not None and to_ms < next_ms <= end_ms:
            last_ms = max((track.last_ms or 0 for track in self._tracks.values()), default=0)
            self._go_on(next_ms)
            self.skipped = RecordedSpan(last_ms or before_ms, next_ms)
        elif to_ms > before_ms:
            self._go_on(to_ms)

    def instant(self) -> Instant:
        """Return the state that ``take_back`` restores."""
        return Instant(self.position_ms, self.snapshot, self.labels, self._tracks, self._fleet)

    def take_back(self, instant: Instant) -> None:
        """Restore an earlier state."""
        if self.position_ms == instant.at_ms:
            return
        if self._tracks is instant.tracks or self.labels is not instant.labels:
            # The tracks have advanced, poll by poll.
            self.seek(instant.at_ms)
            return
        self.skipped, self._tracks, self._fleet = None, instant.tracks, instant.fleet
        self.position_ms, self.snapshot = instant.at_ms, instant.snapshot

    def step(self, count: int) -> bool:
        """Go ``count`` polls forward, or back if negative; return whether there was a poll to go to."""
        at_ms = self.position_ms
        for _ in range(abs(count)):
            if count > 0:
                next_ms = self.timeline.near(at_ms, 1)
            else:
                # The current poll may be earlier than the position.
                shown_ms = self.timeline.near(at_ms + 1, -1)
                next_ms = None if shown_ms is None else self.timeline.near(shown_ms, -1)
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

    def go_to_change(self, direction: int, queue: Of, on_hour: SeekCallback | None = None) -> list[VerdictChange]:
        """Go to the next change of a queue's verdict, or the previous one if ``direction`` is negative; return it.

        Outages of its place are changes too.
        """
        return self._gone_to(self._changes.near(self.position_ms, direction, queue, on_hour), direction)

    def go_to_incident(self, direction: int, on_hour: SeekCallback | None = None) -> list[Turn]:
        """Go to the next start or end of an incident, or the previous one if ``direction`` is negative; return it.

        If there are several before the next poll, go to the last of them, or to the first if ``direction`` is negative.
        """
        return self._gone_to(self._changes.turns_near(self.position_ms, direction, on_hour), direction)

    def _gone_to(self, found: list[ChangeT], direction: int) -> list[ChangeT]:
        if found:
            self.seek((max if direction > 0 else min)(one.at_ms for one in found))
        return found

    def _go_on(self, at_ms: int) -> None:
        """Go forward: poll by poll if that is shorter than starting over."""
        is_far = at_ms - self.position_ms > self.timeline.spans.kept_ms
        polls = [] if is_far else list(self.timeline.polls(self.position_ms + 1, at_ms))
        # A new place is sorted among the others, as after a seek.
        if is_far or any(poll.place not in self._tracks for poll in polls):
            self.seek(at_ms)
            return
        self.skipped = None
        self._take(polls)
        self.position_ms = at_ms
        self._show()

    def _take(self, polls: list[Poll]) -> None:
        for poll in polls:
            light = self._take_poll(poll)
            if len(self.labels) > 1:
                self._fleet.combine(light)

    def _take_poll(self, poll: Poll) -> Snapshot:
        if poll.failure is None:
            self.thresholds[poll.place] = poll.thresholds
        return self._track(poll.place).add_poll(poll)

    def _track(self, place: Place) -> PlaceTrack:
        track = self._tracks.get(place)
        if track is None:
            if place not in self.labels:
                self._name_places()
            track = self._tracks[place] = self._new_track(place)
        return track

    def _new_track(self, place: Place) -> PlaceTrack:
        return PlaceTrack(place, self.labels[place], self.timeline.spans)

    def _name_places(self) -> None:
        """Label new places; a place that was alone until now gets its first label."""
        # Replaced, not changed, because screens read them concurrently.
        self.labels = labels_of(self.timeline.places, self.labels)
        for place, track in self._tracks.items():
            track.label = self.labels[place]

    def _show(self) -> None:
        # A place is shown from its first poll on, always in the same order.
        shown = [place for place in self.labels if place in self._tracks]
        # If no place has any data, all of them show that.
        tracks = [self._tracks[place] for place in shown] or [self._new_track(place) for place in self.labels]
        parts = [track.snapshot(self.position_ms, self._next_ms(track)) for track in tracks]
        if len(self.labels) == 1:
            self.snapshot = parts[0]
            return
        for part in parts:
            self.snapshot = self._fleet.combine(part)
        # A copy, because it changes with every poll while screens draw it.
        self.snapshot = replace(self.snapshot, trend=_copied(self.snapshot.trend))

    def _next_ms(self, track: PlaceTrack) -> int | None:
        """Return when a place whose numbers are old was polled again, if that is soon."""
        if not track.is_stale(self.position_ms):
            return None
        coming = self.timeline.polls(self.position_ms + 1, self.position_ms + WINDOW_MS)
        return next((poll.at_ms for poll in coming if poll.place == track.place), None)

    def _take_last_known(self, from_ms: int, to_ms: int) -> None:
        """Load the last numbers before an outage, which are shown as stale: queues did not become empty."""
        timeline = self.timeline
        is_known: dict[Place, bool] = {}
        for poll in timeline.polls(from_ms, to_ms):
            is_known[poll.place] = is_known.get(poll.place, False) or poll.failure is None
        # Without a recent poll, show the last known numbers.
        unknown = {place for place in timeline.places if not is_known.get(place, False)}
        first_ms, end_ms = to_ms - LOOK_BACK_MS, from_ms - 1
        while unknown and end_ms >= first_ms:
            files = [
                file
                for file in timeline.history.files(RecordedSpan(first_ms, end_ms))
                if not unknown.isdisjoint(file.places)
            ]
            if not files:
                return
            last_ms = min(end_ms, max(file.span.to_ms for file in files))
            end_ms = last_ms // WINDOW_MS * WINDOW_MS - 1
            for poll in reversed(list(timeline.polls(end_ms + 1, last_ms))):
                if poll.place in unknown and poll.failure is None:
                    unknown.discard(poll.place)
                    self._take_poll(poll)


def _copied(trend: Trend) -> Trend:
    same = Trend()
    same.totals.extend(trend.totals)
    return same


class QueueDiff(NamedTuple):
    """A queue at the earlier and at the later moment; None if it did not exist."""

    then: QueueState | None
    now: QueueState | None
    then_ms: int
    now_ms: int

    @property
    def state(self) -> QueueState:
        """The later known state."""
        found = self.now or self.then
        assert found is not None  # one of them is set
        return found

    @property
    def key(self) -> str:
        """The unique key of the queue among all servers."""
        return self.state.key

    def numbers(self, field: str) -> tuple[int | None, int | None]:
        """Return a count then and now; None if it is unknown, or the queue did not exist."""
        then = None if self.then is None else getattr(self.then, field)
        now = None if self.now is None else getattr(self.now, field)
        return then, now

    def change(self, field: str) -> int | None:
        """Return by how much a count changed; a queue that does not exist counts as 0."""
        then, now = self.numbers(field)
        if (then is None and self.then is not None) or (now is None and self.now is not None):
            return None
        return (now or 0) - (then or 0)

    def age_ms(self, when: str) -> int | None:
        """Return how long the first ready message had been ready ``then`` or ``now``, in ms."""
        state, at_ms = (self.then, self.then_ms) if when == "then" else (self.now, self.now_ms)
        return None if state is None else state.waiting_ms(at_ms)

    @property
    def has_other_verdict(self) -> bool:
        """Whether the verdict changed, or the queue appeared or disappeared."""
        return self.then is None or self.now is None or self.then.verdict is not self.now.verdict


class Diff(NamedTuple):
    """The comparison of two moments, the earlier first; ``queues`` begins with those that changed most."""

    then_ms: int
    now_ms: int
    queues: tuple[QueueDiff, ...]

    @property
    def appeared(self) -> int:
        """The number of new queues."""
        return sum(queue.then is None for queue in self.queues)

    @property
    def vanished(self) -> int:
        """The number of queues that disappeared."""
        return sum(queue.now is None for queue in self.queues)

    @property
    def other_verdicts(self) -> int:
        """The number of queues with another verdict that are neither new nor gone."""
        known = (queue for queue in self.queues if queue.then is not None and queue.now is not None)
        return sum(queue.has_other_verdict for queue in known)

    def sums(self, field: str) -> tuple[int, int]:
        """Return the sum of a count over all queues, then and now."""
        pairs = [queue.numbers(field) for queue in self.queues]
        return sum(then or 0 for then, _ in pairs), sum(now or 0 for _, now in pairs)


def diff_of(one: Snapshot, other: Snapshot, one_ms: int, other_ms: int) -> Diff:
    """Compare two snapshots that were shown at these moments, in any order."""
    if one_ms > other_ms:
        one, other, one_ms, other_ms = other, one, other_ms, one_ms
    then = {queue.key: queue for queue in one.queues}
    now = {queue.key: queue for queue in other.queues}
    found = [
        QueueDiff(
            then.get(key),
            now.get(key),
            one.part(_place(key, then, now)).at_ms,
            other.part(_place(key, then, now)).at_ms,
        )
        for key in then.keys() | now.keys()
    ]
    return Diff(one_ms, other_ms, tuple(sorted(found, key=_rank)))


def _place(key: str, then: dict[str, QueueState], now: dict[str, QueueState]) -> str:
    return (now.get(key) or then[key]).place


def _rank(queue: QueueDiff) -> tuple[float, bool, str]:
    # Of queues that changed by the same amount, new and gone ones and those with another verdict come first.
    moved = max(abs(queue.change("depth") or 0), abs(queue.change("ready") or 0), abs(queue.change("hidden") or 0))
    return -moved, not queue.has_other_verdict, queue.key
