"""What is in processing: from its right end on, wherever consumers take from, however much or heavy it is."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from rsmq_tui.monitor.filters.language import parse_filter
from rsmq_tui.protocol.lists.client import ListQueue
from rsmq_tui.protocol.lists.naming import item_id
from rsmq_tui.triage import scope as triage_scope
from rsmq_tui.triage.actions import Ack, Action, Move, Release, Requeue
from rsmq_tui.triage.change import ChangeReport
from rsmq_tui.triage.scope import Everything, Matching, Named, Scope
from rsmq_tui.triage.service import ChangeService
from tests.triage.list_doing import LEASES, NAMES, WORKING, A, B, lease, list_changes, read

pytestmark = pytest.mark.slow

# The script reads more than this by place alone.
MANY = 10_050


@pytest.fixture(params=NAMES)
def end(request: pytest.FixtureRequest) -> str:
    """The end that consumers take from."""
    return str(request.param)


@pytest.fixture
async def lists(redis_url: str, folder: Path, end: str) -> AsyncIterator[ChangeService]:
    service = list_changes(redis_url, NAMES[end], folder)
    yield service
    await service.aclose()


async def done(lists: ChangeService, action: Action, scope: Scope | None = None) -> ChangeReport:
    run = lists.run(await lists.preview(action, scope or Everything()))
    async for _ in run:
        pass
    assert run.report is not None
    return run.report


async def undone(lists: ChangeService) -> None:
    run = lists.run(await lists.preview_undo())
    async for _ in run:
        pass


def state(client: Redis) -> list[Any]:
    return [client.lrange(A, 0, -1), client.lrange(WORKING, 0, -1), client.zrange(LEASES, 0, -1, withscores=True)]


def work_on(client: Redis, count: int, *, heavy: int = 0) -> list[bytes]:
    """Put leased items into processing as consumers do; returns them, the oldest first."""
    items = [b"%d %s" % (number, b"." * heavy) for number in range(count)]
    client.lpush(WORKING, *items)
    client.zadd(LEASES, {lease(f"t{number}", item): 1000 + number for number, item in enumerate(items)})
    return items


@pytest.mark.parametrize("scope", [Everything(), Matching(parse_filter("state:expired"), None)])
async def test_what_was_taken_first_is_requeued_to_be_taken_first(
    lists: ChangeService, client: Redis, end: str, scope: Scope
) -> None:
    queue = ListQueue(client, A.encode(), names=NAMES[end])
    queue.push(*(b"%d" % number for number in range(6)))
    for _ in range(4):
        queue.take(vt_ms=0)
    before = state(client)
    assert (await done(lists, Requeue(queue=A), scope)).tally.done == 4
    assert read(client, NAMES[end], A) == [b"%d" % number for number in range(6)]
    await undone(lists)
    assert state(client) == before


@pytest.mark.parametrize("action", [Requeue(queue=A), Release(queue=A)], ids=str)
@pytest.mark.parametrize(
    ("vt_ms", "now", "notes"),
    [
        (None, "2 no lease (a consumer may be working on them)", ["A consumer may still finish such an item"]),
        (
            60_000,
            "2 in flight (a consumer may be working on them)",
            ["Running leases end: a consumer may still finish such an item"],
        ),
        (0, "2 expired", []),
    ],
)
async def test_what_a_consumer_may_be_working_on_is_said(
    lists: ChangeService, client: Redis, end: str, action: Action, vt_ms: int | None, now: str, notes: list[str]
) -> None:
    queue = ListQueue(client, A.encode(), names=NAMES[end])
    queue.push(b"one", b"two")
    for _ in range(2):
        if vt_ms is None:
            client.lmove(A, WORKING, NAMES[end].take_from.upper(), "LEFT")
        else:
            queue.take(vt_ms=vt_ms)
    preview = await lists.preview(action, Everything())
    assert dict(preview.rows)["now"] == now
    said = [note for note in preview.notes if note.endswith("processed twice.")]
    assert [note.partition(", ")[0] for note in said] == notes
    preview.close()


@pytest.mark.parametrize("count", [1, 2])
async def test_items_that_are_not_in_processing_are_left_out(lists: ChangeService, client: Redis, count: int) -> None:
    work_on(client, 1)
    waiting = [b"w%d" % number for number in range(count)]
    client.rpush(A, *waiting)
    ids = [item_id("queue", number, item) for number, item in enumerate(waiting)]
    preview = await lists.preview(Ack(queue=A), Named((*ids,)))
    items = "1 item of these in the queue is" if count == 1 else "2 items of these in the queue are"
    assert f"{items} left out: this applies only to items in processing." in preview.notes
    preview.close()


async def test_a_limit_means_the_oldest(lists: ChangeService, client: Redis) -> None:
    items = work_on(client, 5)
    await done(lists, Ack(queue=A), Matching(parse_filter(""), 2))
    assert client.lrange(WORKING, 0, -1) == items[:1:-1]


@pytest.mark.parametrize(
    ("end", "action"),
    [
        ("right", Move(queue=A, target=B)),
        ("left", Move(queue=A, target=B)),
        ("right", Requeue(queue=A)),
        ("left", Requeue(queue=A, to_back=True)),
        ("right", Ack(queue=A)),
    ],
    indirect=["end"],
)
async def test_what_goes_in_many_parts_goes_whole_and_comes_back(
    lists: ChangeService, client: Redis, end: str, action: Action
) -> None:
    items = work_on(client, MANY)
    before = state(client)
    report = await done(lists, action)
    assert (report.tally.done, dict(report.tally.skipped)) == (MANY, {})
    assert not client.exists(WORKING, LEASES)
    there = read(client, NAMES[end], B if isinstance(action, Move) else A)
    assert there == ([] if isinstance(action, Ack) else items)
    await undone(lists)
    # In processing nothing goes by the order of parts.
    assert [sorted(found) for found in state(client)] == [sorted(found) for found in before]


@pytest.mark.parametrize(
    ("end", "action"),
    [("right", Move(queue=A, target=B)), ("left", Requeue(queue=A, to_back=True)), ("right", Ack(queue=A))],
    indirect=["end"],
)
async def test_those_whose_bytes_are_read_again_are_found_when_others_have_gone(
    lists: ChangeService, client: Redis, action: Action, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(triage_scope, "_BODIES_BYTES", 0)
    items = work_on(client, 60, heavy=50_000)
    # One of none, in a part with others or alone.
    client.lpush(WORKING, b"")
    preview = await lists.preview(action, Everything())
    # A consumer is done with some meanwhile.
    for number in (0, 1, 30):
        client.lrem(WORKING, 1, items[number])
        client.zrem(LEASES, lease(f"t{number}", items[number]))
    run = lists.run(preview)
    async for _ in run:
        pass
    assert run.report is not None
    assert (run.report.tally.done, dict(run.report.tally.skipped)) == (58, {"gone meanwhile": 3})
    assert not client.exists(WORKING, LEASES)


@pytest.mark.parametrize(("end", "action"), [("right", Requeue(queue=A)), ("left", Ack(queue=A))], indirect=["end"])
async def test_a_limit_holds_beyond_the_first_part_of_what_is_in_processing(
    lists: ChangeService, client: Redis, action: Action
) -> None:
    # Some 200 of them are read at once.
    items = work_on(client, 600, heavy=20_000)
    preview = await lists.preview(action, Matching(parse_filter(""), 300))
    assert (preview.count, preview.what) == (300, "the 300 messages that would be taken next")
    await lists.run(preview).to_end()
    assert client.lrange(WORKING, 0, -1) == items[300:][::-1]
