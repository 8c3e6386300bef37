"""Ending a change in the middle, and what a change costs the server and this process."""

import asyncio
import threading
import tracemalloc
from typing import Any

import pytest
from redis import Redis

from rsmq_tui.files import AUDIT_LOG
from rsmq_tui.monitor.changes import ON_REQUEST, read_changes
from rsmq_tui.protocol import RawMessage, Rsmq
from rsmq_tui.triage.actions import Action, Copy, Delete, Hide, Move, Send
from rsmq_tui.triage.change import ChangeReport
from rsmq_tui.triage.journal.journal import Journal
from rsmq_tui.triage.scope import Selection
from rsmq_tui.triage.service import ChangeService
from tests.protocol.keyspace import everything
from tests.triage.doing import audit_lines, done, undone
from tests.triage.keyspace import markers
from tests.waiting import SECONDS_MAX

pytestmark = pytest.mark.slow

MESSAGES = 9_000


@pytest.fixture
def many(queues: Rsmq) -> None:
    for name in ("a", "b"):
        queues.create_queue(name)
    queues.send_messages("a", ["x" * 100] * MESSAGES)


@pytest.mark.parametrize(
    "action",
    [Delete(queue="a"), Hide(queue="a", seconds=1000), Move(queue="a", target="b"), Copy(queue="a", target="b")],
)
async def test_a_change_ends_where_it_is_and_can_be_undone(
    triage: ChangeService, client: Redis, queues: Rsmq, many: None, action: Action
) -> None:
    before = everything(client)
    run = triage.run(await triage.preview(action))
    async for tally in run:
        assert tally.handled <= tally.planned == MESSAGES
        run.stop()

    assert run.report is not None
    assert run.report.stopped == ON_REQUEST
    assert run.report.sentence.endswith("; stopped on request")
    assert 0 < run.report.tally.done < MESSAGES
    really = {
        "delete": MESSAGES - client.zcard("rsmq:a"),
        "hide": queues.get_queue_attributes("a").hiddenmsgs,
        "move": client.zcard("rsmq:b"),
        "copy": client.zcard("rsmq:b"),
    }
    assert run.report.tally.done == really[action.name]
    assert markers(client) == {}
    back = await undone(triage)
    assert back.tally.done == run.report.tally.done
    assert everything(client) == before


async def test_a_change_that_is_stopped_before_it_begins_does_nothing(
    triage: ChangeService, client: Redis, many: None
) -> None:
    before = everything(client)
    run = triage.run(await triage.preview(Delete(queue="a")))
    run.stop()

    report = await run.to_end()

    assert (report.stopped, report.tally.done, report.undoable) == (ON_REQUEST, 0, False)
    assert everything(client) == before


async def _stopped_undo(triage: ChangeService) -> ChangeReport:
    """Delete all, and cancel the undo of that as soon as a part is done."""
    await done(triage, Delete(queue="a"))
    run = triage.run(await triage.preview_undo())
    async for _ in run:
        run.stop()
    assert run.report is not None
    return run.report


async def test_an_undo_that_is_cancelled_is_finished_by_another(
    triage: ChangeService, client: Redis, many: None
) -> None:
    before = everything(client)
    first = (await _stopped_undo(triage)).tally.done
    assert 0 < first < MESSAGES

    preview = await triage.preview_undo()
    assert preview.count == MESSAGES - first
    await triage.run(preview).to_end()

    assert everything(client) == before


async def test_an_undo_that_is_cancelled_can_be_undone_and_begun_again(
    triage: ChangeService, client: Redis, many: None
) -> None:
    before = everything(client)
    await undone(triage, (await _stopped_undo(triage)).change)
    assert not client.exists("rsmq:a")

    # The redo is undone, and then the rest of the change.
    back = [(await undone(triage)).tally.done for _ in range(2)]
    assert sum(back) == MESSAGES
    assert 0 < back[0] < MESSAGES
    assert everything(client) == before


