"""What recording costs: the time of polls that are recorded, and how much a day takes on the disk."""

import asyncio
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import redis

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.history.names import Place
from rsmq_tui.history.poll_log import PollLog
from rsmq_tui.history.recorder import Recorder
from rsmq_tui.history.schema import SAMPLES
from rsmq_tui.history.writer import RecordingSettings, Writer
from rsmq_tui.monitor import Drain, QueueState, Snapshot, Verdict
from tests.bench.measure import Sample, interleave
from tests.bench.queues import filled, names, poller_on
from tests.bench.row import Measured, Row, Run, Sense

_CHANGED_SHARE = 0.10
# Polls of one sample; what the queues do between two of them is all the time that the recorder has for itself.
_BURST = 5
# By then, usually, the thread has written the last poll of a sample.
_WRITTEN_S = 0.01
_LIMIT_MB = 120
_DAY_S, _EVERY_S = 86_400, 5
# A day is measured by an hour of it; of a seal's ten minutes each takes as much as the next.
_MEASURED_S = 3_600
_DAY_BEGINS_MS = 20_600 * 86_400_000
_PLACE = Place("prod", "redis://db1:6379/0", "rsmq")


def _polls(run: Run) -> Measured:
    return _recorded(run, run.size(10_000, 20))[0]


def _processor_time(run: Run) -> Measured:
    measured, (ours_ms, other_ms) = _recorded(run, run.size(100, 10))
    return Measured(
        ours_ms, other_ms, f"wall {measured.ours:.2f} ms with the recorder, {measured.other:.2f} ms without"
    )


def _recorded(run: Run, count: int) -> tuple[Measured, tuple[float, float]]:
    """Poll, recorded and not; return the wall of a poll, and its processor time in ms."""
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedServer() as server,
        redis.Redis.from_url(server.url) as client,
        asyncio.Runner() as loop,
    ):
        backlog, poller = filled(run, client, count), poller_on(server, loop)
        recorder = Recorder(Path(folder) / "history", RecordingSettings(), state=Path(folder))
        recorder.start()
        taken = 0
        spent_s: dict[bool, list[float]] = {True: [], False: []}

        async def polls(*, recorded: bool) -> float:
            nonlocal taken
            wall_s, cpu_s = 0.0, time.process_time()
            for _ in range(_BURST):
                started_s = time.perf_counter()
                snapshot = await poller.poll()
                if recorded:
                    recorder.add(snapshot)
                    taken += 1
                wall_s += time.perf_counter() - started_s
                if snapshot.connection.failure is not None:
                    raise RuntimeError(f"the poll failed: {snapshot.connection.failure}")
                # What the queues do is in neither figure: this thread's time, while the recorder goes on in its own.
                before_s = time.thread_time()
                backlog.change(_CHANGED_SHARE / 2)
                cpu_s += time.thread_time() - before_s
            # To wait takes processor time too: both sides do.
            await asyncio.sleep(_WRITTEN_S)
            while recorder.tally.polls + recorder.tally.lost < taken:  # noqa: ASYNC110 - a thread writes them
                await asyncio.sleep(_WRITTEN_S)
            spent_s[recorded].append(time.process_time() - cpu_s)
            return wall_s * 1000 / _BURST

        def side(*, recorded: bool) -> Sample:
            backlog.change(_CHANGED_SHARE / 2)
            return lambda: loop.run(polls(recorded=recorded))

        try:
            measured = interleave(
                run, lambda: side(recorded=True), lambda: side(recorded=False), pairs=20, warm_up=2, limit_s=40
            )
        finally:
            recorder.close()
            recorder.wait(60)
            loop.run(poller.aclose())
        if recorder.tally.lost or recorder.tally.polls != taken:
            raise RuntimeError(f"{recorder.tally.polls} of {taken} polls were recorded: {recorder.tally.problem}")
    ours_ms, other_ms = (median(spent_s[recorded]) * 1000 / _BURST for recorded in (True, False))
    note = f"processor time of a poll {ours_ms:.1f} ms with the recorder's thread, {other_ms:.1f} ms without"
    return Measured(measured.ours, measured.other, note), (ours_ms, other_ms)


