"""The pipeline: what a run takes over little, after one more hour on top of much and of little, and a row of many."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from rsmq_tui.files import cache_folder
from rsmq_tui.history.analysis.reading import Analysis
from rsmq_tui.history.analysis.values import TimeRange
from rsmq_tui.history.synthetic import Generator, HistorySpec
from rsmq_tui.history.synthetic.plan import Curve, PlannedSpan, queue_of
from tests.bench.measure import Sample, interleave
from tests.bench.row import Measured, Row, Run, Sense

_ROOT = Path(__file__).parents[2]
_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS
# A midnight.
_T_MS = 20_600 * _DAY_MS
_MASTER, _MEMORY = "local[2]", "2g"
_RUN = ("rsmq_tui", "pipeline", "run")
_MANY_ROWS, _FEW_ROWS = 20_000_000, 5_000_000


class _Pipeline:
    """A Spark in a process of its own, that runs the pipeline when it is told to."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self._hear()

    def run(self, history: Path, out: Path) -> dict[str, Any]:
        """Run it once; return what it took."""
        assert self._process.stdin is not None
        print(json.dumps([str(history), str(out)]), file=self._process.stdin, flush=True)
        found: dict[str, Any] = self._hear()
        if found["problems"] or not any(found["days"].values()):
            raise RuntimeError(f"nothing was worked, or not all: {found}")
        return found

    def _hear(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the pipeline failed")
        return json.loads(line)


@contextmanager
def _pipeline() -> Iterator[_Pipeline]:
    command = [sys.executable, "-m", "tests.bench.peers.our_pipeline", _MASTER, _MEMORY]
    with subprocess.Popen(command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield _Pipeline(process)
            assert process.stdin is not None
            process.stdin.close()
        except BaseException:
            process.terminate()
            raise


def _history(run: Run, folder: Path, days: float, until_ms: int, queues: int, every_ms: int) -> int:
    """Make a history, or add to it what is missing, with inventories every six hours; return the rows of samples."""
    wanted = HistorySpec(until_ms - round(days * _DAY_MS), until_ms, queues, every_ms, 6 * _HOUR_MS)
    made = Generator(wanted, folder).run(lambda progress: run.say(f"history: {progress.files} of {progress.of} files"))
    return made.rows


def _one_more_hour(run: Run) -> Measured:
    queues, every_ms = run.size(20, 3), run.size(5_000, 60_000)
    long_days, short_days = run.size(30, 2), 1
    spent_s: dict[str, list[float]] = {"long": [], "short": []}
    with tempfile.TemporaryDirectory() as name, _pipeline() as pipeline:
        folder = Path(name)
        rows = {}
        for side, days in (("long", long_days), ("short", short_days)):
            rows[side] = _history(run, folder / side, days, _T_MS, queues, every_ms)
            run.say(f"first run over {days} days")
            pipeline.run(folder / side, folder / f"{side}-out")
        hours = dict.fromkeys(rows, 0)

        def one(side: str, days: int) -> Sample:
            hours[side] += 1
            days_now = days + hours[side] / 24
            _history(run, folder / side, days_now, _T_MS + hours[side] * _HOUR_MS, queues, every_ms)

            def sample() -> float:
                found = pipeline.run(folder / side, folder / f"{side}-out")
                spent_s[side].append(found["cpu_s"])
                return float(found["seconds"])

            return sample

        measured = interleave(
            run, lambda: one("long", long_days), lambda: one("short", short_days), pairs=5, warm_up=1, limit_s=120
        )
    cpu_s = {side: median(taken) for side, taken in spent_s.items()}
    note = (
        f"{queues} queues every {every_ms / 1000:g} s, {rows['long']:,} rows and {rows['short']:,}; one Spark for all "
        f"runs, {_MASTER}; processor time {cpu_s['long']:.1f} s and {cpu_s['short']:.1f} s"
    )
    return Measured(measured.ours, measured.other, note)


def _spent_s(module: str, *arguments: str | Path) -> float:
    """Run a module in a process of its own; return the processor time of it and of all that it started, in seconds."""
    before = os.times()
    subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)], cwd=_ROOT, check=True, stdout=subprocess.DEVNULL
    )
    after = os.times()
    return after.children_user - before.children_user + after.children_system - before.children_system


def _small(run: Run, *, is_fresh: bool) -> Measured:
    """Run over a day of 10 queues, or over one more hour on top of it, in a Java of its own."""
    day = run.size(24, 2) / 24
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        history, out, other = folder / "history", folder / "out", folder / "other"
        rows = _history(run, history, day, _T_MS, 10, 10_000)
        hours = 0
        # The second one keeps Java's classes for the runs that follow, if they are not kept yet.
        for _ in range(2):
            _spent_s(*_RUN, "--history", history, "--out", out, "--full")
        is_kept = any((cache_folder() / "java").glob("*.jsa"))

        def ours() -> Sample:
            nonlocal hours
            if is_fresh:
                shutil.rmtree(out)
            else:
                hours += 1
                _history(run, history, day + hours / 24, _T_MS + hours * _HOUR_MS, 10, 10_000)
            return lambda: _spent_s(*_RUN, "--history", history, "--out", out)

        measured = interleave(
            run, ours, lambda: lambda: _spent_s("tests.bench.peers.spark_alone", history, other), pairs=3, warm_up=0
        )
    kept = "kept by an earlier run" if is_kept else "not kept: this Java cannot"
    note = f"{rows:,} rows of samples; all processes together; Java's classes were {kept}"
    return Measured(measured.ours, measured.other, note)


