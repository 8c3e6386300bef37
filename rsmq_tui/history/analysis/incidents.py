"""From episodes to incidents, and to the heads of those that happened together in one server.

The rule for the episodes of one queue is ``rsmq_tui.monitor.incidents.grouped``. A queue that was deleted and created
again is another one, whose trouble is an incident of its own.

Places of one server, such as its namespaces and its list queues, go down together: that is one outage, and the head of
the incidents that begin during it, within ``TOGETHER_MS`` after it, or shortly before it. A stall that the outage
causes counts from the last receive, up to ``RECEIVED_WITHIN_MS`` before the last answer: consumers receive that often
what is ready. One that began earlier is not of the outage. If the last answer is not known, ``TOGETHER_MS`` before the
outage counts. Other incidents of several queues that
begin within ``TOGETHER_MS`` of the first of them have a head too. A head lasts from the first start to the last end
of the incidents that it stands for.
"""

import hashlib
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TypeVar

from rsmq_tui.history.analysis.values import DOWN, OPEN, Episode, Incident, QueueRef, TimeRange
from rsmq_tui.history.names import Place, stored_name
from rsmq_tui.monitor import Verdict
from rsmq_tui.monitor.changes import AuditedChange
from rsmq_tui.monitor.incidents import RECEIVED_WITHIN_MS, TOGETHER_MS, Expected, grouped
from rsmq_tui.monitor.model import was_created_again
from rsmq_tui.monitor.text import count, duration, plural
from rsmq_tui.protocol.kinds import kind_of

_NOTHING = Expected()
_WORST_FIRST = (DOWN, *(verdict.value for verdict in Verdict))
_ID_DIGITS = 16
_UNKNOWN = "unknown"

Part = TypeVar("Part", Episode, Incident)

TimeSpan = tuple[int, int]
"""A beginning and an end, in ms."""


def incidents_of(episodes: Iterable[Episode], expected: Mapping[str, Expected] | None = None) -> tuple[Incident, ...]:
    """Return the incidents of some episodes, the earliest first; ``expected`` is by profile."""
    servers: dict[tuple[str, str], list[Episode]] = {}
    for episode in episodes:
        known = (expected or {}).get(episode.place.profile, _NOTHING)
        if episode.queue is not None and known.holds(episode.queue, kind_of(episode.place.ns).name):
            continue
        rest = known.rest(episode.start_ms, episode.end_ms)
        if rest is not None:
            start_ms, end_ms = rest
            server = episode.place.profile, episode.place.server
            servers.setdefault(server, []).append(replace(episode, start_ms=start_ms, end_ms=end_ms))
    found = (incident for of_server in servers.values() for incident in _of_server(of_server))
    return tuple(sorted(found, key=_order))


def incidents_at(changes: Iterable[AuditedChange], incidents: Iterable[Incident]) -> dict[AuditedChange, Incident]:
    """Return the incidents during which changes began, each of one of the queues, or else an outage of the server."""
    known: dict[tuple[str, ...], list[Incident]] = {}
    for incident in incidents:
        if incident.ref is not None:
            known.setdefault(incident.ref[1:], []).append(incident)
        elif incident.is_outage:
            known.setdefault((incident.place.server,), []).append(incident)
    found = {}
    for change in changes:
        near = chain.from_iterable(known.get(subject, ()) for subject in (*change.subjects, (change.server,)))
        during = next((one for one in near if one.start_ms <= change.at_ms <= one.end_ms), None)
        if during is not None:
            found[change] = during
    return found


def outcome_words(change: AuditedChange, incident: Incident, until_ms: int | None = None) -> str:
    """Return how long after a change the incident in which it was made was over; ``until_ms`` ends what is known."""
    if incident.is_ongoing(until_ms):
        return "ongoing"
    if incident.ended != "over":
        return "its end is not known"
    return f"over {duration(incident.end_ms - change.at_ms)} later"


def of_chosen(
    incidents: Collection[Incident], queues: Collection[QueueRef], episodes: Iterable[Episode]
) -> tuple[Incident, ...]:
    """Return the incidents of some queues, the outages of their servers, and their heads, the earliest first.

    A head stands for these queues only: what it says of others that were in trouble with them is left out, and a head
    of one of them is none. ``episodes`` has those of the outages.
    """
    servers = {(ref.profile, ref.server) for ref in queues}
    members: dict[str | None, list[Incident]] = {}
    for one in incidents:
        if one.ref in queues:
            members.setdefault(one.head_id, []).append(one)
    heads = [one for one in incidents if one.queue is None]
    downs = [one for one in heads if DOWN in one.verdicts and one.place[:2] in servers]
    parts: dict[str, list[Episode]] = {one.id: [] for one in downs}
    for episode in episodes:
        before = [one for one in downs if one.place[:2] == episode.place[:2] and one.start_ms <= episode.end_ms]
        if episode.queue is None and before:
            head = max(before, key=_start_ms)
            # Of a time that was expected, only the rest is in the head.
            parts[head.id].append(replace(episode, start_ms=max(episode.start_ms, head.start_ms)))
    found: list[Incident] = []
    for head in downs:
        found += _with_head(members.pop(head.id, []), _incident(parts[head.id]) if parts[head.id] else _outage(head))
    for head in heads:
        own = members.pop(head.id, [])
        is_several = len({one.ref for one in own}) > 1
        found += _with_head(own) if is_several else [replace(one, head_id=None) for one in own]
    return tuple(sorted(chain(found, *members.values()), key=_order))