class _Busy:
    """A queue that works without a pause: in each poll all of its counters are others."""

    def __init__(self, name: str, number: int, rng: random.Random) -> None:
        self._rng = rng
        self._rate = 10 ** rng.uniform(-1, 1.3) * _EVERY_S
        self._depth, self._hidden, self._sent = 60, 5, rng.randrange(10**9)
        self._received = self._sent
        created_ms = _DAY_BEGINS_MS - rng.randrange(10**10)
        self._same: dict[str, Any] = {"name": name, "kind": "rsmq", "vt_s": 30.0, "delay_s": 0.0, "maxsize": 65536}
        self._same |= {"created_ms": created_ms, "modified_ms": created_ms + number}

    def step(self, at_ms: int) -> QueueState:
        """Go on to another moment."""
        sent, deleted, received = (self._some() for _ in range(3))
        deleted = min(deleted, self._depth)
        self._sent += sent
        self._received += received
        self._depth += sent - deleted
        self._hidden = min(self._depth, max(0, self._hidden + self._rng.randrange(-3, 4)))
        return self.state(at_ms, self._rng.randrange(200, 20_000))

    def state(self, at_ms: int, age_ms: int) -> QueueState:
        """Return the state as it is, with a first ready message of that age."""
        ready = self._depth - self._hidden
        counts: dict[str, Any] = {"depth": self._depth, "ready": ready, "hidden": self._hidden, "totalsent": self._sent}
        rates: dict[str, Any] = dict.fromkeys(
            ("arrivals_s", "deletes_s", "receives_s", "since_ms", "drain_s", "broken")
        )
        return QueueState(
            **self._same,
            **counts,
            **rates,
            totalrecv=self._received,
            oldest_ready_ms=at_ms - age_ms if ready else None,
            poison=0,
            highest_rc=1,
            verdict=Verdict.OK,
            drain=Drain.UNKNOWN,
            problems=(),
        )

    def _some(self) -> int:
        return max(0, round(self._rng.gauss(self._rate, self._rate**0.5)))


def _day(run: Run, busy: float) -> Measured:
    """Record an hour through the recorder's writer, which seals as it does, and say what a day comes to."""
    rng = random.Random(1)
    queues = [_Busy(name, number, rng) for number, name in enumerate(names(run.size(1_000, 20)))]
    working = queues[: round(busy * len(queues))]
    with tempfile.TemporaryDirectory() as folder:
        elapsed_s = 0.0
        writer = Writer(str(Path(folder) / "history"), Path(folder), RecordingSettings(), clock=lambda: elapsed_s)
        writer.open()
        polls = PollLog(writer.recorder, _PLACE)
        states = {queue: queue.state(_DAY_BEGINS_MS, 60_000) for queue in queues}
        for at_ms in _times(run, rng):
            elapsed_s = (at_ms - _DAY_BEGINS_MS) / 1000
            states |= {queue: queue.step(at_ms) for queue in working}
            snapshot = Snapshot(at_ms, _PLACE.server, _PLACE.ns, tuple(states.values()))
            poll = polls.begin(snapshot, at_ms)
            writer.append(SAMPLES, poll, poll.at_ms)
            writer.tend()
            run.say(f"{elapsed_s / 60:.0f} minutes of 60")
        writer.close()
        measured_s = run.size(_MEASURED_S, 60)
        day_mb = writer.sealed_bytes / 1e6 * _DAY_S / measured_s
        note = f"{writer.sealed_files} files of an hour; {100 * busy:g} % of the queues change in every poll"
        if writer.problem is not None:
            raise RuntimeError(writer.problem)
    return Measured(day_mb, _LIMIT_MB, note)


def _times(run: Run, rng: random.Random) -> Iterator[int]:
    """Yield when polls are made, a little late each."""
    for number in range(run.size(_MEASURED_S, 60) // _EVERY_S):
        yield _DAY_BEGINS_MS + number * _EVERY_S * 1000 + rng.randrange(12)


ROWS = (
    Row(
        "polls of 10,000 queues that are recorded, wall",
        "the same polls alone",
        "ms",
        Sense.AT_MOST,
        1.05,
        _polls,
    ),
    Row(
        "polls of 100 queues that are recorded, processor time",
        "the same polls alone",
        "ms",
        Sense.AT_MOST,
        1.15,
        _processor_time,
    ),
    Row(
        "a recorded day of 1,000 queues at 5 s, a tenth busy",
        "the limit of 120 MB",
        "MB",
        Sense.AT_MOST,
        1.0,
        lambda run: _day(run, 0.1),
    ),
    Row(
        "a recorded day of 1,000 queues at 5 s, all busy",
        "the limit of 120 MB",
        "MB",
        Sense.AT_MOST,
        1.0,
        lambda run: _day(run, 1.0),
    ),
)