def _per_row(run: Run) -> Measured:
    """Run over everything in a fresh Spark each time, the smaller one first and last."""
    queues, every_ms = run.size(100, 3), run.size(5_000, 60_000)
    a_day = (queues + 1) * _DAY_MS // every_ms
    seconds: dict[int, list[float]] = {}
    spent: dict[int, list[float]] = {}
    sizes = run.size(_MANY_ROWS, 3 * a_day), run.size(_FEW_ROWS, a_day)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = {size: _history(run, folder / str(size), size / a_day, _T_MS, queues, every_ms) for size in sizes}
        for turn, size in enumerate((sizes[1], sizes[0], sizes[1])):
            with _pipeline() as pipeline:
                run.say(f"{size / 1e6:g} million rows")
                found = pipeline.run(folder / str(size), folder / f"out-{turn}")
            seconds.setdefault(size, []).append(found["seconds"] / rows[size] * 1e6)
            spent.setdefault(size, []).append(found["cpu_s"] / rows[size] * 1e6)
    ours, other = (median(seconds[size]) for size in sizes)
    note = (
        f"{rows[sizes[0]]:,} rows and {rows[sizes[1]]:,} of {queues} queues, {_MASTER}, a driver of {_MEMORY}, a fresh "
        f"Spark each, without its start; processor time {median(spent[sizes[0]]):.1f} s and "
        f"{median(spent[sizes[1]]):.1f} s a million"
    )
    return Measured(ours, other, note)


class _Judged(NamedTuple):
    """What an analysis told of generated queues, from the third week on: counts of faults, and of hours of queues."""

    faults: int
    found: int
    hours: int
    right: int
    note: str


@cache
def _unusual_hours(quick: bool) -> _Judged:
    """Compare the unusual hours of an analysis with the faults and bursts that were generated."""
    days, queues, every_ms = (16, 5, 600_000) if quick else (42, 40, 60_000)
    wanted = HistorySpec(_T_MS - days * _DAY_MS, _T_MS, queues, every_ms)
    judged = PlannedSpan(wanted.from_ms + 14 * _DAY_MS, _T_MS)
    with tempfile.TemporaryDirectory() as name, _pipeline() as pipeline:
        folder = Path(name)
        Generator(wanted, folder / "history").run()
        pipeline.run(folder / "history", folder / "out")
        found = Analysis(folder / "out").anomalies(TimeRange(judged.from_ms, judged.to_ms - 1))
    hours = {(one.ref.queue, one.bucket_ms // _HOUR_MS) for one in found}
    faults, right = [], set()
    for number in range(queues):
        queue = queue_of(number, wanted.seed)
        for fault in Curve(queue).unusual(judged.from_ms, judged.to_ms):
            touched = {(queue.name, hour) for hour in range(fault.from_ms // _HOUR_MS, fault.to_ms // _HOUR_MS + 1)}
            right |= hours & touched
            if judged.from_ms <= fault.from_ms and fault.to_ms < judged.to_ms:
                faults.append(bool(hours & touched))
    note = f"{queues} queues over {days} days, every {every_ms / 1000:g} s, judged from the third week on"
    return _Judged(len(faults), sum(faults), len(hours), len(right), note)


def _recall(run: Run) -> Measured:
    judged = _unusual_hours(run.quick)
    return Measured(judged.faults, judged.found, judged.note)


def _precision(run: Run) -> Measured:
    judged = _unusual_hours(run.quick)
    return Measured(judged.hours, judged.right, judged.note)


ROWS = (
    Row(
        "unusual hours, recall: faults that were generated",
        "those in which an hour is told as unusual",
        "faults",
        Sense.TIMES_LESS,
        0.95,
        _recall,
    ),
    Row(
        "unusual hours, precision: hours of queues told as unusual",
        "those in which there was a fault",
        "hours",
        Sense.TIMES_LESS,
        0.85,
        _precision,
    ),
    Row(
        "pipeline over one day of 10 queues, processor time",
        "Spark that reads and writes the samples",
        "s",
        Sense.AT_MOST,
        3.2,
        lambda run: _small(run, is_fresh=True),
    ),
    Row(
        "pipeline after one more hour of 10 queues, processor time",
        "Spark that reads and writes the samples",
        "s",
        Sense.AT_MOST,
        2.7,
        lambda run: _small(run, is_fresh=False),
    ),
    Row(
        "pipeline after one more hour, on top of 30 days",
        "the same on top of 1 day",
        "s",
        Sense.AT_MOST,
        1.3,
        _one_more_hour,
    ),
    Row(
        "pipeline over 20 million rows, time a million, 2 GB driver",
        "the same over 5 million rows",
        "s",
        Sense.AT_MOST,
        1.2,
        _per_row,
    ),
)
