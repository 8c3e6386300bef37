"""`rsmq-tui pipeline`: analyses a history with Spark, or generates one to try."""

import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rsmq_tui.cli.commands.recorded import require_packages
from rsmq_tui.cli.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_TERMINATED, UsageError
from rsmq_tui.cli.options import config as config_option
from rsmq_tui.cli.options import json_option
from rsmq_tui.cli.output import ProgressLine, fields_json, print_words, say, wants_json
from rsmq_tui.cli.parsing import Options, folder, group, option, positive, span, whole
from rsmq_tui.cli.servers import expected_of, zones_of
from rsmq_tui.files import state_folder
from rsmq_tui.history.names import HistoryError
from rsmq_tui.local_clock import now_ms
from rsmq_tui.monitor.moments import DAY_MS
from rsmq_tui.monitor.text import count, duration, plural, printable, size

if TYPE_CHECKING:
    from rsmq_tui.pipeline.run import PipelineRun, RunResult
    from rsmq_tui.pipeline.state import Progress

_EXIT_LEFT_OUT = 4
# Each update asks Java about its tasks.
_LOOK_S = 0.5
_PROGRESS_EVERY_S = 1.0
_ENDING_S = 20.0
_CANCEL_EVERY_S = 0.5
_BAR = 24
_QUEUES_MAX = 100_000
_STATUSES = {
    0: "done, or nothing new",
    1: "Spark failed: the tables of the previous run are unchanged",
    2: "a usage error, a folder or URL that cannot be used, a package that is not installed, or another run is writing "
    "to the same --out",
    4: "done, but a file could not be read: it is named and left out, and later runs do not report it again",
    130: "ended by Ctrl+C: the tables of the previous run are unchanged",
    143: "ended by SIGTERM: the tables of the previous run are unchanged",
}
_RUN_NOTES = """\
Each run reads the new files and computes the hours with new samples. The new tables become visible all at once; days
that are no longer in the history stay in the tables. Trouble that a profile in the configuration file declares as
expected, by `ignore` and `maintenance`, is no incident. Past days with ten small files or more are joined first, as by
`rsmq-tui history compact`. It needs pip install 'rsmq-tui[pipeline]', which installs Spark and, if it is missing, Java.

With --master it runs on a cluster; DIR is then a folder or a URL that every machine of the cluster can read. The
executors need no Python. For spark-submit, use rsmq_tui/pipeline/script.py with the same options; spark-submit itself
then takes the master, the memory and the Spark settings."""
_RUN_EXAMPLES = """\
rsmq-tui pipeline run --history history --out analysis
rsmq-tui pipeline run --history history --out analysis --depth-limit 100000 --driver-memory 4g
rsmq-tui pipeline run --history /srv/history --out /srv/analysis --master spark://db1:7077
spark-submit --master yarn script.py --history hdfs:///rsmq/history --out hdfs:///rsmq/analysis"""
_MEMORY = re.compile(r"[1-9][0-9]{0,6}[kmgt]b?", re.IGNORECASE)
_MEMORY_BYTES_MIN = 512 << 20


command = group(statuses=_STATUSES)


def _memory(text: str) -> str:
    from rsmq_tui.monitor.text import read_size  # noqa: PLC0415 - only this option needs it

    wanted = read_size(text)
    if not _MEMORY.fullmatch(text) or isinstance(wanted, str):
        raise ValueError(f"{text!r} is not an amount of memory such as 2g or 1500m")
    if wanted < _MEMORY_BYTES_MIN:
        raise ValueError(f"{text!r} is too little for Spark, which needs 512m or more")
    return text.lower().rstrip("b")


def _zone(text: str) -> str:
    from rsmq_tui.profiles.values import zone_of  # noqa: PLC0415 - only this option needs it

    return str(zone_of(text))


