"""One poll for all who scrape at once, none where the last is fresh, and polls in between for the verdicts' sake."""

import asyncio
from contextlib import aclosing
from typing import Any

import pytest
import redis

from rsmq_tui.monitor import RsmqPoller, Thresholds
from rsmq_tui.monitor.messages.peek import QUICK_QUEUES
from rsmq_tui.protocol import Rsmq, RsmqReader
from tests.monitor.timing import FakeClock, Gate
from tests.waiting import until
from tests.web.exporter.scraping import NEVER_S, exporting


def calls(client: redis.Redis) -> dict[str, int]:
    """How often the server was asked what."""
    stats: dict[str, dict[str, Any]] = client.info("commandstats")
    asked = {name.removeprefix("cmdstat_"): values["calls"] for name, values in stats.items()}
    return {name: asked.get(name, 0) for name in ("time", "smembers", "evalsha")}


async def test_scrapes_at_once_share_a_poll(
    redis_url: str, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    Rsmq(client).create_queue("q")
    gate = Gate(monkeypatch, is_open=True)
    async with exporting(redis_url) as exporter:
        await exporter.get()
        # INFO is read with the second poll.
        await exporter.get()
        (poller,) = exporter.pollers
        before, polls, asked = calls(client), gate.polls, poller.scrapes
        await exporter.get()
        one = {name: number - before[name] for name, number in calls(client).items()}
        polled = gate.polls - polls
        gate.open = asyncio.Event()
        before, polls, asked = calls(client), gate.polls, poller.scrapes
        scrapes = [asyncio.create_task(exporter.get()) for _ in range(10)]
        await until(lambda: poller.scrapes == asked + 10)
        gate.open.set()
        answers = await asyncio.gather(*scrapes)

        assert polled == gate.polls - polls == 1
        assert {name: number - before[name] for name, number in calls(client).items()} == one
        # The clock of the poll, and that of the script that reads the rows.
        assert one["time"] == 2
        assert {answer.body for answer in answers} == {answers[0].body}
        assert answers[0].value("rsmq_queues") == 1


async def test_a_fresh_snapshot_is_served_again(
    redis_url: str, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    rsmq = Rsmq(client)
    rsmq.create_queue("q")
    clock, gate = FakeClock(), Gate(monkeypatch, is_open=True)
    async with exporting(redis_url, max_age_s=10, clock=clock) as exporter:
        await exporter.get()
        rsmq.send_message("q", "x")
        clock.now_s += 9.9
        cached = await exporter.get()
        assert gate.polls == 1
        clock.now_s += 0.1
        fresh = await exporter.get()

    assert gate.polls == 2
    assert [answer.value("rsmq_queue_depth_messages") for answer in (cached, fresh)] == [0, 1]


async def test_what_is_cached_is_written_in_each_format(redis_url: str) -> None:
    async with exporting(redis_url, max_age_s=NEVER_S) as exporter:
        plain = await exporter.get()
        other = await exporter.get(Accept="application/openmetrics-text; version=1.0.0")
        again = await exporter.get()

    assert other.text.endswith("# EOF\n")
    assert not plain.text.endswith("# EOF\n")
    assert plain.value("rsmq_up") == other.value("rsmq_up") == again.value("rsmq_up") == 1


async def test_verdicts_that_need_time_need_no_scrape(redis_url: str, client: redis.Redis) -> None:
    rsmq = Rsmq(client)
    rsmq.create_queue("q")
    rsmq.send_message("q", "x")
    thresholds = Thresholds(stalled_ms=50)
    async with exporting(redis_url, interval_s=0.01, max_age_s=NEVER_S, thresholds=thresholds) as exporter:
        (poller,) = exporter.pollers

        def verdicts() -> list[str]:
            snapshot = poller.reading.current
            return [queue.verdict.value for queue in snapshot.queues] if snapshot else []

        await until(lambda: verdicts() == ["stalled"])
        assert poller.scrapes == 0
        assert (await exporter.get()).verdicts() == {"q": "stalled"}


async def test_a_scrape_costs_what_a_poll_costs(redis_url: str, client: redis.Redis) -> None:
    rsmq = Rsmq(client)
    # No more than each poll looks at: else polls take turns and differ.
    for number in range(QUICK_QUEUES):
        rsmq.create_queue(f"q{number}")
    async with aclosing(RsmqReader(redis_url)) as reader:
        poller = RsmqPoller(reader)
        for _ in range(3):
            cost = (await poller.poll()).cost
    async with exporting(redis_url) as exporter:
        for _ in range(3):
            before = await exporter.get()
        after = await exporter.get()

    def spent(name: str) -> float:
        return after.value(f"rsmq_poll_{name}") - before.value(f"rsmq_poll_{name}")

    assert spent("duration_seconds_count") == 1
    assert spent("commands_total") == cost.commands
    assert spent("bytes_total") == pytest.approx(cost.bytes, rel=0.02)
