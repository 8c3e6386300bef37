"""Fixes while messages come in two steps: none is lost, and undo puts together what came later."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
import redis.asyncio
from redis import Redis

from rsmq_tui.monitor.audit import rsmq as rsmq_audit
from rsmq_tui.monitor.audit.findings import Finding, FindingKind
from rsmq_tui.protocol import AsyncRsmq, Rsmq, RsmqReader, make_id
from rsmq_tui.triage.actions import Fix
from rsmq_tui.triage.service import ChangeService
from tests.monitor.halves import Halves
from tests.protocol.keyspace import now_ms, plant, send_old
from tests.triage.doing import done, undone
from tests.triage.fixing import fixed, found

PAST_MS = 1_700_000_000_000


@pytest.fixture(autouse=True)
def queue(queues: Rsmq) -> None:
    queues.create_queue("q")


class TestHalves:
    """Writers that send a message in two steps lose none to a fix."""

    @pytest.mark.parametrize("body_first", [True, False])
    @pytest.mark.parametrize("has_time", [True, False])
    async def test_a_half_message_stays(
        self,
        has_time: bool,
        body_first: bool,
        triage: ChangeService,
        reader: RsmqReader,
        client: Redis,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        client.hset("rsmq:q:Q", "l" * 32, "leaked")
        client.zadd("rsmq:q", {"d" * 32: PAST_MS})
        findings = await found(reader)
        assert {finding.kind for finding in findings} == {FindingKind.LEAKED, FindingKind.DANGLING}
        id = make_id(now_ms(client) * 1000) if has_time else "h" * 22

        def write(is_body: bool) -> None:
            if is_body:
                client.hset("rsmq:q:Q", id, "body")
            else:
                client.zadd("rsmq:q", {id: PAST_MS})

        async def meanwhile(settling_s: float | None) -> None:
            # The preview waits for nobody: it only counts.
            if settling_s is None:
                write(not body_first)

        write(body_first)
        preview = await triage.preview(Fix(queue="q", findings=findings))
        monkeypatch.setattr(rsmq_audit, "_settle", meanwhile)
        report = await triage.run(preview).to_end()
        write(not body_first)

        assert report.tally.done == 2
        assert client.hget("rsmq:q:Q", id) == b"body"
        assert client.zrange("rsmq:q", 0, -1) == [id.encode()]
        assert await found(reader) == (() if has_time else (Finding(FindingKind.FOREIGN_ID, "q", 1, (id,)),))

    async def test_of_a_queue_without_its_hash(self, triage: ChangeService, client: Redis, queues: Rsmq) -> None:
        send_old(client, "q", ["x", "y"])
        young = queues.send_message("q", "z")
        client.delete("rsmq:q:Q")
        report = await done(triage, Fix(queue="q", findings=(Finding(FindingKind.NO_HASH, "q", 3),)))

        assert (report.tally.planned, report.tally.done, report.tally.skipped.total()) == (3, 2, 1)
        assert client.zrange("rsmq:q", 0, -1) == [young.encode()]
        assert queues.list_queues() == ["q"]

    async def test_while_they_write(
        self,
        redis_url: str,
        triage: ChangeService,
        reader: RsmqReader,
        client: Redis,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        halves = Halves()
        monkeypatch.setattr(rsmq_audit, "_settle", halves.settle)
        stop = asyncio.Event()

        async def work(write: Callable[[redis.asyncio.Redis, AsyncRsmq], Awaitable[object]]) -> None:
            async with redis.asyncio.Redis.from_url(redis_url) as own:
                while not stop.is_set():
                    await write(own, AsyncRsmq(own))

        fixed_ids = 0
        async with asyncio.TaskGroup() as group:
            for write in halves.works:
                group.create_task(work(write))
            while fixed_ids < 10 or halves.sent < 100:
                client.hset("rsmq:q:Q", "l" * 32, "leaked")
                client.zadd("rsmq:q", {"d" * 32: PAST_MS})
                findings = [finding for finding in await found(reader) if not finding.asks]
                report = await done(triage, Fix(queue="q", findings=tuple(findings)))
                assert report.stopped is None
                fixed_ids += report.tally.done
            stop.set()

        assert halves.lost == []


class TestUndoAfterTheOtherHalf:
    """What was taken away may have been half of a message after all: undo puts it together."""

    async def test_a_body_whose_id_has_come(
        self, triage: ChangeService, reader: RsmqReader, client: Redis, queues: Rsmq
    ) -> None:
        client.hset("rsmq:q:Q", "l" * 32, "body")
        await fixed(triage, reader)
        client.zadd("rsmq:q", {"l" * 32: PAST_MS})
        report = await undone(triage)

        assert (report.tally.done, report.tally.skipped.total()) == (1, 0)
        message = queues.receive_message("q")
        assert message is not None
        assert (message.id, message.body) == ("l" * 32, b"body")
        # It is a message now, and the fix cannot be taken up again.
        assert report.change is not None
        assert (await undone(triage, report.change)).tally.done == 0
        assert client.hget("rsmq:q:Q", "l" * 32) == b"body"

    async def test_a_body_whose_message_has_come_whole(
        self, triage: ChangeService, reader: RsmqReader, client: Redis, queues: Rsmq
    ) -> None:
        client.hset("rsmq:q:Q", "l" * 32, "body")
        await fixed(triage, reader)
        plant(client, "q", "l" * 32, due_ms=PAST_MS, body="another")
        report = await undone(triage)

        assert (report.tally.done, report.tally.skipped.total()) == (0, 1)
        assert client.hget("rsmq:q:Q", "l" * 32) == b"another"

    async def test_an_id_whose_body_has_come(
        self, triage: ChangeService, reader: RsmqReader, client: Redis, queues: Rsmq
    ) -> None:
        plant(client, "q", "d" * 32, due_ms=PAST_MS, rc=2, fr=5)
        await fixed(triage, reader)
        client.hset("rsmq:q:Q", "d" * 32, "body")
        report = await undone(triage)

        assert (report.tally.done, report.tally.skipped.total()) == (1, 0)
        message = queues.receive_message("q")
        assert message is not None
        assert (message.id, message.body, message.rc) == ("d" * 32, b"body", 3)