def _setting(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name.startswith("spark."):
        raise ValueError(f"{text!r} is not a Spark setting such as spark.executor.memory=4g")
    return name, value


@command.command(
    "run",
    help="compute the tables of an analysis from the new files of a history",
    notes=_RUN_NOTES,
    sections={"Examples": _RUN_EXAMPLES},
    statuses=_STATUSES,
)
@option("--history DIR", "the history that `rsmq-tui record` wrote", folder, required=True)
@option("--out DIR", "the folder or URL of the tables", folder, required=True)
@option("--full", "compute all days of the history again")
@option("--no-compact", "do not join small files of past days, of the history and of the tables")
@option("--poison-rc N", "messages received N times or more are poison", positive, default="5")
@option("--depth-limit N", "the depth that no queue should reach, for the forecast", positive)
@option(
    "--age-limit SPAN",
    "the age that no ready message should reach, for the forecast",
    span(1_000, 100_000 * DAY_MS),
    default="10m",
)
@option(
    "--zone NAME",
    "time zone of the hours of the week: Europe/Berlin (default: that of each configured profile, or UTC)",
    _zone,
)
@config_option
@option("--master URL", "the Spark master: local[*] (default), local[2], spark://HOST:7077, ...")
@option("--remote URL", "a Spark Connect server to use instead: sc://HOST:15002")
@option(
    "--driver-memory SIZE",
    "memory of the Spark driver, which includes a local Spark: 2g (default: 1g; for a local Spark and over 4 million "
    "new rows, a quarter of this machine's, at most 4g)",
    _memory,
)
@option("--spark-conf K=V", "a Spark setting; may be repeated", _setting, multiple=True)
@option("--spark-log", "show Spark's own log on stderr")
@json_option
def _run(options: Options) -> int:
    """Run the pipeline and return the exit status.

    Raises ``UsageError`` for folders that cannot be used, and for missing packages.
    """
    from rsmq_tui.pipeline.spark import SparkOptions, check_installed, open_engine  # noqa: PLC0415
    from rsmq_tui.pipeline.state import AnalysisSettings, PipelineError  # noqa: PLC0415

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

    settings = AnalysisSettings(
        poison_rc=options.poison_rc,
        depth_limit=options.depth_limit,
        age_limit_ms=options.age_limit,
        zone=options.zone or "UTC",
        zones={} if options.zone is not None else zones_of(options),
        expected={profile: expected.as_lists() for profile, expected in expected_of(options).items()},
    )
    spark = SparkOptions(
        options.master, options.remote, options.driver_memory, tuple(options.spark_conf), options.spark_log
    )
    state = state_folder()
    progress, stop = Progress(), threading.Event()
    runner = PipelineRun(
        Job(options.history, options.out, settings, options.full, compact=not options.no_compact),
        state,
        lambda label, amount: open_engine(replace(spark, amount=amount), state, label),
        progress=progress,
        stop=stop,
    )
    return _Watched(runner, progress, stop, as_json=wants_json(options)).run()


class _Watched:
    """A run in a thread of its own, so that this thread receives signals and shows the progress."""

    def __init__(self, runner: "PipelineRun", progress: "Progress", stop: threading.Event, *, as_json: bool) -> None:
        self._runner, self._progress, self._stop, self._as_json = runner, progress, stop, as_json
        self._line = ProgressLine()
        self._shown_s = 0.0
        self._shown: Any = None
        self._outcome: RunResult | None = None
        self._error: BaseException | None = None
        self._ended_by = 0

    def run(self) -> int:
        """Run it to its end, and return the exit status; raises ``UsageError``."""
        worker = threading.Thread(target=self._work, name="pipeline", daemon=True)
        with _signals(self._end):
            worker.start()
            while worker.is_alive() and not self._ended_by:
                self._print_progress()
                worker.join(_LOOK_S)
            if self._ended_by:
                self._line.clear()
                self._cancel(worker)
        self._line.clear()
        # What was published before the signal came is published.
        if self._ended_by and (self._outcome is None or worker.is_alive()):
            say("stopped: the tables are those of the previous run")
            return EXIT_INTERRUPTED if self._ended_by == signal.SIGINT else EXIT_TERMINATED
        return self._show_outcome()

    def _work(self) -> None:
        try:
            self._outcome = self._runner.run()
        except BaseException as error:
            self._error = error

    def _end(self, number: int) -> None:
        self._ended_by = number
        self._stop.set()

    def _cancel(self, worker: threading.Thread) -> None:
        """Cancel the jobs of Spark, including those that it starts until the run notices."""
        give_up_s = time.monotonic() + _ENDING_S
        while worker.is_alive() and time.monotonic() < give_up_s:
            engine = self._runner.engine
            if engine is not None:
                with suppress(Exception):
                    engine.cancel()
            worker.join(_CANCEL_EVERY_S)

    def _print_progress(self) -> None:
        current = self._progress.current()
        if not current.doing:
            return
        done, total = current.tasks
        if self._as_json:
            progress = (current.doing, current.share, current.tasks)
            if progress == self._shown or time.monotonic() < self._shown_s + _PROGRESS_EVERY_S:
                return
            self._shown, self._shown_s = progress, time.monotonic()
            fields_json(
                kind="progress",
                doing=current.doing,
                share=round(current.share, 3),
                tasks_done=done,
                tasks=total,
            )
            sys.stdout.flush()
            return
        filled = round(current.share * _BAR)
        tasks = f", {count(done)} of {plural(total, 'task')}" if total else ""
        self._line.show(f"[{'#' * filled}{'-' * (_BAR - filled)}] {current.share:4.0%} {current.doing}{tasks}")

    def _show_outcome(self) -> int:
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
        for problem in (*outcome.notes, *outcome.problems):
            say(problem)
        self._print(outcome)
        return _EXIT_LEFT_OUT if outcome.problems else 0

    def _print(self, outcome: "RunResult") -> None:
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
def _signals(end: Callable[[int], None]) -> Iterator[None]:
    """Let the first signal that would end the program end the run instead."""
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


_GENERATE_NOTES = """\
It writes what `rsmq-tui record` would have written: quiet queues, queues with a daily and weekly rhythm, bursts,
stalls, growth, old messages, poison messages, dead letters, a queue that is recreated every few days, some list queues
(without arrivals and deletes, which lists do not count), outages of the server, and gaps in the recording. The same
options give the same files; a later --until, or more --days, adds to the existing files. It uses all cores, and neither
a server nor Spark.

The defaults are for trying out: 2.7 million rows in some seconds. 30 days of 1,000 queues every 5 s are 518 million
rows and take some minutes per processor core; 25 to 30 MB per day."""
_GENERATE_EXAMPLES = """\
rsmq-tui pipeline generate --out history
rsmq-tui pipeline generate --out history --days 30 --queues 1000 --every 5s --messages 1h
rsmq-tui pipeline run --history history --out analysis"""
_GENERATE_STATUSES = {
    0: "done, or everything existed already",
    2: "a usage error, a folder that cannot be written or that contains another history",
    130: "ended by Ctrl+C: the same command continues from there",
}


def _days(text: str) -> int:
    try:
        days = float(text)
    except ValueError:
        days = -1.0
    if not 0.01 <= days <= 10_000:
        raise ValueError(f"{text!r} is not a number of days from 0.01 to 10,000")
    return round(days * DAY_MS)


def _time(text: str) -> int:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or not 2000 <= found.year <= 2200:
        raise ValueError(f"{text!r} is not a time such as 2031-05-17 or 2031-05-17T12:00")
    return round((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)


@command.command(
    "generate",
    help="generate a synthetic history of any size, to try or to benchmark",
    notes=_GENERATE_NOTES,
    sections={"Examples": _GENERATE_EXAMPLES},
    statuses=_GENERATE_STATUSES,
)
@option("--out DIR", "the destination: a folder or a URL", folder, required=True)
@option("--days N", "number of days", _days, default="7")
@option("--queues N", "number of RSMQ queues", whole(1, _QUEUES_MAX, "number of queues"), default="40")
@option(
    "--list-queues N",
    "number of additional list queues",
    whole(0, _QUEUES_MAX, "number of queues"),
    default="3",
)
@option("--every SPAN", "time between polls", span(100, 600_000), default="10s")
@option("--messages SPAN", "also write inventories of all messages at this interval: 1h", span(60_000, 30 * DAY_MS))
@option(
    "--until TIME",
    "end of the history: 2031-05-17 or 2031-05-17T12:00, UTC; rounded down to ten minutes (default: the last midnight)",
    _time,
)
@option("--seed N", "seed of the random numbers", whole(0, 10**15 - 1), default="1")
def _generate(options: Options) -> int:
    """Generate the history, and return the exit status.

    Raises ``UsageError`` if packages are missing, and for a folder that cannot be used.
    """
    require_packages("generating")
    from rsmq_tui.history.synthetic import Generator, HistorySpec, Progress  # noqa: PLC0415

    until_ms = options.until
    if until_ms is None:
        until_ms = now_ms() // DAY_MS * DAY_MS
    line, begun_s = ProgressLine(), time.monotonic()

    def show(progress: Progress) -> None:
        taken_ms, made_files = (time.monotonic() - begun_s) * 1000, max(1, progress.files - progress.kept)
        left = duration(taken_ms * (progress.of - progress.files) / made_files)
        made = f"{count(progress.rows)} rows, {size(progress.bytes)}"
        line.show(f"{progress.day}: {100 * progress.files // progress.of} %, {made}, {left} left")

    try:
        generator = Generator(
            HistorySpec(
                from_ms=until_ms - options.days,
                to_ms=until_ms,
                queues=options.queues,
                every_ms=options.every,
                messages_ms=options.messages,
                seed=options.seed,
                lists=options.list_queues,
            ),
            options.out,
        )
        done = generator.run(show)
    except HistoryError as error:
        line.clear()
        raise UsageError(printable(str(error))) from error
    except KeyboardInterrupt:
        line.clear()
        say("stopped; the same command continues from here")
        return EXIT_INTERRUPTED
    line.clear()
    messages = f", {plural(done.messages, 'message')}" if done.messages else ""
    kept = f"; {plural(done.kept, 'file')} {'was' if done.kept == 1 else 'were'} there" if done.kept else ""
    say(f"{printable(generator.label)}: {plural(done.rows, 'row')}{messages}, {size(done.bytes)} made{kept}")
    return 0
