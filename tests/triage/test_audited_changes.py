"""What the audit log says of a change is what the journal says of it, and what the counters of the queues show."""

from collections.abc import Sequence
from contextlib import aclosing, closing
from pathlib import Path

import pytest
from redis import Redis

from rsmq_tui.monitor.changes import AuditedChange, read_changes
from rsmq_tui.protocol import Rsmq
from rsmq_tui.protocol.lists.naming import ListNames
from rsmq_tui.triage.actions import Delete, Move, Purge, PurgeList, QueueAction, Send, action_named
from rsmq_tui.triage.journal.journal import Journal
from rsmq_tui.triage.scope import Named
from rsmq_tui.triage.service import ChangeService
from tests.triage.doing import ACTIONS, done, fill, undone
from tests.triage.list_doing import A, list_changes, send
from tests.triage.test_part_undo import part_undone

# What it does to which queue is not in the log: it repairs what it finds.
UNCLAIMED = ("fix",)


def logged(folder: Path) -> Sequence[AuditedChange]:
    found = read_changes([folder / "audit.jsonl"])
    assert found.problems == ()
    return found.changes


def counters(client: Redis) -> dict[str, tuple[int, int]]:
    """How many messages each queue has been sent, and how many it has."""
    queues = [name.decode() for name in client.smembers("rsmq:QUEUES")]
    sent = {queue: int(client.hget(f"rsmq:{queue}:Q", "totalsent") or 0) for queue in queues}
    return {queue: (sent[queue], client.zcard(f"rsmq:{queue}")) for queue in queues}


def counted(before: dict[str, tuple[int, int]], after: dict[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
    """The arrivals and deletes of each queue that was there before and after, as recordings count them."""
    found = {}
    for queue in before.keys() & after.keys():
        arrivals = after[queue][0] - before[queue][0]
        deletes = arrivals - (after[queue][1] - before[queue][1])
        if arrivals or deletes:
            found[queue] = (arrivals, deletes)
    return found


@pytest.mark.parametrize("name", ACTIONS)
async def test_a_change_says_how_it_shows_in_the_counters(
    triage: ChangeService, client: Redis, folder: Path, tmp_path: Path, name: str
) -> None:
    fill(client)
    action = ACTIONS[name](tmp_path)
    before = counters(client)
    await done(triage, action)
    between = counters(client)
    await undone(triage)
    after = counters(client)

    change, undo = logged(folder)
    for one, seen in ((change, counted(before, between)), (undo, counted(between, after))):
        claimed = {count.queue.queue: (count.arrivals, count.deletes) for count in one.counts}
        there = {queue: numbers for queue, numbers in claimed.items() if queue in before and queue in after}
        assert {queue: seen.get(queue) for queue in there} == there, one.action
        if name not in UNCLAIMED:
            assert there == seen, one.action
    assert (undo.is_undo, undo.origin, undo.summary.split(": ")[0]) == (True, change, "undo")
    assert change.undone == change.done == undo.done


@pytest.mark.parametrize("name", ACTIONS)
async def test_a_change_counts_messages_or_queues_as_its_action_does(
    triage: ChangeService, client: Redis, folder: Path, tmp_path: Path, name: str
) -> None:
    fill(client)
    action = ACTIONS[name](tmp_path)
    await done(triage, action)
    (change,) = logged(folder)
    assert action_named(change.action) is type(action)
    assert ("queue" in change.amount) is (isinstance(action, QueueAction) or action.counts_queue)
    assert f": {action.past} {change.amount}" in change.summary
    assert change.is_complete
    assert change.lasted_ms is not None


async def test_what_is_undone_is_what_the_journal_says(
    triage: ChangeService, client: Redis, queues: Rsmq, folder: Path
) -> None:
    for queue in ("q", "other"):
        queues.create_queue(queue)
    ids = queues.send_messages("q", [f"body {number}" for number in range(10)])
    first = (await done(triage, Delete(queue="q"), Named(tuple(ids[:6])))).change
    await part_undone(triage, Named((ids[0], ids[1])), first)
    await done(triage, Move(queue="q", target="other"))
    await undone(triage)
    # The redo of the move.
    await undone(triage, 4)
    await part_undone(triage, Named((ids[2],)), first)
    await done(triage, Send(queue="other", bodies=(b"x", b"y")))
    await done(triage, Purge(queue="other"))

    changes = {change.change: change for change in logged(folder)}
    with closing(Journal(folder / "journal.sqlite")) as journal:
        known = {change.change: change for change in journal.changes()}
        chains = {number: journal.undo_chain(change) for number, change in known.items()}
    assert len(changes) == len(known) == 8
    assert {number: change.undone for number, change in changes.items()} == {
        number: change.undone for number, change in known.items()
    }
    assert changes[1].undone == 3
    assert (changes[3].undone, changes[4].undone, changes[4].undone_ms) == (0, 6, changes[5].at_ms)
    for number, change in changes.items():
        origin = chains[number].original.change
        assert (change.origin or change).change == origin
        assert change.is_undo is chains[number].is_undo
    assert changes[4].queues == changes[3].queues == changes[5].queues


async def test_lists_count_nothing(redis_url: str, client: Redis, folder: Path) -> None:
    send(client, ListNames(), A, b"one", b"two")
    async with aclosing(list_changes(redis_url, ListNames(), folder)) as lists:
        await done(lists, PurgeList(queue=A))
    (change,) = logged(folder)
    assert (change.counts, change.done) == ((), 2)
