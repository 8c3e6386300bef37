"""Audits of messages of which one side is not there yet, or not any more."""

import asyncio

import pytest
from redis import Redis

from rsmq_tui.monitor.audit import rsmq as rsmq_audit
from rsmq_tui.monitor.audit.findings import FindingKind
from rsmq_tui.monitor.audit.rsmq import audit
from rsmq_tui.protocol import Rsmq, RsmqReader, make_id
from tests.monitor.auditing import found, progress_of, working
from tests.monitor.halves import Halves
from tests.monitor.trouble import K
from tests.protocol.keyspace import now_ms

pytestmark = pytest.mark.slow


async def test_messages_that_come_in_two_steps_are_no_trouble(
    either: RsmqReader, redis_url: str, queues: Rsmq, monkeypatch: pytest.MonkeyPatch
) -> None:
    queues.create_queue("q")
    halves = Halves()
    monkeypatch.setattr(rsmq_audit, "_settle", halves.settle)
    young = 0
    async with working(redis_url, *halves.works):
        while young < 20 or halves.waits < 5:
            progress = await progress_of(either)
            kinds = {finding.kind for step in progress for finding in step.findings}
            assert kinds <= {FindingKind.FOREIGN_ID}
            young += progress[-1].young

    # No message is half there now, and one that is would be found.
    assert halves.sent > 50
    assert {finding.kind for finding in await found(either)} <= {FindingKind.FOREIGN_ID}


class TestHalves:
    """What has one side only: told when its id is old, or when it is the same some seconds later."""

    @pytest.mark.parametrize("age_ms", [-3_600_000, 0, rsmq_audit.SETTLED_MS - 5_000])
    async def test_too_young_to_tell(self, age_ms: int, either: RsmqReader, client: Redis, queues: Rsmq) -> None:
        queues.create_queue("q")
        sent_us = (now_ms(client) - age_ms) * 1000
        client.zadd("rsmq:q", {make_id(sent_us): 1})
        client.hset("rsmq:q:Q", mapping={make_id(sent_us): "body", make_id(sent_us) + ":rc": 1})
        progress = await progress_of(either)

        assert (progress[-1].found, progress[-1].young) == (0, 3)

    async def test_old_enough(self, either: RsmqReader, client: Redis, queues: Rsmq) -> None:
        queues.create_queue("q")
        sent_us = (now_ms(client) - rsmq_audit.SETTLED_MS) * 1000
        client.zadd("rsmq:q", {make_id(sent_us): 1})
        client.hset("rsmq:q:Q", mapping={make_id(sent_us): "body", make_id(sent_us) + ":rc": 1})
        progress = await progress_of(either)

        assert (progress[-1].found, progress[-1].young) == (3, 0)

    async def test_ids_without_a_time_are_looked_at_later(
        self, either: RsmqReader, client: Redis, queues: Rsmq, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        queues.create_queue("q")
        whole, half = [letter * 22 for letter in "abc"], [letter * 22 for letter in "def"]
        for one, other, third in (whole, half):
            client.zadd("rsmq:q", {one: 1_700_000_000_000})
            client.hset("rsmq:q:Q", mapping={other: "body", third + ":rc": 1})
        waits: list[float | None] = []

        async def meanwhile(settling_s: float | None) -> None:
            waits.append(settling_s)
            client.hset("rsmq:q:Q", whole[0], "body")
            client.zadd("rsmq:q", dict.fromkeys(whole[1:], 1_700_000_000_000))
            client.hset("rsmq:q:Q", whole[2], "body")

        monkeypatch.setattr(rsmq_audit, "_settle", meanwhile)
        steps = [step async for step in audit(either)]
        words = {finding.kind: finding.ids for step in steps for finding in step.findings}
        assert set(words.pop(FindingKind.FOREIGN_ID)) <= set(whole)
        assert words == {K.DANGLING: (half[0],), K.LEAKED: (half[1],), K.STRAY: (half[2] + ":rc",)}
        assert waits == [None, None]

    async def test_there_is_progress_while_they_wait(
        self, reader: RsmqReader, client: Redis, queues: Rsmq, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        queues.create_queue("q")
        client.zadd("rsmq:q", {"a" * 22: 1_700_000_000_000})
        waits, ends = asyncio.Event(), asyncio.Event()

        async def until_the_end(settling_s: float | None) -> None:
            waits.set()
            await ends.wait()

        monkeypatch.setattr(rsmq_audit, "_settle", until_the_end)
        monkeypatch.setattr(rsmq_audit, "_TICK_S", 0.001)
        steps = 0
        async with asyncio.timeout(100):
            async for _ in audit(reader):
                steps += waits.is_set()
                if steps == 3:
                    ends.set()
        assert steps > 3

    async def test_many_wait_in_parts(
        self, reader: RsmqReader, client: Redis, queues: Rsmq, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        queues.create_queue("q")
        client.zadd("rsmq:q", {f"{number:032}": 1_700_000_000_000 for number in range(1_000)})
        client.hset("rsmq:q:Q", mapping={f"{number:032}": "x" for number in range(1_000, 2_000)})
        monkeypatch.setattr(rsmq_audit, "_WAITING_MAX", 300)
        waits: list[float | None] = []

        async def noted(settling_s: float | None) -> None:
            waits.append(settling_s)

        monkeypatch.setattr(rsmq_audit, "_settle", noted)
        assert {finding.kind: finding.count for finding in await found(reader)} == {K.DANGLING: 1_000, K.LEAKED: 1_000}
        assert 4 <= len(waits) <= 8
