"""One run of the pipeline: it finds what is new, has its tables computed, and publishes them by one rename.

The table ``sources`` names the files of the history that the tables were computed from. The files of the history that
it does not name are new. It is published together with the other tables: a file is known if, and only if, its rows are
in them.

Whenever a run is killed, the tables are those of one complete run, and the next run completes the work:

- killed before the manifest is replaced: its files are still new, and are computed again;
- killed after that: the tables are complete; what it did not remove is removed by the next run that publishes.
"""

import json
import secrets
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from rsmq_tui import __version__
from rsmq_tui.files import FileLock, parse_json
from rsmq_tui.history.analysis.schema import (
    BY_DAY,
    COLUMNS,
    FILES,
    MANIFEST_FILE,
    PLACES,
    ROLLUP_1H,
    RUNS,
    SOURCES,
    VERSION,
)
from rsmq_tui.history.analysis.tables import WHOLE_KEY, Manifest, read_manifest, write_manifest
from rsmq_tui.history.compaction import compact, past_days
from rsmq_tui.history.names import HistoryError, explain
from rsmq_tui.history.reading import NONE_SEALED, History
from rsmq_tui.history.schema import MESSAGES, SAMPLES
from rsmq_tui.history.store import open_store
from rsmq_tui.local_clock import now_ms
from rsmq_tui.pipeline.batch_job import WEIGHTS, BatchJob, Made, unchanged
from rsmq_tui.pipeline.delta import LOG, versions, write_logs
from rsmq_tui.pipeline.folder import Folder, rows_in
from rsmq_tui.pipeline.sources import HISTORY_TABLES, SourceFile, Sources, day_in
from rsmq_tui.pipeline.spark import Amount, SparkEngine, why
from rsmq_tui.pipeline.state import AnalysisSettings, PipelineError, Progress, StoppedError
from rsmq_tui.pipeline.tables import (
    OLD_FILES,
    coverage,
    merged,
    names_in,
    remove_old,
    with_days_joined,
    write_rows,
)
from rsmq_tui.pipeline.work_plan import (
    WorkPlan,
    is_stored,
    source_of,
    work_plan_for,
)

STATE_FILE = "_state.json"
_JOINING = 3.0
_RUNS_MAX = 10_000
# With fewer new rows, and a smaller roll-up by hour, most of the time is not spent on rows.
_SMALL_ROWS, _SMALL_BYTES = 250_000, 32_000_000
# With fewer, optimizing the code takes longer than it saves.
_MEDIUM_ROWS = 4_000_000
# A run every few days still joins the files of each.
_JOINED_DAYS = 7


_LOCK_FILE = "_lock"


def open_folders(history_at: str, out_at: str, state: Path) -> tuple[Folder, Folder]:
    """Return the history, and the folder for its tables, created; raises ``PipelineError`` or ``HistoryError``."""
    # This raises an error with a sentence if it is not a history.
    History(history_at, state=state)
    history, out = Folder(history_at, state), Folder(out_at, state)
    if out.is_within(history):
        raise PipelineError(f"{out.label} is inside the history: choose another folder for --out")
    try:
        out.store.prepare()
    except Exception as error:
        # Filesystems raise exceptions of their own.
        raise PipelineError(explain(error, out.label)) from error
    return history, out


@contextmanager
def alone(out: Folder) -> Iterator[None]:
    """Lock a folder for this run; raises ``PipelineError`` if another run holds it. A URL cannot be locked."""
    if out.path is None:
        yield
        return
    try:
        lock = FileLock.acquire(out.path / _LOCK_FILE)
    except OSError as error:
        raise PipelineError(explain(error, out.label)) from error
    if lock is None:
        raise PipelineError(f"another run is writing {out.label}: wait until it ends")
    try:
        yield
    finally:
        lock.release()


def claim(out: Folder, state: Path) -> None:
    """Mark a folder as an analysis; raises ``PipelineError`` if it contains anything else.

    Files that no manifest names are removed later, so the folder must not contain other files.
    """
    try:
        if out.store.has(STATE_FILE):
            return
        if out.holds_anything(but=(_LOCK_FILE, _beside(STATE_FILE))):
            raise PipelineError(f"{out.label} is not empty and not an analysis: name an empty folder for --out")
        keep_state(out, state, is_full=False)
    except (PipelineError, HistoryError):
        raise
    except Exception as error:
        raise PipelineError(explain(error, out.label)) from error


