"""Random interleavings of our changes with a real producer and consumer: nothing lost, doubled, or changed unasked."""

import asyncio
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule
from redis import Redis

from rsmq_tui.monitor import parse_filter
from rsmq_tui.protocol import Rsmq
from rsmq_tui.triage.actions import Action, Copy, Delete, Hide, Move, Redrive, Release, Send
from rsmq_tui.triage.change import ChangeReport
from rsmq_tui.triage.rsmq.backend import RsmqBackend
from rsmq_tui.triage.scope import Everything, Matching, Named, Preview
from rsmq_tui.triage.service import ChangeService
from tests.machines import run_machine
from tests.protocol.keyspace import everything
from tests.triage.interleaving import Change, ChangeMachine
from tests.triage.keyspace import markers

QUEUES = ("a", "b")
QUEUE = st.sampled_from(QUEUES)
WHICH = st.integers(min_value=0, max_value=9)
OTHER = {"a": "b", "b": "a"}
# What is named is changed while it is the same; what matches, while it matches.
SCOPES = ("every", "named", "ready", "received")
READY, RECEIVED = Matching(parse_filter("state:ready")), Matching(parse_filter("rc>=1"))
ACTIONS = {
    "delete": lambda queue: Delete(queue=queue),
    "hide": lambda queue: Hide(queue=queue, seconds=1000),
    "release": lambda queue: Release(queue=queue),
    "move": lambda queue: Move(queue=queue, target=OTHER[queue]),
    "copy": lambda queue: Copy(queue=queue, target=OTHER[queue]),
    "redrive": lambda queue: Redrive(queue=queue, target=OTHER[queue]),
    "send": lambda queue: Send(queue=queue, bodies=(b"ours",) * 3),
}


@dataclass(frozen=True)
class Message:
    """A message as it lies in a queue."""

    score: float
    body: bytes | None
    rc: bytes | None
    fr: bytes | None


State = dict[str, dict[bytes, Message]]


