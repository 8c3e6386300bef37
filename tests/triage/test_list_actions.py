"""What each change of a list queue does, and that its undo puts back every byte, to be taken next and in order."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from rsmq_tui.protocol.lists.naming import LISTS_NS, ListNames, item_id
from rsmq_tui.triage.actions import (
    Ack,
    Copy,
    CreateQueue,
    Delete,
    DeleteQueue,
    Hide,
    Move,
    Pop,
    Push,
    Requeue,
    Send,
    Trim,
)
from rsmq_tui.triage.errors import TriageError
from rsmq_tui.triage.lists import select as list_select
from rsmq_tui.triage.rsmq.backend import RsmqBackend
from rsmq_tui.triage.scope import BODIES_SHOWN, Marked, Named, Shown
from rsmq_tui.triage.service import ChangeService
from tests.protocol.keyspace import everything
from tests.triage.doing import audit_lines, done, undone
from tests.triage.keyspace import markers, unordered
from tests.triage.list_doing import (
    ACTIONS,
    FROM_RSMQ,
    ITEMS,
    LEASES,
    NAMES,
    WORKING,
    A,
    B,
    fill,
    lay,
    lease,
    list_changes,
    read,
    send,
    take,
)

pytestmark = pytest.mark.slow


@pytest.fixture(params=["right", "left"])
def names(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ListNames:
    # Few items, and yet several calls.
    monkeypatch.setattr(list_select, "ITEMS_MAX", 12)
    return NAMES[request.param]


@pytest.fixture
async def lists(redis_url: str, folder: Path, names: ListNames) -> AsyncIterator[ChangeService]:
    service = list_changes(redis_url, names, folder)
    yield service
    await service.aclose()


@pytest.fixture
def before(client: Redis, names: ListNames) -> dict[bytes, Any]:
    """List queues in every condition; what lies on the server then."""
    fill(client, names)
    return everything(client)


# What depends on the end that consumers take from.
_OF_AN_END = ("pop", "trim to the newest", "requeue", "requeue to the back", "send to the front", "move")


@pytest.mark.parametrize(
    ("names", "what"),
    [*(("right", what) for what in ACTIONS), *(("left", what) for what in _OF_AN_END)],
    indirect=["names"],
)
async def test_there_and_back_and_there_and_back(
    lists: ChangeService, client: Redis, before: dict[bytes, Any], tmp_path: Path, what: str
) -> None:
    preview = await lists.preview(ACTIONS[what](tmp_path))
    assert everything(client) == before
    assert preview.selection is None or len(preview.bodies) == min(preview.count, BODIES_SHOWN)
    report = await lists.run(preview).to_end()
    there = everything(client)
    assert (report.stopped, report.tally.done, report.tally.handled) == (None, preview.count, preview.count)
    assert there != before

    again = await lists.preview_undo(queue=preview.action.queue)
    assert again.count == report.tally.done
    back = await lists.run(again).to_end()
    assert back.tally.done == report.tally.done
    # What was taken from the other end comes back to be taken next.
    ends = unordered if what == "trim to the oldest" else dict
    assert ends(everything(client)) == ends(before)

    assert (await undone(lists, back.change)).tally.done == report.tally.done
    assert unordered(everything(client)) == unordered(there)
    await undone(lists, report.change)
    assert ends(everything(client)) == ends(before)
    assert markers(client) == {}


@pytest.mark.parametrize("what", FROM_RSMQ)
async def test_from_rsmq_to_a_list_and_back(
    redis_url: str, folder: Path, client: Redis, before: dict[bytes, Any], names: ListNames, what: str
) -> None:
    triage = ChangeService(RsmqBackend(redis_url, "rsmq", names), folder)
    report = await done(triage, FROM_RSMQ[what])
    assert (report.stopped, report.tally.done) == (None, 3)
    there = everything(client)
    # The one that was received is hidden, and comes last.
    delivered = [b"\xff", b"message 3", b"message 1"]
    assert read(client, names, FROM_RSMQ[what].target.removeprefix("list:"))[-3:] == delivered
    back = await undone(triage)
    assert back.tally.done == 3
    assert everything(client) == before
    await undone(triage, back.change)
    assert unordered(everything(client)) == unordered(there)
    await triage.aclose()


async def test_a_change_of_lists_can_be_undone_from_anywhere(
    redis_url: str, folder: Path, lists: ChangeService, client: Redis, before: dict[bytes, Any]
) -> None:
    report = await done(lists, Delete(queue=A))
    triage = ChangeService(RsmqBackend(redis_url, "rsmq"), folder)
    preview = await triage.preview_undo(report.change)
    assert preview.ns == LISTS_NS
    await triage.run(preview).to_end()
    assert everything(client) == before
    await triage.aclose()


async def test_what_each_leaves(lists: ChangeService, client: Redis, names: ListNames) -> None:
    lay(client, names, A, [b"0", b"1", b"2", b"3", b"4"])
    lay(client, names, WORKING, [b"old", b"new"])
    client.zadd(LEASES, {lease("a", b"old"): 2**41, lease("b", b"new"): 2**41})

    await done(lists, Pop(queue=A, count=2))
    assert read(client, names, A) == [b"2", b"3", b"4"]
    await done(lists, Push(queue=A, bodies=(b"first", b"second"), first=True))
    await done(lists, Send(queue=A, bodies=(b"last", b"very last")))
    assert read(client, names, A) == [b"first", b"second", b"2", b"3", b"4", b"last", b"very last"]
    await done(lists, Trim(queue=A, keep=3, keep_oldest=True))
    assert read(client, names, A) == [b"first", b"second", b"2"]
    await done(lists, Requeue(queue=A))
    assert read(client, names, A) == [b"old", b"new", b"first", b"second", b"2"]
    assert not client.exists(WORKING, LEASES)
    await done(lists, Trim(queue=A, keep=2))
    assert read(client, names, A) == [b"second", b"2"]
    await done(lists, Move(queue=A, target=B))
    assert read(client, names, B) == [b"second", b"2"]
    await done(lists, Copy(queue=B, target=A))
    assert read(client, names, A) == [b"second", b"2"]


async def test_leases(lists: ChangeService, client: Redis, names: ListNames) -> None:
    fill(client, names)
    now_ms = int(client.time()[0]) * 1000
    await done(lists, Hide(queue=A, seconds=500))
    leases = dict(client.zrange(LEASES, 0, -1, withscores=True))
    # That which had none has one now.
    assert len(leases) == 5
    assert all(now_ms + 490_000 < deadline < now_ms + 520_000 for deadline in leases.values())
    assert client.llen(WORKING) == 5

    preview = await lists.preview(Ack(queue=A))
    client.zadd(LEASES, {lease("two", b"w 2"): 7})
    report = await lists.run(preview).to_end()
    assert (report.tally.done, report.tally.skipped.total()) == (4, 1)
    assert client.lrange(WORKING, 0, -1) == [b"w 2"]
    assert client.zrange(LEASES, 0, -1) == [lease("two", b"w 2")]


async def test_marked_items_are_found_again_where_consumers_are_at_work(
    lists: ChangeService, client: Redis, names: ListNames
) -> None:
    lay(client, names, A, [b"%d" % number for number in range(3000)])
    shown = [Shown(item_id("queue", number, b"%d" % number), "0", 0) for number in (5, 1000, 1001, 2999)]
    take(client, names, A, 400)
    preview = await lists.preview(Delete(queue=A), Marked(tuple(shown)))
    assert (preview.count, preview.elsewhere) == (3, 1)
    take(client, names, A, 450)
    send(client, names, A, *(b"later %d" % number for number in range(2000)))
    report = await lists.run(preview).to_end()
    assert report.tally.done == 3
    left = [b"%d" % n for n in range(850, 3000) if n not in (1000, 1001, 2999)]
    later = [b"later %d" % number for number in range(2000)]
    assert read(client, names, A) == left + later
    take(client, names, A, 100)
    assert (await undone(lists)).tally.done == 3
    assert read(client, names, A) == [b"1000", b"1001", b"2999", *left[100:], *later]


async def test_two_who_marked_equal_items_take_one_each_and_no_more(
    lists: ChangeService, redis_url: str, folder: Path, client: Redis, names: ListNames
) -> None:
    lay(client, names, A, [b"same", b"other", b"same", b"same"])
    other = list_changes(redis_url, names, folder)
    previews = [
        await service.preview(Delete(queue=A), Marked((Shown(item_id("queue", place, b"same"), "0", 0),)))
        for service, place in ((lists, 0), (other, 2))
    ]
    assert take(client, names, A) == [b"same"]
    for service, preview in zip((lists, other), previews, strict=True):
        assert (preview.count, (await service.run(preview).to_end()).tally.done) == (1, 1)
    assert read(client, names, A) == [b"other"]
    third = await lists.preview(Delete(queue=A), Marked((Shown(item_id("queue", 3, b"same"), "0", 0),)))
    assert (third.count, third.elsewhere) == (0, 1)
    third.close()
    await other.aclose()


async def test_of_more_equal_items_than_are_left_the_others_are_told_to_be_gone(
    lists: ChangeService, client: Redis, names: ListNames
) -> None:
    lay(client, names, A, [b"same"] * 30)
    preview = await lists.preview(Delete(queue=A))
    take(client, names, A, 22)
    report = await lists.run(preview).to_end()
    assert (report.tally.done, dict(report.tally.skipped)) == (8, {"gone meanwhile": 22})
    assert not client.exists(A)


async def test_what_was_sent_and_taken_is_not_taken_from_others(
    lists: ChangeService, client: Redis, names: ListNames
) -> None:
    await done(lists, Send(queue=A, bodies=(b"ping",)))
    take(client, names, A)
    send(client, names, A, b"ping", b"ping")
    back = await undone(lists)
    # Nothing tells equal items apart: one goes, whoever sent it, and no more than one.
    assert back.tally.done == 1
    assert read(client, names, A) == [b"ping"]


async def test_what_was_removed_comes_back_to_be_taken_next_in_its_order_and_that_is_said(
    lists: ChangeService, client: Redis, names: ListNames
) -> None:
    lay(client, names, A, [b"%d" % number for number in range(200)])
    ids = tuple(item_id("queue", number, b"%d" % number) for number in range(100, 160))
    preview = await lists.preview(Delete(queue=A), Named(ids))
    assert list_select.PUT_BACK in preview.notes
    await lists.run(preview).to_end()
    client.delete(A)
    lay(client, names, A, [b"new"])
    preview = await lists.preview_undo()
    assert list_select.PUT_BACK in preview.notes
    assert (await lists.run(preview).to_end()).tally.done == 60
    assert read(client, names, A) == [*(b"%d" % number for number in range(100, 160)), b"new"]


async def test_an_undo_that_was_stopped_goes_on_where_it_was(
    lists: ChangeService, client: Redis, before: dict[bytes, Any]
) -> None:
    report = await done(lists, Delete(queue=A))
    run = lists.run(await lists.preview_undo())
    async for tally in run:
        if tally.done > 5:
            run.stop()
    assert run.report is not None
    assert run.report.stopped == "stopped on request"
    assert 0 < run.report.tally.done < report.tally.done
    rest = await lists.preview_undo(report.change)
    assert rest.count == report.tally.done - run.report.tally.done
    await lists.run(rest).to_end()
    assert everything(client) == before
    assert not client.exists("queue:a:rsmq-tui:*")


@pytest.mark.parametrize(
    ("action", "why"),
    [
        (DeleteQueue(queue=A), "purge it"),
        (CreateQueue(queue=A), "created by its first item"),
        (Delete(queue=WORKING), "belongs to the list queue queue:a"),
        (Delete(queue="queue:none"), "there is no list with that key"),
        (Move(queue=A, target=A), "the queue itself"),
        (Move(queue=A, target="rsmq:none"), "does not exist"),
        (Move(queue=A, target=LEASES), "belongs to the list queue queue:a"),
        (Send(queue=A, bodies=(b"x",), delay_s=3), "cannot be delayed"),
        (Send(queue=A, bodies=()), "give a body"),
        (Delete(queue="rsmq:x"), "another type"),
    ],
)
async def test_refusals(
    lists: ChangeService, client: Redis, before: dict[bytes, Any], action: Delete, why: str
) -> None:
    with pytest.raises(TriageError, match=why):
        await lists.preview(action)
    assert everything(client) == before


async def test_every_change_is_a_line_of_the_audit_log(lists: ChangeService, client: Redis, folder: Path) -> None:
    lay(client, NAMES["right"], A, ITEMS)
    await done(lists, Pop(queue=A, count=3))
    (line,) = audit_lines(folder)
    assert (line["action"], line["queue"], line["ns"], line["done"]) == ("pop", A, LISTS_NS, 3)
    assert line["filter"] == "the 3 items that would be taken next"


async def test_a_server_without_memory_still_lets_items_go(
    lists: ChangeService, client: Redis, names: ListNames
) -> None:
    lay(client, names, A, ITEMS)
    preview = await lists.preview(Trim(queue=A, keep=7, keep_oldest=True))
    sending = await lists.preview(Send(queue=A, bodies=(b"x",)))
    client.config_set("maxmemory", 1)
    try:
        report = await lists.run(preview).to_end()
        refused = await lists.run(sending).to_end()
    finally:
        client.config_set("maxmemory", 0)
    assert report.tally.done == len(ITEMS) - 7
    assert read(client, names, A) == ITEMS[:7]
    assert refused.stopped
    assert refused.tally.done == 0