def _outage(head: Incident) -> Incident:
    """Return what is known of the outage of a head, without its episodes."""
    return replace(head, worst=DOWN, verdicts=(DOWN,), peak_depth=None, affected=None, episodes=1, cause="")


def times_of(incidents: Iterable[Incident], episodes: Iterable[Episode]) -> dict[str, list[TimeSpan]]:
    """Return when there was trouble in each of some incidents, by its id: the ok times between its episodes are none.

    The times of a head are those of its outages and of the incidents that it stands for. ``episodes`` are all in the
    time of interest; an incident without any lasted all the time.
    """
    of_subject: dict[tuple[str | None, ...], list[Incident]] = {}
    for incident in sorted(incidents, key=_order):
        of_subject.setdefault(_subject(incident), []).append(incident)
    found: dict[str, list[TimeSpan]] = {one.id: [] for each in of_subject.values() for one in each}
    heads = {one.id: one.head_id for each in of_subject.values() for one in each}
    for episode in episodes:
        known = of_subject.get(_subject(episode), [])
        # It may reach into the time of an incident, if the rest of it was expected.
        for incident in reversed(known[: bisect_right(known, episode.end_ms, key=_start_ms)]):
            span = max(episode.start_ms, incident.start_ms), min(episode.end_ms, incident.end_ms)
            if span[0] <= span[1] and (episode.queue is not None or DOWN in incident.verdicts):
                found[incident.id].append(span)
                if (head_id := heads[incident.id]) in found and head_id is not None:
                    found[head_id].append(span)
                break
    whole = {one.id: [(one.start_ms, one.end_ms)] for each in of_subject.values() for one in each}
    return {id: joined(spans or whole[id]) for id, spans in found.items()}


def _subject(part: Episode | Incident) -> tuple[str | None, ...]:
    return (*part.place, part.queue) if part.queue is not None else (*part.place[:2], None)


def joined(spans: Iterable[TimeSpan]) -> list[TimeSpan]:
    """Return the spans in order, with those that overlap joined."""
    found: list[TimeSpan] = []
    for from_ms, to_ms in sorted(spans):
        if found and from_ms <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], to_ms))
        else:
            found.append((from_ms, to_ms))
    return found


def covered_ms(spans: Iterable[TimeSpan], within: TimeRange) -> int:
    """Return how much of a range the spans cover together."""
    clipped = ((max(from_ms, within.from_ms), min(to_ms, within.to_ms)) for from_ms, to_ms in joined(spans))
    return sum(max(0, to_ms - from_ms) for from_ms, to_ms in clipped)


def common(some: Iterable[TimeSpan], others: Iterable[TimeSpan]) -> list[TimeSpan]:
    """Return the spans that some spans and others both cover, in order."""
    found, others, place = [], joined(others), 0
    for from_ms, to_ms in joined(some):
        while place < len(others) and others[place][1] <= from_ms:
            place += 1
        for begin_ms, end_ms in others[place : bisect_left(others, (to_ms, 0))]:
            found.append((max(begin_ms, from_ms), min(end_ms, to_ms)))
    return found


def severity(verdict: str) -> int:
    """Return the rank of a verdict, 0 for the worst; unknown words come last."""
    return _WORST_FIRST.index(verdict) if verdict in _WORST_FIRST else len(_WORST_FIRST)


def _of_server(episodes: Iterable[Episode]) -> Iterable[Incident]:
    """Yield the incidents of one server: each with its head, if it has one, and the heads."""
    queues: dict[tuple[Place, str], list[Episode]] = {}
    downs: list[Episode] = []
    # In an order that does not depend on that of files.
    for episode in sorted(episodes, key=lambda one: (one.start_ms, one.end_ms, severity(one.verdict), one.place)):
        if episode.queue is None:
            downs.append(episode)
        else:
            queues.setdefault((episode.place, episode.queue), []).append(episode)
    alone = sorted(
        (_incident(group) for each in queues.values() for life in _lives(each) for group in grouped(life)), key=_order
    )
    rest: list[Incident] = []
    place = 0
    for group in grouped(downs):
        outage = _incident(group)
        answered_ms = _most(one.answered_ms for one in group if (one.answered_ms or 0) < outage.start_ms)
        before_ms = outage.start_ms - TOGETHER_MS
        before_ms = before_ms if answered_ms is None else max(before_ms, answered_ms - RECEIVED_WITHIN_MS)
        first = bisect_left(alone, before_ms, place, key=_start_ms)
        end = bisect_right(alone, outage.end_ms + TOGETHER_MS, first, key=_start_ms)
        rest += alone[place:first]
        yield from _with_head(alone[first:end], outage)
        place = end
    rest += alone[place:]
    place = 0
    while place < len(rest):
        end = bisect_right(rest, rest[place].start_ms + TOGETHER_MS, place, key=_start_ms)
        members, place = rest[place:end], end
        yield from members if len({one.ref for one in members}) == 1 else _with_head(members)


