"""What arrives in another process is what was sent: states, trends and their days, poll after poll."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, cast

import pytest

from rsmq_tui.monitor import Connection, RsmqPoller, Snapshot
from rsmq_tui.monitor.tracking.series import FlightTimes
from rsmq_tui.monitor.tracking.trend import Trend
from rsmq_tui.protocol import ENDED, RsmqReader, failure_of
from rsmq_tui.web.hub import Hub, HubFeed, SnapshotReceiver, SnapshotSender
from tests.monitor.memories import began
from tests.monitor.rows import Flow, Scripted
from tests.waiting import SECONDS_MAX, until


def snapshot_of(watched: Scripted, failure: str | None = None) -> Snapshot:
    tracker = watched.tracker
    states = tracker._finished or ()
    link = Connection(failure_of(ConnectionRefusedError()) if failure else None, watched.at_ms / 1000)
    return Snapshot(
        watched.at_ms,
        "redis://a",
        "rsmq",
        states,
        watched.totals,
        tracker.trend,
        connection=link,
        changes=tracker.changes,
    )


def charts(trend: Trend, at_ms: int) -> object:
    """All that a chart or a table reads of a trend."""
    return (
        trend.times_ms,
        trend.gaps_ms,
        trend.day_totals,
        {
            name: (
                list(trend.queue(name)),
                list(trend.day_of(name)),
                trend.flights(name),
                trend.sums(name, at_ms, 10_000_000, 10_000_000),
            )
            for name in trend.series
        },
    )


def check(received: Snapshot, sent: Snapshot) -> None:
    assert received.queues == sent.queues
    assert received.totals == sent.totals
    assert received.connection == sent.connection
    assert (received.at_ms, received.server, received.ns) == (sent.at_ms, sent.server, sent.ns)
    # As texts: unknown values are NaN, which equals nothing.
    assert repr(charts(received.trend, sent.at_ms)) == repr(charts(sent.trend, sent.at_ms))


def test_every_poll_of_hours_arrives() -> None:
    watched, sender, receiver = Scripted(), SnapshotSender(), SnapshotReceiver()
    flows = {name: Flow() for name in ("a", "b", "c")}
    before: Snapshot | None = None
    for number in range(900):
        flows["a"].move(sent=number % 7, received=3, deleted=number % 5 if number > 9 else 0)
        if number % 40 == 11:
            flows["b"].move(sent=5)
            watched.tracker.note_own_change(["b"])
        if number == 300:
            flows["d"] = Flow(sent=4)
        if number == 500:
            del flows["c"]
        if number in (200, 701):
            watched.tracker.resume(watched.at_ms + 1)
        watched.poll({name: flow.row() for name, flow in flows.items()}, after_s=[1, 5, 20, 9][number % 4])
        if number % 6 == 2:
            times = FlightTimes(watched.at_ms, 4, number, number + 1, None, 9)
            watched.tracker.trend.add_flights("a", times)
        sent = snapshot_of(watched)
        received = receiver.decode(sender.encode(sent))
        assert received.queues == sent.queues
        if before is not None and received.changes is not None:
            # Who asks what changed since the snapshot before is told so without a comparison.
            assert received.changes.before is before.queues
        before = received
        if number % 100 == 99:
            check(received, sent)


def test_a_receiver_that_joins_later_has_the_same() -> None:
    watched, sender = Scripted(), SnapshotSender()
    flow = Flow()
    first, late = SnapshotReceiver(), SnapshotReceiver()
    assert sender.full() is None
    for _ in range(200):
        flow.move(sent=3, deleted=1)
        watched.poll({"q": flow.row()}, after_s=5)
        first.decode(sender.encode(snapshot_of(watched)))
    full = sender.full()
    assert full is not None
    check(late.decode(full), snapshot_of(watched))
    for _ in range(50):
        flow.move(sent=1, deleted=2)
        watched.poll({"q": flow.row()}, after_s=5)
        message = sender.encode(snapshot_of(watched))
        check(first.decode(message), snapshot_of(watched))
        check(late.decode(message), snapshot_of(watched))


class Halfway:
    """A source that stops within its second poll, after the trend has got what that poll adds, until ``go_on``."""

    def __init__(self) -> None:
        self.watched, self.flow = Scripted(), Flow()
        self.is_halfway, self.go_on = asyncio.Event(), asyncio.Event()

    def poll(self, number: int) -> Snapshot:
        self.flow.move(sent=3, deleted=1)
        rows = {"q": self.flow.row()} | ({"new": Flow(sent=4).row()} if number else {})
        # Each adds one bucket.
        self.watched.poll(rows, after_s=20)
        return snapshot_of(self.watched)

    async def snapshots(self) -> AsyncIterator[Snapshot]:
        yield self.poll(0)
        second = self.poll(1)
        self.is_halfway.set()
        await self.go_on.wait()
        yield second
        yield self.poll(2)

    async def aclose(self) -> None:
        pass


async def test_a_page_says_that_nobody_sends_it_snapshots(tmp_path: Path, redis_url: str) -> None:
    async with aclosing(RsmqPoller(RsmqReader(redis_url))) as poller:
        poller.feed = HubFeed(tmp_path / "gone", "a")
        (last,) = [snapshot async for snapshot in poller.snapshots()]
    assert last.connection == Connection(HubFeed.end)
    assert HubFeed.end.kind == ENDED


async def test_a_session_that_joins_during_a_poll_gets_nothing_twice(tmp_path: Path) -> None:
    source = Halfway()
    hub = Hub(tmp_path / "hub", {"a": lambda: cast(Any, source)})
    await hub.start()
    feed = HubFeed(hub.path, "a")
    try:
        await source.is_halfway.wait()
        coming = feed.snapshots()
        first = asyncio.ensure_future(anext(coming))
        async with asyncio.timeout(SECONDS_MAX):
            await until(lambda: bool(hub._channels["a", None].sessions), "it joins")
            source.go_on.set()
            received = await first
            while received.at_ms != source.watched.at_ms:
                received = await anext(coming)
        check(received, snapshot_of(source.watched))
    finally:
        await feed.aclose()
        await hub.aclose()


class Asked:
    """A source with one snapshot, which notes which queues are to be looked at first."""

    def __init__(self) -> None:
        self.watched = Scripted()
        self.watched.poll({"q": Flow().row()})
        self.shown: list[list[str]] = []

    async def snapshots(self) -> AsyncIterator[Snapshot]:
        yield snapshot_of(self.watched)
        await asyncio.Event().wait()

    def look_first(self, queues: Sequence[str]) -> None:
        self.shown.append(list(queues))

    def switch(self, ns: str) -> None:
        """Each namespace has the same queues."""

    async def aclose(self) -> None:
        """Nothing is open."""


async def test_a_session_that_connects_again_says_what_it_shows(tmp_path: Path) -> None:
    source = Asked()
    hub = Hub(tmp_path / "hub", {"a": lambda: cast(Any, source)})
    await hub.start()
    feed = HubFeed(hub.path, "a")
    try:
        async with asyncio.timeout(SECONDS_MAX):
            coming = feed.snapshots()
            await anext(coming)
            feed.look_first(["q"])
            await until(lambda: source.shown == [["q"]], "it is told")
            for session in hub._channels["a", None].sessions:
                session.transport.abort()
            await anext(coming)
            await until(lambda: source.shown == [["q"], ["q"]], "it is told again")
            # Those of another namespace are others.
            feed.switch("b")
            await anext(coming)
            feed.look_first(["other"])
            await until(lambda: ["other"] in source.shown, "it is told of these")
            assert source.shown == [["q"], ["q"], ["other"]]
    finally:
        await feed.aclose()
        await hub.aclose()


def test_an_outage_arrives_and_its_end() -> None:
    watched, sender, receiver = Scripted(), SnapshotSender(), SnapshotReceiver()
    watched.poll({"q": Flow(sent=1).row()})
    for failure in (None, "refused", "refused", None):
        sent = snapshot_of(watched, failure)
        check(receiver.decode(sender.encode(sent)), sent)


def test_another_trend_is_sent_whole() -> None:
    """As after a switch to another namespace, or when an earlier run was restored."""
    sender, receiver = SnapshotSender(), SnapshotReceiver()
    for names in ("ab", "cd"):
        watched = Scripted()
        for _ in range(3):
            watched.poll({name: Flow(sent=2).row() for name in names}, after_s=5)
            received = receiver.decode(sender.encode(snapshot_of(watched)))
        check(received, snapshot_of(watched))


@pytest.mark.parametrize("off_s", [60, 7_200])
async def test_an_earlier_run_that_is_restored_after_an_outage_arrives(tmp_path: Path, off_s: int) -> None:
    earlier, flow = Scripted(), Flow()
    memory = await began(tmp_path, earlier)
    earlier.run(flow, seconds=60, sent=2)
    memory.save(earlier.tracker.moment())
    sender, receiver, watched = SnapshotSender(), SnapshotReceiver(), Scripted()
    check(receiver.decode(sender.encode(snapshot_of(watched, "refused"))), snapshot_of(watched, "refused"))
    await began(tmp_path, watched, at_ms=earlier.at_ms + off_s * 1000)
    for _ in range(20):
        watched.run(flow, seconds=5, sent=1)
        check(receiver.decode(sender.encode(snapshot_of(watched))), snapshot_of(watched))


def test_a_poll_of_many_queues_is_short() -> None:
    watched, sender = Scripted(), SnapshotSender()
    rows = {f"queue-{number:05}": Flow(sent=number).row() for number in range(1000)}
    for _ in range(30):
        watched.poll(rows, after_s=5)
        sender.encode(snapshot_of(watched))
    full = sender.full()
    assert full is not None
    messages = []
    for _ in range(3):
        # Some polls begin with new verdicts.
        watched.poll(rows, after_s=1)
        messages.append(sender.encode(snapshot_of(watched)))

    assert min(map(len, messages)) < len(full) / 200


def test_a_change_without_a_beginning_is_refused() -> None:
    watched, sender = Scripted(), SnapshotSender()
    watched.poll({"q": Flow().row()})
    sender.encode(snapshot_of(watched))
    watched.poll({"q": Flow(sent=1).row()})

    with pytest.raises(RuntimeError):
        SnapshotReceiver().decode(sender.encode(snapshot_of(watched)))