def manifest_before(history: Folder, out: Folder, *, is_full: bool) -> Manifest | None:
    """Return the manifest of the last run, or None to compute everything; raises as ``read_manifest``."""
    try:
        manifest = read_manifest(out.store)
    except HistoryError:
        if is_full:
            return None
        raise
    if manifest is not None and manifest.history != history.label:
        if is_full:
            return None
        raise PipelineError(
            f"{out.label} is the analysis of {manifest.history}: name another --out, or use --full to replace it"
        )
    return None if manifest is None else _with_all_files(out, manifest, is_full=is_full)


def _with_all_files(out: Folder, manifest: Manifest, *, is_full: bool) -> Manifest:
    """Return a manifest whose files all exist; raises if some are missing, unless ``is_full``."""
    there = {*out.files(FILES), *out.files(OLD_FILES)}
    lost = [name for table in manifest.tables for name in manifest.files(table) if name not in there]
    if lost and not is_full:
        raise PipelineError(f"{out.label}/{lost[0]} is missing: run the pipeline with --full to build its tables again")
    kept = {
        table: {day: names for day, names in days.items() if there.issuperset(names)}
        for table, days in manifest.tables.items()
    }
    return replace(manifest, tables=kept)


def keep_state(out: Folder, folder: Path, *, is_full: bool) -> None:
    """Mark a folder as an analysis, and store whether a run over everything has begun and is not complete.

    ``folder`` is the user's folder, for temporary files.
    """
    with scratch_for(out, folder, STATE_FILE) as scratch:
        out.store.write(STATE_FILE, json.dumps({"full": is_full}) + "\n", scratch)


def is_full_due(out: Folder) -> bool:
    """Return whether a run over everything was begun and did not complete."""
    try:
        return bool(parse_json(out.store.read(STATE_FILE) or "{}").get("full"))
    except (ValueError, AttributeError):
        return True


@contextmanager
def scratch_for(out: Folder, state: Path, name: str) -> Iterator[Path]:
    """Yield a path for a file that is then renamed; ``state`` is the user's folder, used if ``out`` is not local."""
    if out.path is not None:
        yield out.path / _beside(name)
        return
    state.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=state) as folder:
        yield Path(folder) / name
        with suppress(OSError):
            (Path(folder) / name).unlink()


def _beside(name: str) -> str:
    return f"{name}.new"


@dataclass(frozen=True, slots=True)
class Job:
    """The options of a run; ``compact`` says whether it joins small files, of its tables and of the history."""

    history: str
    out: str
    settings: AnalysisSettings = field(default_factory=AnalysisSettings)
    full: bool = False
    compact: bool = True


@dataclass(frozen=True, slots=True)
class RunResult:
    """The outcome of a run; ``run`` is None if there was nothing new, and nothing was changed.

    ``days`` are the computed days of samples and of messages; ``rows`` the rows written to each table; ``problems`` has
    a sentence for each unreadable file, and ``known_problems`` is how many of these were left out before. ``notes`` say
    why everything was computed again, and why files of the history were not joined.
    """

    run: str | None
    out: str
    days: dict[str, tuple[str, ...]] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    known_problems: int = 0
    seconds: float = 0.0
    notes: tuple[str, ...] = ()


class _Plan(NamedTuple):
    """What a run has found: the last manifest, the new files by table, what to compute, and what cannot be read."""

    before: Manifest | None
    sources: Sources
    new: Mapping[str, Collection[str]]
    todo: WorkPlan
    left_out: dict[str, tuple[str, str]]
    settings: dict[str, Any]


def _still_there(left_out: Mapping[str, tuple[str, str]], sources: Sources) -> dict[str, tuple[str, str]]:
    """Return the left-out files that are still in the history."""
    return {
        name: about
        for name, about in left_out.items()
        for table, day in [(name.partition("/")[0], day_in(name))]
        if day in sources.days.get(table, ()) and name in sources.names(table, day or "")
    }


def _days_gone(sources: Sources, table: str, days: Iterable[str]) -> set[str]:
    """Return the days of which files have vanished since they were listed; their tables are not published."""
    return {day for day in days if not sources.names(table, day) <= sources.names_now(table, day)}


