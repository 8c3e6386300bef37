"""A defect met while one server is polled is called a defect, and ends no poll."""

from typing import Any

import pytest
from redis import Redis

from rsmq_tui.monitor import RsmqPoller
from rsmq_tui.protocol import Rsmq, RsmqReader
from rsmq_tui.web.exporter.poller import Target, TargetPoller, TargetPollers


def _fail(*arguments: Any) -> Any:
    raise KeyError("a secret of somebody")


async def test_a_poll_says_so_and_the_next_one_is_made(
    client: Redis, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Rsmq(client).create_queue("orders")
    poller = RsmqPoller(RsmqReader(redis_url))
    try:
        assert (await poller.poll()).connection.failure is None
        with monkeypatch.context() as broken:
            broken.setattr("rsmq_tui.monitor.tracking.place_tracker.PlaceTracker.finish", _fail)
            snapshot = await poller.poll()
        failure = snapshot.connection.failure
        assert failure is not None
        assert failure.kind == "defect"
        assert failure.sentence.startswith("a defect in rsmq-tui: KeyError in monitor")
        assert "secret" not in failure.sentence
        assert [queue.name for queue in snapshot.queues] == ["orders"]
        assert (await poller.poll()).connection.failure is None
    finally:
        await poller.aclose()


async def test_the_exporter_reads_the_others(client: Redis, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Rsmq(client).create_queue("orders")
    good, bad = (RsmqPoller(RsmqReader(redis_url, ns)) for ns in ("rsmq", "other"))
    monkeypatch.setattr(bad, "_read", _fail)
    watches = [
        TargetPoller(Target("", "", name), poller, interval_s=9.0) for name, poller in (("good", good), ("bad", bad))
    ]
    for watch in watches:
        watch.reading = watch._read(await watch._poller.poll())
    readings = {watch.target.ns: watch.reading for watch in watches}
    assert readings["good"].failure is None
    assert readings["bad"].failure is not None
    assert readings["bad"].failure.kind == "defect"
    assert [reading.target.ns for reading in TargetPollers(tuple(watches)).failed()] == ["bad"]
    for poller in (good, bad):
        await poller.aclose()
