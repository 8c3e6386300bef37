"""`rsmq-tui pipeline run`: computes tables from the new files of a history, and prints progress."""

import argparse
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from rsmq_tui.cli.errors import UsageError
from rsmq_tui.cli.interrupts import EXIT_INTERRUPTED
from rsmq_tui.cli.output import ProgressLine, fields_json, print_words, say, wants_json
from rsmq_tui.files import state_folder
from rsmq_tui.monitor.text import count, duration, plural, printable

if TYPE_CHECKING:
    from rsmq_tui.pipeline.run import Outcome, PipelineRun
    from rsmq_tui.pipeline.state import Progress

EXIT_FAILED = 1
EXIT_LEFT_OUT = 4
EXIT_TERMINATED = 143
_LOOK_S = 0.1
_TELL_EVERY_S = 1.0
_ENDING_S = 20.0
_CANCEL_EVERY_S = 0.5
_BAR = 24


def run(options: argparse.Namespace) -> int:
    """Run the pipeline and return the exit status.

    Raises ``UsageError`` for folders that cannot be used, and for what is not installed.
    """
    from rsmq_tui.pipeline.spark import SparkOptions, check_installed, open_engine  # noqa: PLC0415
    from rsmq_tui.pipeline.state import PipelineError, Settings  # noqa: PLC0415

    if options.master is not None and options.remote is not None:
        raise UsageError("--master and --remote cannot be combined")
    if options.remote is not None and options.driver_memory is not None:
        raise UsageError("--driver-memory cannot be combined with --remote: the memory of a remote server is set there")
    try:
        check_installed()
    except PipelineError as error:
        raise UsageError(str(error)) from error
    from rsmq_tui.pipeline.run import Job, PipelineRun  # noqa: PLC0415
    from rsmq_tui.pipeline.state import Progress  # noqa: PLC0415 - its packages are there

    settings = Settings(poison_rc=options.poison_rc, depth_limit=options.depth_limit, age_limit_ms=options.age_limit)
    spark = SparkOptions(
        options.master, options.remote, options.driver_memory, tuple(options.spark_conf), options.spark_log
    )
    state = state_folder()
    progress, stop = Progress(), threading.Event()
    runner = PipelineRun(
        Job(options.history, options.out, settings, options.full),
        state,
        lambda label: open_engine(spark, state, label),
        progress=progress,
        stop=stop,
    )
    return _Watched(runner, progress, stop, wants_json(options)).run()


class _Watched:
    """A run in a thread of its own, so that this one hears of signals and tells people how it goes."""

    def __init__(self, runner: "PipelineRun", progress: "Progress", stop: threading.Event, as_json: bool) -> None:
        self._runner, self._progress, self._stop, self._as_json = runner, progress, stop, as_json
        self._line = ProgressLine()
        self._told_s = 0.0
        self._told: Any = None
        self._outcome: Outcome | None = None
        self._error: BaseException | None = None
        self._ended_by = 0

    def run(self) -> int:
        """Run it to its end, and return the exit status; raises ``UsageError``."""
        worker = threading.Thread(target=self._work, name="pipeline", daemon=True)
        with _signals(self._end):
            worker.start()
            while worker.is_alive() and not self._ended_by:
                self._tell()
                worker.join(_LOOK_S)
            if self._ended_by:
                self._line.clear()
                self._cancel(worker)
        self._line.clear()
        # What was published before the signal came is published.
        if self._ended_by and (self._outcome is None or worker.is_alive()):
            say("stopped: the tables are those of the previous run")
            return EXIT_INTERRUPTED if self._ended_by == signal.SIGINT else EXIT_TERMINATED
        return self._told_outcome()

    def _work(self) -> None:
        try:
            self._outcome = self._runner.run()
        except BaseException as error:
            self._error = error

    def _end(self, number: int) -> None:
        self._ended_by = number
        self._stop.set()

    def _cancel(self, worker: threading.Thread) -> None:
        """Cancel what Spark does, and what it begins until it hears of the end."""
        give_up_s = time.monotonic() + _ENDING_S
        while worker.is_alive() and time.monotonic() < give_up_s:
            engine = self._runner.engine
            if engine is not None:
                with suppress(Exception):
                    engine.cancel()
            worker.join(_CANCEL_EVERY_S)

    def _tell(self) -> None:
        standing = self._progress.standing()
        if not standing.doing:
            return
        done, total = standing.tasks
        if self._as_json:
            told = (standing.doing, standing.share, standing.tasks)
            if told == self._told or time.monotonic() < self._told_s + _TELL_EVERY_S:
                return
            self._told, self._told_s = told, time.monotonic()
            fields_json(
                kind="progress",
                doing=standing.doing,
                share=round(standing.share, 3),
                tasks_done=done,
                tasks=total,
            )
            sys.stdout.flush()
            return
        filled = round(standing.share * _BAR)
        tasks = f", {count(done)} of {plural(total, 'task')}" if total else ""
        self._line.show(f"[{'#' * filled}{'-' * (_BAR - filled)}] {standing.share:4.0%} {standing.doing}{tasks}")

    def _told_outcome(self) -> int:
        from rsmq_tui.pipeline.spark import why  # noqa: PLC0415
        from rsmq_tui.pipeline.state import PipelineError  # noqa: PLC0415

        if isinstance(self._error, PipelineError):
            raise UsageError(printable(str(self._error))) from self._error
        if isinstance(self._error, Exception):
            log = getattr(self._runner.engine, "log", None)
            kept = f"; its log: {log}" if log is not None else ""
            say(f"Spark failed: {why(self._error).rstrip('.')}; the tables are those of the previous run{kept}")
            return EXIT_FAILED
        if self._error is not None:
            raise self._error
        outcome = self._outcome
        if outcome is None:
            raise RuntimeError("the run ended without a result")
        for problem in outcome.problems:
            say(problem)
        self._print(outcome)
        return EXIT_LEFT_OUT if outcome.problems else 0

    def _print(self, outcome: "Outcome") -> None:
        if self._as_json:
            fields_json(
                kind="done" if outcome.run is not None else "nothing new",
                run=outcome.run,
                out=outcome.out,
                days=outcome.days,
                tables=outcome.rows,
                rows=sum(outcome.rows.values()),
                seconds=round(outcome.seconds, 3),
                problems=outcome.problems,
                known_problems=outcome.known_problems,
            )
            return
        before = f"; {plural(outcome.known_problems, 'file')} left out before" if outcome.known_problems else ""
        if outcome.run is None:
            print_words(f"nothing new: {outcome.out} is unchanged{before}")
            return
        days = len({day for days in outcome.days.values() for day in days})
        rows = f"{plural(sum(outcome.rows.values()), 'row')} in {plural(len(outcome.rows), 'table')}"
        print_words(
            f"{outcome.out}: {plural(days, 'day')} processed, {rows}, in {duration(outcome.seconds * 1000)}{before}"
        )


@contextmanager
def _signals(end: Any) -> Iterator[None]:
    """Let the signals that end a program end the run instead, the first time they come."""
    before = {}
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        # Windows has not all of them, and only the main thread may set any.
        with suppress(ValueError, AttributeError, OSError):
            number = getattr(signal, name)
            if signal.getsignal(number) is not signal.SIG_IGN or name == "SIGINT":
                before[number] = signal.signal(number, lambda number, _: end(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
