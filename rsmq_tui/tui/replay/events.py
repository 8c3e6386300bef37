"""The events of a replay: the recorded polls, compared as live ones are."""

from rsmq_tui.events.detector import QueueDetector, ServerDetector
from rsmq_tui.events.model import Event
from rsmq_tui.history.names import Place
from rsmq_tui.history.reading import History
from rsmq_tui.history.replay.polls import Timeline
from rsmq_tui.history.replay.replay import labels_of
from rsmq_tui.history.replay.tracking import PlaceTrack


def events_before(history: str, at_ms: int, span_ms: int) -> list[Event]:
    """Return what happened in that time before a moment; raises ``HistoryError``, and what a filesystem raises."""
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
            tracks[place] = PlaceTrack(place, labels.get(place, place.ns), timeline.pace)
            queues[place] = QueueDetector(place.server, place.ns, poll.thresholds)
            servers.setdefault(place.server, ServerDetector(place.server))
        tracks[place].take(poll)
        snapshot = tracks[place].snapshot(poll.at_ms)
        found += servers[place.server].take(f"{place.profile} {place.ns}", snapshot.link.failure, poll.at_ms)
        # The places of a cluster may be on different nodes: the first one speaks for all.
        if poll.info is not None and informing.setdefault(place.server, place) == place:
            found += servers[place.server].take_info(poll.info)
        found += queues[place].take(snapshot)
    return found
