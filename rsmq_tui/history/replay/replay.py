"""Replays a history: a moment of recorded time, and the snapshot that a live poller would have made then.

There is no clock here: the player says how much time has passed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from rsmq_tui.history.names import Place
from rsmq_tui.history.reading import History, Poll, Span
from rsmq_tui.history.replay.polls import WINDOW_MS, Change, Changes, Of, Timeline, Told
from rsmq_tui.history.replay.tracking import PlaceTrack
from rsmq_tui.monitor import Snapshot, Thresholds
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


# How far back the last numbers before an outage are looked for.
LOOK_BACK_MS = 6 * 3_600_000


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

    def __init__(self, history: History, *, from_ms: int | None = None, to_ms: int | None = None) -> None:
        # Those that the recorder of each place used at that moment.
        self.thresholds: dict[Place, Thresholds] = {}
        self.timeline = Timeline(history, from_ms)
        self.labels = labels_of(self.timeline.places)
        self.position_ms = 0
        self.snapshot = Snapshot(0, "", "")
        self.skipped: Span | None = None
        self._to_ms = to_ms
        self._changes = Changes(self.timeline)
        self._tracks: dict[Place, PlaceTrack] = {}
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
        self._tracks = {}
        from_ms = at_ms - timeline.pace.warm_ms
        self._take_last_known(from_ms, at_ms)
        polls = list(timeline.polls(from_ms, at_ms))
        for place in {poll.place for poll in polls}:
            self._track(place)
        # What is not there yet is not waited for.
        self._together = Fleet(tuple(label for place, label in self.labels.items() if place in self._tracks))
        self._take(polls)
        # Screens look at it meanwhile: it goes with the snapshot.
        self.position_ms = at_ms
        self._show()

    def play(self, elapsed_ms: int) -> None:
        """Let so much recorded time pass, but not beyond the end; where nothing was recorded, go on behind that."""
        before_ms, end_ms = self.position_ms, self.end_ms
        to_ms = min(end_ms, before_ms + elapsed_ms)
        next_ms = self.timeline.near(before_ms, 1)
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
                next_ms = self.timeline.near(at_ms, 1)
            else:
                # The poll that is shown may be of a moment ago.
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

    def go_to_change(self, direction: int, queue: Of | None = None, told: Told | None = None) -> list[Change]:
        """Go to the next change of a verdict, or the one before where negative; return what changed, if anything."""
        found = self._changes.near(self.position_ms, direction, queue, told)
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
            light = self._take_poll(poll)
            if len(self.labels) > 1:
                self._together.take(light)

    def _take_poll(self, poll: Poll) -> Snapshot:
        if poll.failure is None:
            self.thresholds[poll.place] = poll.thresholds
        return self._track(poll.place).take(poll)

    def _track(self, place: Place) -> PlaceTrack:
        track = self._tracks.get(place)
        if track is None:
            if place not in self.labels:
                self._name_places()
            track = self._tracks[place] = self._new_track(place)
        return track

    def _new_track(self, place: Place) -> PlaceTrack:
        return PlaceTrack(place, self.labels[place], self.timeline.pace)

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
            files = [
                file for file in timeline.history.files(Span(first_ms, end_ms)) if not unknown.isdisjoint(file.places)
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