class Interleaving(ChangeMachine[State]):
    """Our changes in parts, and between these whatever others do."""

    previewed: tuple[Preview, State, str] | None

    def service(self) -> ChangeService:
        return ChangeService(RsmqBackend(self.url, "rsmq"), self.folder)

    @initialize()
    def begin(self) -> None:
        self.clear()
        self.queues = Rsmq(self.client)
        for queue in QUEUES:
            self.queues.create_queue(queue, vt=1000)
            self.queues.send_messages(queue, [f"{queue} {number}" for number in range(4)])

    def state(self) -> State:
        found: State = {}
        for queue in QUEUES:
            fields = self.client.hgetall(f"rsmq:{queue}:Q")
            found[queue] = {
                id: Message(score, fields.get(id), fields.get(id + b":rc"), fields.get(id + b":fr"))
                for id, score in self.client.zrange(f"rsmq:{queue}", 0, -1, withscores=True)
            }
        return found

    def id(self, queue: str, which: int) -> str | None:
        ids = sorted(self.client.zrange(f"rsmq:{queue}", 0, -1))
        return ids[which % len(ids)].decode() if ids else None

    @rule(queue=QUEUE, delay=st.sampled_from([0, 1000]))
    def produce(self, queue: str, delay: int) -> None:
        self.queues.send_message(queue, "theirs", delay=delay)

    @rule(queue=QUEUE, vt=st.sampled_from([0, 1000]))
    def receive(self, queue: str, vt: int) -> None:
        self.queues.receive_message(queue, vt=vt)

    @rule(queue=QUEUE)
    def pop(self, queue: str) -> None:
        self.queues.pop_message(queue)

    @rule(queue=QUEUE, which=WHICH)
    def delete(self, queue: str, which: int) -> None:
        id = self.id(queue, which)
        if id is not None:
            self.queues.delete_message(queue, id)

    @rule(queue=QUEUE, which=WHICH, seconds=st.sampled_from([0, 500]))
    def change_visibility(self, queue: str, which: int, seconds: int) -> None:
        id = self.id(queue, which)
        if id is not None:
            self.queues.change_message_visibility(queue, id, seconds)

    @precondition(lambda self: self.previewed is None)
    @rule(queue=QUEUE, name=st.sampled_from(sorted(ACTIONS)), which=st.sampled_from(SCOPES))
    def preview(self, queue: str, name: str, which: str) -> None:
        before = everything(self.client)
        ids = tuple(id.decode() for id in self.state()[queue])
        named = Named(ids) if ids else Everything()
        scopes = {"every": Everything(), "named": named, "ready": READY, "received": RECEIVED}
        preview = self.wait(self.triage.preview(ACTIONS[name](queue), scopes[which]))
        assert everything(self.client) == before
        self.previewed = preview, self.state(), which if ids else "every"

    @precondition(lambda self: self.previewed is not None)
    @rule()
    def run(self) -> None:
        assert self.previewed is not None
        preview, seen, which = self.previewed
        self.previewed = None
        report, before, after = self.ran(preview)
        queue = preview.action.queue
        asked = (
            {id for id, now in before[queue].items() if self.may_change(which, seen[queue].get(id), now)}
            if preview.selection is not None
            else set()
        )
        self.check(preview.action, report, asked, before, after)
        assert report.change is not None
        if report.undoable:
            self.made.append(Change(report.change, preview.action, before, after))

    def may_change(self, which: str, seen: Message | None, now: Message) -> bool:
        """Tell whether a message of the queue still is what the scope was for."""
        match which:
            case "ready":
                at_ms = int(self.client.time()[0]) * 1000 + 1000
                return seen is not None and seen.score <= at_ms and now.score <= at_ms
            case "received":
                return seen is not None and seen.rc is not None and now.rc is not None
            case "named":
                return _is_same(seen, now)
        return seen is not None

    def check(self, action: Action, report: ChangeReport, asked: set[bytes], before: State, after: State) -> None:
        """Only what was asked for has changed, and as it was asked for."""
        queue, other = action.queue, OTHER[action.queue]
        if isinstance(action, Send):
            new = {id: now for id, now in after[queue].items() if id not in before[queue]}
            assert [(now.body, now.rc, now.fr) for now in new.values()] == [(b"ours", None, None)] * 3
            assert report.tally.done == 3
            assert {id: now for id, now in after[queue].items() if id not in new} == before[queue]
            assert after[other] == before[other]
            return
        assert report.tally.done == len(asked)
        assert not report.tally.failed
        untouched = {id: now for id, now in before[queue].items() if id not in asked}
        assert {id: now for id, now in after[queue].items() if id not in asked} == untouched
        arrived = {id: now for id, now in after[other].items() if id not in before[other]}
        assert {id: now for id, now in after[other].items() if id in before[other]} == before[other]
        match action:
            case Hide() | Release():
                assert not arrived
                assert all(_but_score(after[queue][id]) == _but_score(before[queue][id]) for id in asked)
            case Delete():
                assert not arrived
                assert not asked & after[queue].keys()
            case Copy():
                assert all(after[queue][id] == before[queue][id] for id in asked)
                assert Counter(now.body for now in arrived.values()) == _bodies(before[queue], asked)
                assert {(now.rc, now.fr) for now in arrived.values()} <= {(None, None)}
            case Move():
                assert not asked & after[queue].keys()
                # Some may have new ids, where the copy of an earlier change was.
                assert Counter(arrived.values()) == Counter(before[queue][id] for id in asked)
            case Redrive():
                assert not asked & after[queue].keys()
                assert Counter(now.body for now in arrived.values()) == _bodies(before[queue], asked)
                assert {(now.rc, now.fr) for now in arrived.values()} <= {(None, None)}

    def check_undo(self, change: Change[State], report: ChangeReport, now: State, after: State) -> None:
        places = {(queue, id) for queue in QUEUES for id in {*change.before[queue], *change.after[queue]}}
        ours = {place for place in places if _at(change.before, place) != _at(change.after, place)}
        for queue in QUEUES:
            for id in {*now[queue], *after[queue]}:
                if (queue, id) not in ours:
                    assert after[queue].get(id) == now[queue].get(id), "what was not ours has changed"
        untouched = {place for place in ours if _at(now, place) == _at(change.after, place)}
        if untouched == ours:
            assert report.tally.done == report.tally.handled
            assert all(_at(after, place) == _at(change.before, place) for place in ours)
        elif not isinstance(change.action, Move | Redrive):
            # Each is restored by itself: those that nobody has touched are, and the others are told.
            back = {place for place in ours if _is_undoable(_at(now, place), _at(change.after, place))}
            assert all(_at(after, place) == _at(change.before, place) for place in untouched)
            assert report.tally.done == len(back)
            assert report.tally.skipped.total() + report.tally.failed.total() == len(ours - back)

    @precondition(lambda self: self.previewed is None)
    @rule(queue=QUEUE, name=st.sampled_from(sorted(ACTIONS)))
    def there_and_back(self, queue: str, name: str) -> None:
        """With nobody in between, every byte of every key comes back."""
        before = everything(self.client)
        self.make_and_undo(ACTIONS[name](queue))
        assert everything(self.client) == before
        assert markers(self.client) == {}


def _is_same(seen: Message | None, now: Message) -> bool:
    return seen is not None and (seen.score, seen.rc) == (now.score, now.rc)


def _is_undoable(now: Message | None, after: Message | None) -> bool:
    if now is None or after is None:
        return now is after
    return _is_same(after, now)


def _but_score(found: Message) -> tuple[bytes | None, ...]:
    return found.body, found.rc, found.fr


def _bodies(of: dict[bytes, Message], ids: set[bytes]) -> Counter[bytes | None]:
    return Counter(of[id].body for id in ids)


def _at(state: State, place: tuple[str, bytes]) -> Message | None:
    return state[place[0]].get(place[1])


RANDOM = settings(
    max_examples=25,
    stateful_step_count=20,
    derandomize=True,
)


def test_any_interleaving_loses_nothing_doubles_nothing_and_changes_nothing_unasked(
    client: Redis, redis_url: str, folder: Path
) -> None:
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        run_machine(lambda: Interleaving(client, redis_url, folder, loop), settings=RANDOM)
