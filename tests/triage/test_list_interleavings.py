"""Random interleavings of our changes of list queues with real consumers, workers and producers."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule
from redis import Redis

from rsmq_tui.protocol.lists.naming import ListNames, item_id
from rsmq_tui.triage.actions import Ack, Action, Copy, Delete, Hide, Move, Pop, PurgeList, Push, Requeue, Send, Trim
from rsmq_tui.triage.change import ChangeReport
from rsmq_tui.triage.lists import select as list_select
from rsmq_tui.triage.scope import Named, Preview, Scope
from rsmq_tui.triage.service import ChangeService
from tests.machines import run_machine
from tests.protocol.keyspace import everything
from tests.triage.interleaving import Change, ChangeMachine
from tests.triage.keyspace import markers, unordered
from tests.triage.list_doing import LEASES, NAMES, WORKING, A, B, list_changes, read, send, take

OTHER = {A: B, B: A}
ACTIONS = {
    "delete": lambda queue: Delete(queue=queue),
    "pop": lambda queue: Pop(queue=queue, count=3),
    "trim": lambda queue: Trim(queue=queue, keep=5),
    "trim to the oldest": lambda queue: Trim(queue=queue, keep=5, keep_oldest=True),
    "purge": lambda queue: PurgeList(queue=queue, processing=True),
    "move": lambda queue: Move(queue=queue, target=OTHER[queue]),
    "copy": lambda queue: Copy(queue=queue, target=OTHER[queue]),
    "send": lambda queue: Send(queue=queue, bodies=(b"ours 1", b"ours 2")),
    "send first": lambda queue: Push(queue=queue, bodies=(b"ours 1", b"ours 2"), first=True),
    "requeue": lambda queue: Requeue(queue=queue),
    "requeue to the back": lambda queue: Requeue(queue=queue, to_back=True),
    "ack": lambda queue: Ack(queue=queue),
    "hide": lambda queue: Hide(queue=queue, seconds=1000),
}
SCATTERED = st.sets(st.integers(min_value=0, max_value=30), min_size=1, max_size=8)

State = dict[str, list[bytes]]


class Interleaving(ChangeMachine[State]):
    """Our changes, and between these whatever others do."""

    previewed: tuple[Preview, Counter[bytes]] | None

    def __init__(
        self, client: Redis, url: str, folder: Path, loop: asyncio.AbstractEventLoop, names: ListNames
    ) -> None:
        super().__init__(client, url, folder, loop)
        self.names, self.number = names, 0

    def service(self) -> ChangeService:
        return list_changes(self.url, self.names, self.folder)

    @initialize()
    def begin(self) -> None:
        self.clear()
        for queue in (A, B):
            self.produce(queue, 15)

    def state(self) -> State:
        keys = (A, B, WORKING)
        leases = [b"%s %d" % (member, score) for member, score in self.client.zrange(LEASES, 0, -1, withscores=True)]
        return {**{key: read(self.client, self.names, key) for key in keys}, LEASES: leases}

    @rule(queue=st.sampled_from([A, B]), count=st.sampled_from([1, 3]))
    def produce(self, queue: str, count: int) -> None:
        for _ in range(count):
            self.number += 1
            # Some of them are of equal bytes.
            send(self.client, self.names, queue, b"ping" if self.number % 7 == 0 else b"item %d" % self.number)

    @rule(queue=st.sampled_from([A, B]), count=st.sampled_from([1, 2, 4]))
    def consume(self, queue: str, count: int) -> None:
        take(self.client, self.names, queue, count)

    @rule(leased=st.booleans())
    def work(self, leased: bool) -> None:
        item = self.client.lmove(A, WORKING, self.names.take_from.upper(), "LEFT")
        if item is not None and leased:
            self.number += 1
            self.client.zadd(LEASES, {b"%022d:" % self.number + item: 2**41 + self.number})

    @rule()
    def finish_work(self) -> None:
        for member in self.client.zrange(LEASES, 0, 0):
            self.client.zrem(LEASES, member)
            self.client.lrem(WORKING, -1, member[23:])

    @precondition(lambda self: self.previewed is None)
    @rule(queue=st.sampled_from([A, B]), name=st.sampled_from(sorted(ACTIONS)), scattered=st.none() | SCATTERED)
    def preview(self, queue: str, name: str, scattered: set[int] | None) -> None:
        before = everything(self.client)
        action, scope = ACTIONS[name](queue), None
        if scattered is not None and name in ("delete", "move", "copy"):
            scope = self.scattered(queue, scattered)
        if not self.client.exists(queue) and not isinstance(action, Send) and not self.client.exists(WORKING):
            return
        if queue == B and not self.client.exists(B) and not isinstance(action, Send):
            return
        preview = self.wait(self.triage.preview(action, scope))
        assert everything(self.client) == before
        asked = Counter() if preview.selection is None else Counter(item.body or b"" for item in preview.selection)
        assert sum(asked.values()) in (preview.count, 0)
        self.previewed = preview, asked

    def scattered(self, queue: str, places: set[int]) -> Scope:
        items = read(self.client, self.names, queue)
        return Named(tuple(item_id("queue", at, items[at]) for at in sorted(places) if at < len(items)))

    @precondition(lambda self: self.previewed is not None)
    @rule()
    def run(self) -> None:
        assert self.previewed is not None
        preview, asked = self.previewed
        self.previewed = None
        report, before, after = self.ran(preview)
        self.check(preview.action, report, asked, before, after)
        if report.change is not None and report.undoable:
            self.made.append(Change(report.change, preview.action, before, after))

    def check(self, action: Action, report: ChangeReport, asked: Counter[bytes], before: State, after: State) -> None:
        """Only what was asked for has changed, as it was asked for, and everything else is in its order."""
        queue, other, done = action.queue, OTHER[action.queue], report.tally.done
        gone = _all(before) - _all(after)
        came = _all(after) - _all(before)
        match action:
            case Push():
                assert after[queue] == [b"ours 1", b"ours 2", *before[queue]]
            case Send():
                assert after[queue] == [*before[queue], b"ours 1", b"ours 2"]
            case Copy():
                assert after[queue] == before[queue]
                assert after[other][: len(before[other])] == before[other]
                assert sum(came.values()) == done
                assert not came - asked
            case Move():
                assert not gone
                assert not came
                assert after[other][: len(before[other])] == before[other]
                moved = after[other][len(before[other]) :]
                assert len(moved) == done
                assert not Counter(moved) - asked
                assert _is_within(after[queue], before[queue])
            case Requeue():
                assert not gone
                assert not came
                kept = after[queue][: len(before[queue])] if action.to_back else after[queue][done:]
                assert kept == before[queue]
                assert len(after[queue]) == len(before[queue]) + done
            case Hide():
                assert (gone, came) == (Counter(), Counter())
                assert [after[key] for key in (A, B, WORKING)] == [before[key] for key in (A, B, WORKING)]
            case _:
                assert not came
                assert sum(gone.values()) == done
                assert not gone - asked
                assert _is_within(after[queue], before[queue])
                assert _is_within(after[WORKING], before[WORKING])
                assert after[other] == before[other]

    def check_undo(self, change: Change[State], report: ChangeReport, now: State, after: State) -> None:
        queue = change.action.queue
        if now == change.after:
            assert report.tally.done == report.tally.handled
            assert {key: Counter(items) for key, items in after.items()} == {
                key: Counter(items) for key, items in change.before.items()
            }
        if isinstance(change.action, Copy | Send):
            assert sum((_all(now) - _all(after)).values()) == report.tally.done
            assert not _all(after) - _all(now)
        elif isinstance(change.action, Move | Requeue | Hide):
            assert _all(after) == _all(now)
        else:
            assert not _all(now) - _all(after)
            assert _all(after) - _all(now) == _all(change.before) - _all(change.after)
            # What was removed is taken next, in its order, before all that is there now.
            back = after[queue][: len(after[queue]) - len(now[queue])]
            assert after[queue] == back + now[queue]
            alone = {item for item, count in Counter(change.before[queue]).items() if count == 1}
            assert _is_within([item for item in back if item in alone], change.before[queue])

    @precondition(lambda self: self.previewed is None)
    @rule(queue=st.sampled_from([A, B]), name=st.sampled_from(sorted(ACTIONS)))
    def there_and_back(self, queue: str, name: str) -> None:
        """With nobody in between, every item of every key comes back."""
        before = everything(self.client)
        if not self.client.exists(queue, WORKING) or (queue == B and not self.client.exists(B)):
            return
        self.make_and_undo(ACTIONS[name](queue))
        assert unordered(everything(self.client)) == unordered(before)
        assert markers(self.client) == {}


def _all(state: State) -> Counter[bytes]:
    return Counter(item for key in (A, B, WORKING) for item in state[key])


def _is_within(few: list[bytes], many: list[bytes]) -> bool:
    rest: Iterator[bytes] = iter(many)
    return all(item in rest for item in few)


RANDOM = settings(
    max_examples=10,
    stateful_step_count=20,
    derandomize=True,
)


@pytest.mark.parametrize("take_from", ["right", "left"])
def test_any_interleaving_loses_nothing_doubles_nothing_and_keeps_the_order(
    client: Redis, redis_url: str, folder: Path, monkeypatch: pytest.MonkeyPatch, take_from: str
) -> None:
    # Few items, and yet several calls.
    monkeypatch.setattr(list_select, "ITEMS_MAX", 6)
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        run_machine(lambda: Interleaving(client, redis_url, folder, loop, NAMES[take_from]), settings=RANDOM)
