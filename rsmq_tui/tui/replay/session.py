"""A replay in the dashboard, opened by the command or from any screen; and the events before a moment of it."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rsmq_tui.events.detector import QueueDetector, ServerDetector
from rsmq_tui.events.model import Event
from rsmq_tui.history.names import Place
from rsmq_tui.history.reading import History
from rsmq_tui.history.replay.polls import Timeline
from rsmq_tui.history.replay.replay import labels_of
from rsmq_tui.history.replay.tracking import PlaceTrack
from rsmq_tui.monitor import Snapshot
from rsmq_tui.monitor.changes import AuditedChange, AuditedChanges, by_subject, read_changes
from rsmq_tui.monitor.tracking.trend import Trend
from rsmq_tui.tui.servers import WatchedServer

if TYPE_CHECKING:
    from rsmq_tui.history.reading import RecordedSpan
    from rsmq_tui.history.replay.player import Player, ReplaySource
    from rsmq_tui.monitor.incidents import Expected


@dataclass(frozen=True, slots=True)
class MarkedTime:
    """A marked time to compare with, and the snapshot that was shown then."""

    at_ms: int
    snapshot: Snapshot


class ReplaySession:
    """The state of a replay for the app and its screens: its player, its servers, and the marked time.

    ``source_of`` makes the source of a place. Changes are read from the audit logs ``change_logs``.
    """

    def __init__(
        self,
        player: "Player",
        source_of: "Callable[[Place], ReplaySource]",
        label: str,
        change_logs: Sequence[Path] = (),
    ) -> None:
        self.player = player
        self.servers: tuple[WatchedServer, ...] = ()
        self.label = label
        self._change_logs = change_logs
        self._reading: asyncio.Future[AuditedChanges] | None = None
        self._changed: Mapping[tuple[str, ...], Sequence[AuditedChange]] = {}
        self.marked: MarkedTime | None = None
        self._problems_shown = 0
        self._source_of = source_of
        self._labels: Mapping[Place, str] = {}
        # By all labels that they ever had: open screens may still have an older one.
        self._places: dict[str, Place] = {}
        self._sources: dict[Place, ReplaySource] = {}
        self.follow()

    def follow(self) -> bool:
        """Add new places, and return whether there were any. A place that was the only one then gets a label."""
        labels = self.player.replay.labels
        if labels is self._labels:
            return False
        self._labels = labels
        for place, label in labels.items():
            self._places[label] = place
            if place not in self._sources:
                self._sources[place] = self._source_of(place)
        self.servers = tuple(
            WatchedServer(self._sources[place], place=label, name=place.profile, ns=place.ns, read_only=True)
            for place, label in labels.items()
        )
        if self.marked is not None and not self.marked.snapshot.parts:
            self.marked = MarkedTime(self.marked.at_ms, _relabelled(self.marked.snapshot, self.label_of("")))
        return True

    def label_of(self, label: str) -> str:
        """Return the current label of the place that has or had this label; raises ``LookupError``."""
        return self._labels[self._places[label]]

    @property
    def servers_by_label(self) -> "dict[str, WatchedServer]":
        """The servers by their current and earlier labels."""
        by_label = {server.place: server for server in self.servers}
        return {label: by_label[self.label_of(label)] for label in self._places}

    @property
    def position_ms(self) -> int:
        """The moment that is shown."""
        return self.player.position_ms

    def shows(self, at_ms: int) -> bool:
        """Return whether it shows that moment, and anything was recorded then, including an outage."""
        snapshot = self.player.snapshot
        failures = [part.connection.failure for part in snapshot.parts or (snapshot,)]
        return self.position_ms == at_ms and any(failure is None or failure.kind != "gap" for failure in failures)

    @property
    def span(self) -> "RecordedSpan":
        """The recorded span."""
        return self.player.replay.span

    async def changes(self) -> AuditedChanges:
        """Return the changes of its servers; they are read once, in a thread: a long log takes seconds."""
        if self._reading is None:
            self._reading = asyncio.ensure_future(asyncio.to_thread(self._read_changes))
        # Whoever waits may be cancelled, as by the next read of a screen.
        return await asyncio.shield(self._reading)

    def _read_changes(self) -> AuditedChanges:
        servers = {place.server for place in self._labels}
        audited = read_changes(self._change_logs, lambda change: change.server in servers)
        self._changed = by_subject(audited.changes)
        return audited

    def changed_ms(self, snapshot: Snapshot, queue: str | None = None) -> list[int]:
        """Return when a queue of a snapshot, or any of its queues, was changed with this program, once that is read."""
        name = () if queue is None else (queue,)
        places = ((part.server, part.ns, *name) for part in snapshot.parts or (snapshot,))
        return [change.at_ms for place in places for change in self._changed.get(place, ())]

    @property
    def problems(self) -> list[str]:
        """A sentence for each file that was left out."""
        return self.player.replay.timeline.history.problems

    def new_problems(self) -> list[str]:
        """Return the problems since the last call."""
        news = self.problems[self._problems_shown :]
        self._problems_shown += len(news)
        return news

    def mark(self, snapshot: Snapshot) -> None:
        """Mark the current time with what is shown, without its trend."""
        parts = tuple(replace(part, trend=Trend()) for part in snapshot.parts)
        self.marked = MarkedTime(self.position_ms, replace(snapshot, trend=Trend(), parts=parts))

    def place(self, label: str) -> "Place":
        """Return the recorded place of a current or earlier label; raises ``LookupError``."""
        return self._places[label]

    def inventory_ms(self, place: str, queue: str) -> int | None:
        """Return the time of the last inventory that was read for a queue; None if none was."""
        return self._sources[self._places[place]].seen.get(queue)


def replay_session(
    history: "History",
    *,
    from_ms: int | None = None,
    to_ms: int | None = None,
    speed: float = 60.0,
    playing: bool = True,
    clock: Callable[[], float] = time.monotonic,
    expected: "Mapping[str, Expected] | None" = None,
    change_logs: Sequence[Path] = (),
) -> ReplaySession:
    """Return a replay of an open history; ``clock`` is a monotonic clock in seconds. Raises ``HistoryError``.

    Troubles that are ``expected``, by profile, are no incidents. Changes are read from the audit logs ``change_logs``.
    """
    from rsmq_tui.history.replay.messages import Inventories  # noqa: PLC0415
    from rsmq_tui.history.replay.player import Player, ReplaySource  # noqa: PLC0415
    from rsmq_tui.history.replay.replay import Replay  # noqa: PLC0415

    replay = Replay(history, from_ms=from_ms, to_ms=to_ms, expected=expected)
    player = Player(replay, speed=speed, playing=playing, clock=clock)
    inventories = Inventories(history)
    return ReplaySession(player, lambda place: ReplaySource(player, place, inventories), history.label, change_logs)


def _relabelled(snapshot: Snapshot, label: str) -> Snapshot:
    """Return the snapshot with that label as its place."""
    return replace(snapshot, place=label, queues=tuple(queue._replace(place=label) for queue in snapshot.queues))


def events_before(history: str, at_ms: int, span_ms: int, changes: Sequence[AuditedChange] = ()) -> list[Event]:
    """Return the events in that time before a moment; raises ``HistoryError``, and errors of filesystems.

    Of the ``changes``, it returns those that were made in the recorded namespaces and lists.
    """
    from rsmq_tui.events.recorder import event_of_change  # noqa: PLC0415 - it loads what reads the journal

    timeline = Timeline(History(history), at_ms)
    labels = labels_of(timeline.places)
    tracks: dict[Place, PlaceTrack] = {}
    queues: dict[Place, QueueDetector] = {}
    servers: dict[str, ServerDetector] = {}
    informing: dict[str, Place] = {}
    found: list[Event] = []
    for poll in timeline.polls(max(timeline.span.from_ms, at_ms - span_ms), at_ms):
        place = poll.place
        if place not in tracks:
            tracks[place] = PlaceTrack(place, labels.get(place, place.ns), timeline.spans)
            queues[place] = QueueDetector(place.server, place.ns, poll.thresholds)
            servers.setdefault(place.server, ServerDetector(place.server))
        tracks[place].add_poll(poll)
        snapshot = tracks[place].snapshot(poll.at_ms)
        found += servers[place.server].observe(f"{place.profile} {place.ns}", snapshot.connection.failure, poll.at_ms)
        # The places of a cluster may be on different nodes: INFO of the first one counts for all.
        if poll.info is not None and informing.setdefault(place.server, place) == place:
            found += servers[place.server].observe_info(poll.info)
        # INFO tells a queue that a restart lost from one that was deleted.
        found += queues[place].observe(replace(snapshot, info=poll.info))
    places = {place[1:] for place in timeline.places}
    made = (one for one in changes if at_ms - span_ms <= one.at_ms <= at_ms)
    here = (one for one in made if any(subject[:2] in places for subject in one.subjects))
    return [*found, *map(event_of_change, here)]
