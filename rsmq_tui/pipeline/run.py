"""One run of the pipeline: preflight, new rows into tables, and publication by one rename.

Whenever a run is killed, the tables are those of one complete run, and the next run completes the work:

- killed before the files are noted: the files are new again;
- killed before the manifest is replaced: the notes are still there, and their days are computed again;
- killed before the notes are removed: the same days are computed once more, with the same result;
- files that no manifest names are removed by the next run that publishes.
"""

import json
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from threading import Event
from typing import Any

from rsmq_tui.files import FileLock
from rsmq_tui.history.analysis.schema import BY_DAY, MANIFEST_FILE, RUNS, VERSION
from rsmq_tui.history.analysis.tables import Manifest, read_manifest, write_manifest
from rsmq_tui.history.names import HistoryError, explain
from rsmq_tui.history.reading import History
from rsmq_tui.history.schema import MESSAGES
from rsmq_tui.history.store import SealedFile
from rsmq_tui.pipeline.folder import Folder
from rsmq_tui.pipeline.increment import TABLES, Held, WorkPlan, day_in, is_stored, source_of, to_do
from rsmq_tui.pipeline.spark import SparkEngine
from rsmq_tui.pipeline.state import (
    STATE_FILE,
    LeftOut,
    PipelineError,
    Progress,
    Settings,
    State,
    StoppedError,
    digest,
    read_state,
)

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
        if read_state(out) is not None:
            return
        if out.holds_anything(but=(_LOCK_FILE, _beside(STATE_FILE))):
            raise PipelineError(f"{out.label} is not empty and not an analysis: name an empty folder for --out")
        keep(out, State(), state)
    except (PipelineError, HistoryError):
        raise
    except Exception as error:
        raise PipelineError(explain(error, out.label)) from error


def files_held(history: Folder) -> dict[str, list[SealedFile]]:
    """Return the files of each table of the history; raises ``PipelineError``."""
    try:
        return {
            table: [file for file in history.store.files(table) if day_in(file.name) is not None] for table in TABLES
        }
    except Exception as error:
        said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise PipelineError(f"{history.label} cannot be read: {said}") from error


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
    there = set(out.files(RUNS))
    lost = [name for table in manifest.tables for name in manifest.files(table) if name not in there]
    if lost and not is_full:
        raise PipelineError(f"{out.label}/{lost[0]} is missing: run the pipeline with --full to build its tables again")
    kept = {
        table: {day: names for day, names in days.items() if there.issuperset(names)}
        for table, days in manifest.tables.items()
    }
    return replace(manifest, tables=kept)


def mended(history: Folder, state: State) -> Sequence[str]:
    """Return the files that were left out and have changed since."""
    return [name for name, about in state.left_out.items() if history.stamp(name) not in (about.stamp, None)]


def still_there(left_out: Mapping[str, LeftOut], held: Mapping[str, Sequence[SealedFile]]) -> dict[str, LeftOut]:
    """Return the left-out files that are still in the history."""
    names = {file.name for files in held.values() for file in files}
    return {name: about for name, about in left_out.items() if name in names}