def _days_worked(days: Iterable[str], gone: Collection[str], table: str, before: Manifest | None) -> list[str]:
    """Return the days whose tables this run replaces: of days that are gone, those of the run before stay."""
    return [day for day in days if day not in gone or before is None or not is_stored(before, table, day)]


class PipelineRun:
    """Runs a job; ``state`` is the user's folder, ``open_engine`` starts Spark when it is needed, with the
    name of the analysis, and the amount of what there is to compute.

    ``steps`` is called with the name of each completed step, for tests that kill the run there. Setting ``stop`` ends
    the run before its next step; the caller must also cancel Spark's jobs.
    """

    _history: Folder
    _out: Folder

    def __init__(
        self,
        job: Job,
        state: Path,
        open_engine: Callable[[str, Amount], SparkEngine],
        *,
        progress: Progress | None = None,
        stop: Event | None = None,
        steps: Callable[[str], None] | None = None,
    ) -> None:
        self.engine: SparkEngine | None = None
        self._job = job
        self._state_folder = state
        self._open_engine = open_engine
        self._progress = progress or Progress()
        self._stop = stop or Event()
        self._steps = steps

    def run(self) -> RunResult:
        """Run the job; raises ``PipelineError``, ``StoppedError``, and ``RuntimeError`` if Spark fails."""
        begun_s = time.monotonic()
        is_done = False
        try:
            self._history, self._out = open_folders(self._job.history, self._job.out, self._state_folder)
            with alone(self._out):
                claim(self._out, self._state_folder)
                outcome = self._run()
            is_done = True
        except HistoryError as error:
            raise PipelineError(str(error)) from error
        except (PySparkException, Py4JError) as error:
            # Errors of Spark get their text from its Java process, which ends now.
            raise RuntimeError(why(error)) from None
        finally:
            if self.engine is not None:
                self._progress.step("closing Spark")
                self.engine.close(is_done=is_done)
        return replace(outcome, seconds=time.monotonic() - begun_s)

    def _run(self) -> RunResult:
        job, history, out = self._job, self._history, self._out
        is_full = job.full or is_full_due(out)
        before = manifest_before(history, out, is_full=is_full)
        if before is not None:
            # A run may have been killed before it wrote them.
            self._log(before)
        if is_full:
            # If this run does not complete, the next one must also compute everything.
            keep_state(out, self._state_folder, is_full=True)
        plan = self._plan(before, is_full=is_full)
        if before is None and not any(plan.new.values()):
            raise PipelineError(f"{history.label} has no rows yet: {NONE_SEALED}")
        if not plan.todo and before is not None and before.settings == plan.settings and not is_full:
            return RunResult(None, out.label, known_problems=len(plan.left_out))
        notes: list[str] = []
        if job.compact:
            # Before they are read: a few large files are read in less time than thousands of small ones.
            self._progress.expect(WEIGHTS[SAMPLES])
            self._begin("joining files of the history", _JOINING)
            is_joined, notes = self._join_history(plan)
            if is_joined:
                plan = self._plan(before, is_full=is_full)
        self._step("planned")
        return self._compute(plan, notes)

    def _plan(self, before: Manifest | None, *, is_full: bool) -> "_Plan":
        """Find what there is to compute."""
        job, history = self._job, self._history
        sources = Sources(history, self._out, before)
        left_out = {} if before is None else _still_there(before.left_out, sources)
        mended = {name for name, (stamp, _) in left_out.items() if history.stamp(name) not in (stamp, None)}
        left_out = {name: about for name, about in left_out.items() if name not in mended}
        is_anew = is_full or before is None or before.schema != VERSION
        # Poison messages are stored by day.
        has_other_poison = before is not None and before.settings.get("poison_rc") != job.settings.poison_rc
        new = {
            table: sources.new(table, is_anew=is_anew or (table == MESSAGES and has_other_poison))
            .union(name for name in mended if name.startswith(f"{table}/"))
            .difference(left_out)
            for table in HISTORY_TABLES
        }
        # As the manifest has them: without tuples.
        settings = json.loads(json.dumps(asdict(job.settings)))
        return _Plan(before, sources, new, work_plan_for(sources, new, before), left_out, settings)

    def _compute(self, plan: "_Plan", notes: list[str]) -> RunResult:
        history, out, before, sources = self._history, self._out, plan.before, plan.sources
        begun_s = time.monotonic()
        self._progress.expect(WEIGHTS[SAMPLES])
        self._begin("starting Spark")
        news = sources.footers(name for names in plan.new.values() for name in names)
        run = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{secrets.token_hex(3)}"
        batch_job = self._open(run, plan, news)
        damaged = {name: source.why for name, source in news.items() if source.why is not None}
        try:
            made = batch_job.by_day(sources, plan.todo, {*plan.left_out, *damaged}, before)
            self._step("days written")
            damaged |= made.damaged
            left_out = plan.left_out | {name: (history.stamp(name) or "", why) for name, why in damaged.items()}
            gone = {table: _days_gone(sources, table, made.done.days[table]) for table in HISTORY_TABLES}
            worked = {table: _days_worked(days, gone[table], table, before) for table, days in made.done.days.items()}
            problems = {name: f"{history.label}/{name} was left out: {why}" for name, (_, why) in left_out.items()}
            tables = merged(before, made.written, {table: worked[source_of(table)] for table in BY_DAY}, sources.newest)
            manifest = Manifest(
                run,
                now_ms(),
                history.label,
                tuple(problems[name] for name in sorted(problems)),
                tables | {SOURCES: self._sources(run, plan, gone, left_out)},
                plan.settings,
                {
                    table: {day: stamp for day, stamp in days.items() if day not in gone[table]}
                    for table, days in sources.stamps().items()
                },
                left_out,
            )
            whole = batch_job.over_all(manifest, before)
            self._step("written")
        except Exception:
            # The next run removes what tasks still write.
            if not self._stop.is_set():
                out.remove(*(f"{FILES}/{table}/{run}" for table in COLUMNS))
            raise
        self._begin("publishing")
        written = made.written | whole
        rows = {table: about.rows for table, about in written.items()}
        tables = manifest.tables | unchanged(manifest, before) | {table: about.files for table, about in whole.items()}
        if self._job.compact:
            tables = with_days_joined(out, run, tables, sources.newest)
        tables[RUNS] = {WHOLE_KEY: (self._write_run(manifest, plan, made, news, rows, begun_s),)}
        manifest = replace(manifest, tables=tables)
        manifest = replace(manifest, replaced=tuple(sorted(names_in(before) - names_in(manifest))))
        self._publish(replace(manifest, versions=versions(manifest, before)), before)
        days = {table: tuple(worked[table]) for table in HISTORY_TABLES}
        found = tuple(problems[name] for name in sorted(damaged))
        if before is not None and before.schema != VERSION:
            reason = "was made by an earlier version: all days of the history were computed again"
            notes = [f"{out.label} {reason}", *notes]
        return RunResult(run, out.label, days, rows, found, len(plan.left_out), notes=tuple(notes))

    def _publish(self, manifest: Manifest, before: Manifest | None) -> None:
        """Replace the manifest, and remove the files that only the one before names."""
        out = self._out
        self._check_alone(before)
        with scratch_for(out, self._state_folder, MANIFEST_FILE) as scratch:
            write_manifest(out.store, manifest, scratch)
        self._step("published")
        self._log(manifest)
        self._step("logged")
        if is_full_due(out):
            keep_state(out, self._state_folder, is_full=False)
        remove_old(out, manifest, before)
        self._step("old files removed")

    def _join_history(self, plan: "_Plan") -> tuple[bool, list[str]]:
        """Join the small files of past days of the history: of those to be computed, and of the last ones.

        Return whether any were joined. A history that cannot be written is no failure of the run: the reason is
        returned.
        """
        computed = {day for days in plan.todo.days.values() for day in days}
        recorded = sorted({day for days in plan.sources.days.values() for day in days})
        days = past_days({*computed, *recorded[-_JOINED_DAYS:]}, now_ms())
        store, scratch = open_store(self._job.history, self._state_folder)
        is_joined = False
        try:
            for _, done in compact(store, days, scratch, is_asked=False):
                is_joined = is_joined or done.after < done.before
                if self._stop.is_set():
                    break
        except HistoryError as error:
            return is_joined, [f"the files of the history were not joined: {error}"]
        return is_joined, []

    def _open(self, run: str, plan: "_Plan", news: Mapping[str, SourceFile]) -> BatchJob:
        """Start Spark for the files ``news``."""
        before, out = plan.before, self._out
        rows = {table: sum(news[name].rows or 0 for name in names if name in news) for table, names in plan.new.items()}
        stored_bytes = 0 if before is None else sum(map(out.size, before.files(ROLLUP_1H)))
        if sum(rows.values()) >= _MEDIUM_ROWS:
            amount = Amount.LARGE
        elif sum(rows.values()) >= _SMALL_ROWS or stored_bytes >= _SMALL_BYTES:
            amount = Amount.MEDIUM
        else:
            amount = Amount.SMALL
        self.engine = self._open_engine(out.label, amount)
        self._progress.watch(self.engine.tasks)
        spark, settings = self.engine.spark, self._job.settings
        return BatchJob(spark, self._history, out, run, settings, self._progress, self._begin, rows, amount)

    def _sources(
        self, run: str, plan: "_Plan", gone: Mapping[str, Collection[str]], left_out: Collection[str]
    ) -> dict[str, tuple[str, ...]]:
        """Write the files that are now known, of each day that has others than before; return its files by day."""
        before, sources = plan.before, plan.sources
        files = {} if before is None else dict(before.tables.get(SOURCES, {}))
        for day in sorted({day_in(name) or "" for names in plan.new.values() for name in names}):
            earlier = sources.known(day)
            rows = []
            for table in HISTORY_TABLES:
                there = sources.of_day(table, day) if day in sources.days[table] and day not in gone[table] else earlier
                rows += [
                    (SourceFile(name) if name in left_out else known)._asdict()
                    | {"source": table, "run": known.run or run}
                    for name, known in sorted(there.items())
                    if name.startswith(f"{table}/")
                ]
            files[day] = (write_rows(self._out, run, SOURCES, rows, day),)
        return dict(sorted(files.items()))

    def _write_run(
        self,
        manifest: Manifest,
        plan: "_Plan",
        made: Made,
        news: Mapping[str, SourceFile],
        rows: Mapping[str, int],
        begun_s: float,
    ) -> str:
        """Write the table ``runs`` with a row for this run; return the name of its file."""
        assert self.engine is not None
        earlier = rows_in(self._out, RUNS, () if plan.before is None else plan.before.files(RUNS))
        read = [source for source in news.values() if source.why is None]
        places = made.written[PLACES].files.values() if PLACES in made.written else ()
        covered = coverage(self._out, (name for names in places for name in names), made.done.hours)
        return write_rows(
            self._out,
            manifest.run,
            RUNS,
            [
                *earlier[-_RUNS_MAX:],
                {
                    "run": manifest.run,
                    "made_ms": manifest.made_ms,
                    "seconds": round(time.monotonic() - begun_s, 3),
                    "version": __version__,
                    "spark": self.engine.spark.version,
                    "schema": VERSION,
                    "history": manifest.history,
                    "sources": len(news),
                    "rows_in": sum(source.rows or 0 for source in read),
                    "left_out": len(manifest.left_out),
                    "hours": len(made.done.hours),
                    "days": len(made.done.days[MESSAGES]),
                    "rows_out": sum(rows.values()),
                    "from_ms": min((source.first_ms for source in read if source.first_ms is not None), default=None),
                    "to_ms": max((source.last_ms for source in read if source.last_ms is not None), default=None),
                    **covered._asdict(),
                },
            ],
        )

    def _log(self, manifest: Manifest) -> None:
        """Write the logs of the Delta tables, if they are missing."""
        with scratch_for(self._out, self._state_folder, LOG) as scratch:
            write_logs(self._out, manifest, scratch)

    def _check_alone(self, before: Manifest | None) -> None:
        """Raise if another run has published meanwhile, for stores that cannot be locked."""
        if self._job.full:
            return
        now = read_manifest(self._out.store)
        if (now and now.run) != (before and before.run):
            raise PipelineError(
                f"another run has written to {self._out.label} at the same time: run only one at a time"
            )

    def _begin(self, doing: str, weight: float = 1.0) -> None:
        if self._stop.is_set():
            raise StoppedError
        self._progress.step(doing, weight)

    def _step(self, name: str) -> None:
        if self._steps is not None:
            self._steps(name)