def _lives(episodes: Iterable[Episode]) -> list[list[Episode]]:
    """Divide the episodes of one name, in the order of time, where another queue of that name was created."""
    lives: list[list[Episode]] = []
    created_ms: int | None = None
    for episode in episodes:
        if not lives or was_created_again(created_ms, episode.created_ms):
            lives.append([])
        lives[-1].append(episode)
        created_ms = created_ms if episode.created_ms is None else episode.created_ms
    return lives


def _incident(episodes: Sequence[Episode]) -> Incident:
    """Return the incident of a queue that these episodes are, or an outage of their server."""
    first, last = episodes[0], _last(episodes)
    worst = min(episodes, key=lambda one: (severity(one.verdict), -one.length_ms, one.start_ms))
    place = first.place if first.queue is not None else Place(first.place.profile, first.place.server, "")
    return Incident(
        place=place,
        queue=first.queue,
        id=_id(place, first.queue, first.start_ms),
        worst=worst.verdict,
        verdicts=tuple(dict.fromkeys(one.verdict for one in episodes)),
        start_ms=first.start_ms,
        end_ms=last.end_ms,
        ended=last.ended,
        recovered_ms=last.recovered_ms,
        peak_depth=_most(one.peak_depth for one in episodes),
        affected=_most(one.affected for one in episodes),
        episodes=len(episodes),
        cause=worst.cause,
    )


def _with_head(members: Sequence[Incident], outage: Incident | None = None) -> Iterable[Incident]:
    """Yield the head of some incidents, and these with it; the head is the ``outage``, if there is one."""
    parts = [*members, outage] if outage is not None else [*members]
    parts.sort(key=lambda one: one.start_ms)
    place = Place(parts[0].place.profile, parts[0].place.server, "")
    last = _last(parts)
    recovered = [one.recovered_ms for one in parts if one.recovered_ms is not None]
    affected = [one.affected for one in members if one.affected is not None]
    id = _id(place, None, parts[0].start_ms)
    yield Incident(
        place=place,
        queue=None,
        id=id,
        worst=min((one.worst for one in parts), key=severity),
        verdicts=tuple(dict.fromkeys(verdict for one in parts for verdict in one.verdicts)),
        start_ms=parts[0].start_ms,
        end_ms=last.end_ms,
        ended=OPEN if any(one.ended == OPEN for one in parts) else last.ended,
        recovered_ms=max(recovered) if len(recovered) == len(parts) else None,
        peak_depth=_most(one.peak_depth for one in parts),
        affected=sum(affected) if affected else None,
        episodes=sum(one.episodes for one in parts),
        cause="; ".join(filter(None, (outage.cause if outage is not None else "", _queues(members)))),
    )
    for one in members:
        yield replace(one, head_id=id)


def _last(parts: Sequence[Part]) -> Part:
    """Return what ended last; of several at the same time, one that is open, or whose end is unknown."""
    return max(parts, key=lambda one: (one.end_ms, one.ended == OPEN, one.ended == _UNKNOWN))


def _queues(members: Sequence[Incident]) -> str:
    """Say how many queues were in trouble together: 5 queues: stalled (3), growing (2)."""
    if not members:
        return ""
    worst = Counter(one.worst for one in members)
    verdicts = (
        f"{verdict} ({count(number)})" for verdict, number in sorted(worst.items(), key=lambda one: severity(one[0]))
    )
    return f"{plural(len({one.ref for one in members}), 'queue')} at the same time: {', '.join(verdicts)}"


def _id(place: Place, queue: str | None, start_ms: int) -> str:
    names = "\0".join((*place.stored, stored_name(queue or ""), str(start_ms)))
    return hashlib.sha256(names.encode()).hexdigest()[:_ID_DIGITS]


def _most(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


def _start_ms(incident: Incident) -> int:
    return incident.start_ms


def _order(incident: Incident) -> tuple[int, str, str, str, str]:
    # A head has no namespace, and so comes before what it stands for.
    return (incident.start_ms, *incident.place, incident.queue or "")