def keep(out: Folder, state: State, folder: Path) -> None:
    """Store the state for the next run; ``folder`` is the user's folder, for temporary files."""
    with scratch_for(out, folder, STATE_FILE) as scratch:
        out.store.write(STATE_FILE, json.dumps(asdict(state)) + "\n", scratch)


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
    """The options of a run."""

    history: str
    out: str
    settings: Settings = field(default_factory=Settings)
    full: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a run; ``run`` is None if there was nothing new, and nothing was changed.

    ``days`` are the computed days of samples and of messages; ``rows`` the rows written to each table; ``problems`` has
    a sentence for each unreadable file, and ``known_problems`` is how many of these were left out before.
    """

    run: str | None
    out: str
    days: dict[str, tuple[str, ...]] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    known_problems: int = 0
    seconds: float = 0.0


class PipelineRun:
    """Runs a job; ``state`` is the user's folder, ``open_engine`` starts Spark when it is needed.

    ``steps`` is called with the name of each completed step, for tests that kill the run there. Setting ``stop`` ends
    the run before its next step; the caller must also cancel Spark's jobs.
    """

    def __init__(
        self,
        job: Job,
        state: Path,
        open_engine: Callable[[str], SparkEngine],
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

    def run(self) -> Outcome:
        """Run the job; raises ``PipelineError``, ``StoppedError`` and what Spark raises."""
        begun_s = time.monotonic()
        try:
            history, out = open_folders(self._job.history, self._job.out, self._state_folder)
            with alone(out):
                claim(out, self._state_folder)
                outcome = self._run(history, out)
        except HistoryError as error:
            raise PipelineError(str(error)) from error
        finally:
            if self.engine is not None:
                self.engine.close()
        return replace(outcome, seconds=time.monotonic() - begun_s)

    def _run(self, history: Folder, out: Folder) -> Outcome:
        from rsmq_tui.pipeline.job import drop_notes, forget, read_notes  # noqa: PLC0415 - it imports Spark

        job = self._job
        held = files_held(history)
        before = manifest_before(history, out, is_full=job.full)
        state = read_state(out) or State()
        if job.full:
            # If this run does not complete, the next one must also compute everything.
            self._keep(out, replace(state, version=None))
            forget(out)
        whole_again = mended(history, state)
        seen = digest(file for files in held.values() for file in files)
        is_same = (
            before is not None
            and state.version == VERSION
            and state.settings == asdict(job.settings)
            and not whole_again
        )
        if is_same and not job.full and state.seen == seen and not read_notes(out).files:
            return Outcome(None, out.label, known_problems=len(still_there(state.left_out, held)))
        if state.settings != asdict(job.settings):
            # Until the run is over, it is unknown with which of the two settings the tables were computed.
            self._keep(out, replace(state, settings={}))
        notes = self._ingest(history, out, held)
        # Files that arrived while Spark was starting may be noted too; this run removes their notes.
        held = files_held(history)
        new = {table: set(notes.names.get(table, ())) for table in TABLES}
        for name in whole_again:
            new[name.partition("/")[0]].add(name)
        is_anew = before is None or job.full or state.version != VERSION
        # Poison messages are stored by day.
        has_other_poison = state.settings.get("poison_rc") != job.settings.poison_rc
        anew = TABLES if is_anew else (MESSAGES,) if has_other_poison else ()
        todo = to_do(history, held, new, before, anew)
        left_out = still_there({name: about for name, about in state.left_out.items() if name not in whole_again}, held)
        if not todo and is_same:
            drop_notes(out, notes)
            self._keep(out, State(VERSION, asdict(job.settings), seen, left_out))
            return Outcome(None, out.label, known_problems=len(left_out))
        if not any(held.values()) and before is None:
            raise PipelineError(f"{history.label} has no rows yet: rsmq-tui record --out {history.label} records some")
        return self._work(history, out, before, held, todo, left_out, seen, notes)

    def _work(
        self,
        history: Folder,
        out: Folder,
        before: Manifest | None,
        held: Held,
        todo: WorkPlan,
        left_out: dict[str, LeftOut],
        seen: str,
        notes: Any,
    ) -> Outcome:
        from rsmq_tui.pipeline.job import BatchJob, drop_notes  # noqa: PLC0415
        from rsmq_tui.pipeline.tables import merged, remove_old  # noqa: PLC0415

        assert self.engine is not None
        run = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{secrets.token_hex(3)}"
        working = BatchJob(self.engine.spark, history, out, run, self._job.settings, self._progress, self._begin)
        try:
            made = working.by_day(held, todo, left_out, before)
            self._step("days written")
            days = made.done.days
            worked = {table: self._as_it_was(history, table, days[table], held[table], before) for table in TABLES}
            of_table = {table: worked[source_of(table)] for table in BY_DAY}
            both = left_out | made.damaged
            problems = {name: f"{history.label}/{name} was left out: {about.why}" for name, about in both.items()}
            manifest = Manifest(
                run,
                round(time.time() * 1000),
                history.label,
                tuple(problems[name] for name in sorted(problems)),
                merged(before, made.written, of_table),
            )
            whole = working.over_all(manifest)
            self._step("written")
        except Exception:
            # The next run removes what tasks still write.
            if not self._stop.is_set():
                out.remove(f"{RUNS}/{run}")
            raise
        self._begin("publishing")
        manifest = replace(manifest, tables=manifest.tables | {table: about.files for table, about in whole.items()})
        self._check_alone(out, before)
        self._store_manifest(out, manifest)
        self._step("published")
        self._keep(out, State(VERSION, asdict(self._job.settings), seen, both))
        drop_notes(out, notes)
        self._step("notes dropped")
        remove_old(out, manifest, before)
        rows = {table: about.rows for table, about in (made.written | whole).items()}
        new = tuple(problems[name] for name in sorted(made.damaged))
        return Outcome(run, out.label, {table: tuple(worked[table]) for table in TABLES}, rows, new, len(left_out))

    def _ingest(self, history: Folder, out: Folder, held: Held) -> Any:
        from rsmq_tui.pipeline.job import note_new_files, read_notes  # noqa: PLC0415

        self._progress.expect(4)
        self._begin("starting Spark")
        self.engine = self._open_engine(out.label)
        self._progress.watch(self.engine.tasks)
        self._begin("searching for new files")
        steps = self._steps
        noted = None if steps is None else lambda: steps("noted")
        note_new_files(self.engine.spark, history, out, [table for table in TABLES if held[table]], noted)
        self._step("ingested")
        return read_notes(out)

    def _as_it_was(
        self, history: Folder, table: str, days: list[str], held: Sequence[SealedFile], before: Manifest | None
    ) -> list[str]:
        """Return the days whose files all still exist; the tables of other days are not changed."""
        now = {file.name for file in history.store.files(table)}
        gone = {file.day for file in held if file.name not in now}
        return [day for day in days if day not in gone or before is None or not is_stored(before, table, day)]

    def _check_alone(self, out: Folder, before: Manifest | None) -> None:
        """Raise if another run has published meanwhile, for stores that cannot be locked."""
        if self._job.full:
            return
        now = read_manifest(out.store)
        if (now and now.run) != (before and before.run):
            raise PipelineError(f"another run has written to {out.label} at the same time: run only one at a time")

    def _store_manifest(self, out: Folder, manifest: Manifest) -> None:
        with scratch_for(out, self._state_folder, MANIFEST_FILE) as scratch:
            write_manifest(out.store, manifest, scratch)

    def _keep(self, out: Folder, state: State) -> None:
        keep(out, state, self._state_folder)

    def _begin(self, doing: str) -> None:
        if self._stop.is_set():
            raise StoppedError
        self._progress.step(doing)

    def _step(self, name: str) -> None:
        if self._steps is not None:
            self._steps(name)
