"""What the dashboard costs that stays open all day: processor time of a tick, and memory, with many queues."""

import asyncio
import time
from functools import partial
from statistics import median

import redis

from rsmq_tui.cli.demo import EmbeddedServer
from tests.bench.measure import Sample, interleave
from tests.bench.queues import filled, poller_on
from tests.bench.row import Measured, Row, Run, Sense

_CHANGED_SHARE, _RARELY_CHANGED_SHARE = 0.10, 0.01
_SNAPSHOTS = 600
_BUSY_SNAPSHOTS = 60
_BUSY_SHARE, _QUIET_SHARE = 0.01, 0.001
_LIMIT_MB, _LIMIT_MB_OF_MANY = 200, 600
# The dashboard looks at messages of many queues in its first polls.
_SETTLING = 8
# In the first polls all rates become known, and charts are drawn in each; half a minute after it was filled, a queue
# from which nobody receives is stalled. From then on only the queues change that are worked on.
_SETTLING_TICKS = 45
_QUIET_PERCENT = 2.0


def _tick(run: Run, count: int, changed: float) -> Measured:
    from tests.bench.terminal import Terminal

    with EmbeddedServer() as server, redis.Redis.from_url(server.url) as client, asyncio.Runner() as loop:
        backlog = filled(run, client, run.size(count, 20), busy=changed)
        poller = poller_on(server, loop)

        async def poll_alone() -> float:
            spent_s = time.process_time()
            snapshot = await poller.poll()
            assert snapshot.connection.failure is None
            return (time.process_time() - spent_s) * 1000

        with Terminal("tests.bench.peers.our_ticks", server.url, channel=True) as terminal:

            def tick() -> float:
                terminal.tell("tick")
                return float(terminal.hear()) * 1000

            def ours() -> Sample:
                backlog.change(changed / 2)
                return tick

            def other() -> Sample:
                backlog.change(changed / 2)
                return lambda: loop.run(poll_alone())

            try:
                return interleave(run, ours, other, pairs=12, warm_up=_SETTLING_TICKS, limit_s=25)
            finally:
                loop.run(poller.aclose())


def _quiet(run: Run) -> Measured:
    from tests.bench.terminal import Terminal

    with EmbeddedServer() as server, redis.Redis.from_url(server.url) as client:
        filled(run, client, run.size(10_000, 20))
        with Terminal("tests.bench.peers.our_ticks", server.url, channel=True) as terminal:
            spent = []
            for number in range(run.size(_SETTLING + 20, 3)):
                terminal.tell("tick")
                spent.append(float(terminal.hear()) * 100)
                run.say(f"second {number + 1}")
    seen = spent[run.size(_SETTLING, 1) :]
    return Measured(median(seen), _QUIET_PERCENT, f"at most {max(seen):.1f} %")


def _stops(run: Run) -> Measured:
    """Half of the queues stall in the same poll, or get a message while they are stalled."""
    from tests.bench.terminal import Terminal

    with EmbeddedServer() as server, redis.Redis.from_url(server.url) as client:
        backlog = filled(run, client, run.size(10_000, 20))
        with Terminal("tests.bench.peers.our_stops", server.url, channel=True) as terminal:

            def tick() -> float:
                terminal.tell("tick")
                longest_s, stalled = terminal.hear().split()
                if int(stalled) < len(backlog.names) // 2:
                    raise RuntimeError(f"only {stalled} queues are stalled")
                return float(longest_s) * 1000

            def ours() -> Sample:
                backlog.receive_in_half()
                terminal.tell("tick")
                terminal.hear()
                return tick

            def other() -> Sample:
                backlog.send_to_half()
                return tick

            return interleave(run, ours, other, pairs=8, warm_up=1, limit_s=40)


def _memory(run: Run, count: int, snapshots: int, limit_mb: float) -> Measured:
    from tests.bench.terminal import Terminal

    with EmbeddedServer() as server, redis.Redis.from_url(server.url) as client:
        backlog = filled(run, client, run.size(count, 20), busy=1)
        snapshots = run.size(snapshots, 3)
        with Terminal("tests.bench.peers.our_memory", server.url, channel=True) as terminal:
            for number in range(snapshots):
                terminal.tell("poll")
                if int(terminal.hear()) != len(backlog.names):
                    raise RuntimeError("a poll did not bring all queues")
                # All queues change once; most of them in the last minute, where what busy queues take is counted.
                backlog.change(_BUSY_SHARE if number >= snapshots - _BUSY_SNAPSHOTS else _QUIET_SHARE)
                run.say(f"snapshot {number + 1} of {snapshots}")
            terminal.tell("memory")
            peak_mb, resident_mb = map(float, terminal.hear().split())
    return Measured(peak_mb, limit_mb, f"the most it ever held; at the end {resident_mb:.0f} MB")


ROWS = (
    Row(
        "processor time of one tick, 10,000 queues, poll and screen",
        "the poll alone",
        "ms",
        Sense.AT_MOST,
        3,
        partial(_tick, count=10_000, changed=_CHANGED_SHARE),
    ),
    Row(
        "processor time of one tick, 100,000 queues, a hundredth change",
        "the poll alone",
        "ms",
        Sense.AT_MOST,
        2,
        partial(_tick, count=100_000, changed=_RARELY_CHANGED_SHARE),
    ),
    Row(
        "share of a core, 10,000 queues, nothing changes",
        "the limit of 2 %",
        "%",
        Sense.AT_MOST,
        1,
        _quiet,
    ),
    Row(
        "longest stop of the loop, 5,000 of 10,000 queues stall at once",
        "a tick in which these queues get a message",
        "ms",
        Sense.AT_MOST,
        2,
        _stops,
    ),
    Row(
        "memory, 10,000 queues after 600 snapshots",
        "the limit of 200 MB",
        "MB",
        Sense.AT_MOST,
        1,
        partial(_memory, count=10_000, snapshots=_SNAPSHOTS, limit_mb=_LIMIT_MB),
    ),
    Row(
        "memory, 100,000 queues after 60 snapshots",
        "the limit of 600 MB",
        "MB",
        Sense.AT_MOST,
        1,
        partial(_memory, count=100_000, snapshots=_BUSY_SNAPSHOTS, limit_mb=_LIMIT_MB_OF_MANY),
    ),
)