async def test_a_line_of_the_audit_log_says_that_it_was_stopped(triage: ChangeService, many: None) -> None:
    run = triage.run(await triage.preview(Delete(queue="a")))
    async for _ in run:
        run.stop()

    (line,) = audit_lines(triage.folder)
    assert run.report is not None
    assert (line["ended"], line["planned"], line["done"]) == (ON_REQUEST, MESSAGES, run.report.tally.done)
    (change,) = read_changes([triage.folder / AUDIT_LOG]).changes
    assert (change.is_complete, change.is_certain) == (False, True)


@pytest.mark.parametrize("size", [10, 1_000, 60_000])
async def test_no_call_is_for_many_or_long_messages(
    triage: ChangeService, client: Redis, queues: Rsmq, size: int
) -> None:
    for name in ("a", "b"):
        queues.create_queue(name, maxsize=-1)
    count = min(2_000, 20_000_000 // size)
    queues.send_messages("a", ["x" * size] * count)
    client.config_resetstat()

    await done(triage, Hide(queue="a", seconds=0))
    await done(triage, Move(queue="a", target="b"))
    await done(triage, Copy(queue="b", target="b"))
    await done(triage, Delete(queue="b"))
    await undone(triage)
    await done(triage, Send(queue="a", bodies=(b"x" * size,) * count))

    stats = client.info("commandstats")
    calls = sum(stats[name]["calls"] for name in ("cmdstat_eval", "cmdstat_evalsha") if name in stats)
    # Four of these carry the bodies, all of them the messages.
    assert calls >= 4 * max(count * size // 2_000_000, count // 1_000)


def test_a_selection_of_many_takes_little_memory() -> None:
    tracemalloc.start()
    selection = Selection()
    count, chunk = 100_000, 500
    for start in range(0, count, chunk):
        selection.add(
            [
                RawMessage(b"%032d" % number, b"1700000000000", b"1", None, 7, None)
                for number in range(start, start + chunk)
            ],
            1_800_000_000_000,
        )
    chunks = seen = 0
    for part in selection.chunks(400, 1_000_000):
        assert len(part) <= 400
        assert part[0].id == b"%032d" % seen
        chunks, seen = chunks + 1, seen + len(part)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert (selection.count, selection.bytes, seen) == (count, 7 * count, count)
    assert sum(selection.states.values()) == count
    # As objects they would take 30 MB; eight are kept before they go to the file.
    assert peak < 16_000_000
    selection.close()


def test_a_chunk_holds_as_many_bytes_as_it_may() -> None:
    selection = Selection()
    sizes = [10, 10, 10, 500, 10, 90, 100, 101]
    selection.add([RawMessage(b"%d" % size, b"1", None, None, size, None) for size in sizes], 1)

    chunks = [[seen.size for seen in chunk] for chunk in selection.chunks(3, 100)]

    assert chunks == [[10, 10, 10], [500], [10, 90], [100], [101]]
    assert [seen.size for seen in selection] == sizes
    selection.close()


async def test_a_journal_that_is_opened_as_its_caller_is_cancelled_is_closed(
    triage: ChangeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, goes_on = threading.Event(), threading.Event()
    opened: list[Journal] = []
    closed: list[Journal] = []

    class Watched(Journal):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            begun.set()
            assert goes_on.wait(SECONDS_MAX)
            super().__init__(*arguments, **options)
            opened.append(self)

        def close(self) -> None:
            closed.append(self)
            super().close()

    monkeypatch.setattr("rsmq_tui.triage.service.Journal", Watched)
    asking = asyncio.ensure_future(triage.settle_abandoned())
    assert await asyncio.to_thread(begun.wait, SECONDS_MAX)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    closing = asyncio.ensure_future(triage.aclose())
    await asyncio.sleep(0)
    goes_on.set()
    await closing
    assert len(opened) == 1
    assert closed == opened
