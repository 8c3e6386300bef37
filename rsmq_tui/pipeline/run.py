"""One run of the pipeline: preflight, new rows into tables, corrupt files left out, and publication by one rename.

Structured Streaming finds the files that no earlier run has seen. Each is noted in a small file under ``_notes``, which
is written before the stream's checkpoint commits, and removed only when the tables of those files are published. So if
a run is killed, the file is still noted, or is noted again. In this stream, a row is a file, not a sample: no file of
the history is opened, so a corrupt file does not stop it.

Whenever a run is killed, the tables are those of one complete run, and the next run completes the work:

- killed before the files are noted: the files are new again;
- killed before the manifest is replaced: the notes are still there, and their days are computed again;
- killed before the notes are removed: the same days are computed once more, with the same result;
- files that no manifest names are removed by the next run that publishes.
"""

import json
import re
import secrets
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from rsmq_tui.files import FileLock
from rsmq_tui.history.analysis.schema import BY_DAY, MANIFEST_FILE, RUNS, VERSION, WHOLE
from rsmq_tui.history.analysis.tables import Manifest, read_manifest, write_manifest
from rsmq_tui.history.names import HistoryError, explain
from rsmq_tui.history.reading import History
from rsmq_tui.history.schema import MESSAGES, SAMPLES, SCHEMAS
from rsmq_tui.history.store import SealedFile, Store
from rsmq_tui.monitor.text import plural
from rsmq_tui.pipeline.folder import Folder, as_glob
from rsmq_tui.pipeline.increment import TABLES, Held, WorkPlan, day_in, is_stored, source_of, to_do, with_whole_days
from rsmq_tui.pipeline.spark import SparkEngine, why
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
from rsmq_tui.pipeline.tables import (
    IncrementalMerge,
    Written,
    history_rows,
    merged,
    remove_old,
    stored_rows,
    write_table,
)
from rsmq_tui.pipeline.transforms.inventories import message_tables
from rsmq_tui.pipeline.transforms.samples import persisted, sample_tables
from rsmq_tui.pipeline.transforms.whole import WHOLE_SOURCES, whole_tables

_AT_ONCE = 8
_SAID_MAX = 200
_NAMED = re.compile(r"reading file (\S+\.parquet)")


def named_in(error: BaseException, names: Iterable[str]) -> str | None:
    """Return which of some files Spark could not read, by its message; None if it names none of them."""
    # Spark quotes the URL of the file; its last parts identify it.
    found = _NAMED.search(str(error))
    if found is None:
        return None
    ends = "/".join(unquote(found[1]).rsplit("/", 3)[1:])
    return ends if ends in set(names) else None


def damage_in(store: Store, names: Iterable[str], look: Callable[[Store, str], str | None]) -> dict[str, str]:
    """Return what is wrong with files of a history, by name, as ``footer_problem`` or ``read_whole`` tells."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        names = list(names)
        told = pool.map(lambda name: _told(store, name, look), names)
        return {name: why for name, why in zip(names, told, strict=True) if why is not None}


def _told(store: Store, name: str, look: Callable[[Store, str], str | None]) -> str | None:
    try:
        return look(store, name)
    except FileNotFoundError:
        # Its day was deleted meanwhile.
        return None
    except Exception as error:
        # A bad file must not stop the others.
        said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return (said.splitlines() or [type(error).__name__])[0][:_SAID_MAX]


def footer_problem(store: Store, name: str) -> str | None:
    """Return why a file cannot be used, by its Parquet footer; None if it can."""
    with pq.ParquetFile(store.open(name)) as file:
        return _odd_column(name, {field.name: field.type for field in file.schema_arrow})


def read_whole(store: Store, name: str) -> None:
    """Read all of a file; raises if that is not possible."""
    with pq.ParquetFile(store.open(name)) as file:
        for number in range(file.metadata.num_row_groups):
            file.read_row_group(number)


def _odd_column(name: str, types: Mapping[str, pa.DataType]) -> str | None:
    """Describe the first column whose type differs from the schema; missing and additional columns are accepted."""
    for column in SCHEMAS[name.partition("/")[0]]:
        found = types.get(column.name, column.type)
        if _plain(found) != _plain(column.type):
            return f"its column {column.name} is {found}, not {column.type}"
    return None


def _plain(kind: pa.DataType) -> str:
    """Return the name of a type, without names and widths that do not matter."""
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"list of {_plain(kind.value_type)}"
    return "string" if pa.types.is_large_string(kind) else "int64" if pa.types.is_int32(kind) else str(kind)


class Made(NamedTuple):
    """The tables by day that were written, the files that turned out to be unreadable, and the executed work plan."""

    written: dict[str, Written]
    damaged: dict[str, LeftOut]
    done: WorkPlan


class BatchJob:
    """Computes tables from a history, in the run's own folder; ``begin`` is called with the name of each step."""

    def __init__(
        self,
        spark: SparkSession,
        history: Folder,
        out: Folder,
        run: str,
        settings: Settings,
        progress: Progress,
        begin: Callable[[str], None],
    ) -> None:
        self._spark, self._history, self._out, self._run = spark, history, out, run
        self._settings, self._progress, self._begin = settings, progress, begin

    def by_day(self, held: Held, todo: WorkPlan, left_out: Collection[str], before: Manifest | None) -> Made:
        """Write the tables by day for a work plan; raises what Spark raises.

        The hours that are kept are copied from the tables that ``before`` names.
        """
        names = [
            file.name
            for table in TABLES
            for file in held[table]
            if file.day in todo.read[table] and file.name not in left_out
        ]
        wanted = [table for table in BY_DAY if todo.days[source_of(table)]]
        self._progress.expect(len(wanted) + len(WHOLE) + 2)
        self._begin(f"checking {plural(len(names), 'file')}")
        damaged = self._marked(damage_in(self._history.store, names, footer_problem))
        while True:
            # If a file is damaged, its whole day is computed again without it.
            spoilt = {day for name in damaged if name.startswith(f"{SAMPLES}/") and (day := day_in(name))}
            todo = with_whole_days(todo, held, todo.partly.intersection(spoilt))
            standing = IncrementalMerge(self._spark, self._out, self._run, before, todo)
            try:
                return Made(self._write_days(todo, standing, {*left_out, *damaged}), damaged, todo)
            except Exception as error:
                found = self._found_by(error, [name for name in names if name not in damaged])
                if not found:
                    raise
                damaged |= found
                self._progress.expect(len(wanted) + len(WHOLE) + 1)

    def over_all(self, manifest: Manifest) -> dict[str, Written]:
        """Write the tables over all days, from all tables by day that a manifest names."""
        stored = {table: stored_rows(self._spark, self._out, table, manifest.files(table)) for table in WHOLE_SOURCES}
        return {
            table: self._write(table, rows, "all days") for table, rows in whole_tables(stored, self._settings).items()
        }

    def _write_days(self, todo: WorkPlan, standing: IncrementalMerge, left_out: Collection[str]) -> dict[str, Written]:
        written = {}
        for source in TABLES:
            if not todo.days[source]:
                continue
            out = [name for name in left_out if name.startswith(f"{source}/")]
            rows = history_rows(self._spark, self._history, source, todo.read[source], out)
            kept: list[DataFrame] = []
            try:
                for table, made in self._tables_of(source, rows, todo, kept).items():
                    written[table] = standing.with_rest(table, self._write(table, made, todo.amount(source)))
            finally:
                for shared in kept:
                    # If Spark has ended, nothing is cached any more.
                    with suppress(Exception):
                        shared.unpersist()
        return written

    def _tables_of(self, source: str, rows: DataFrame, todo: WorkPlan, kept: list[DataFrame]) -> dict[str, DataFrame]:
        def keep(shared: DataFrame) -> DataFrame:
            kept.append(persisted(shared))
            return kept[-1]

        if source == SAMPLES:
            return sample_tables(rows, todo.hours, keep)
        return message_tables(rows, todo.days[source], self._settings)

    def _write(self, table: str, rows: DataFrame, of: str) -> Written:
        self._begin(f"{table} of {of}")
        return write_table(self._out, self._run, table, rows)

    def _found_by(self, error: Exception, names: Sequence[str]) -> dict[str, LeftOut]:
        """Return the unreadable files after a job has failed: the one that the error names, and others like it."""
        named = named_in(error, names)
        found = {} if named is None else {named: why(error)}
        return self._marked(found | damage_in(self._history.store, names, read_whole))

    def _marked(self, damaged: Mapping[str, str]) -> dict[str, LeftOut]:
        return {name: LeftOut(self._history.stamp(name) or "", why) for name, why in damaged.items()}


CHECKPOINT, NOTES = "_checkpoint", "_notes"
_FILES = "path string, modificationTime timestamp, length bigint, content binary"


class Notes(NamedTuple):
    """The names of the new files of each table, and the note files."""

    names: dict[str, set[str]]
    files: tuple[str, ...]


def note_new_files(
    spark: SparkSession,
    history: Folder,
    out: Folder,
    tables: Iterable[str],
    noted: Callable[[], None] | None = None,
) -> None:
    """Write notes of the new files of some tables.

    ``noted`` is called when notes are written, before the stream commits its checkpoint.
    """
    queries: list[Any] = []
    try:
        for table in tables:
            found = (
                spark.readStream.format("binaryFile")
                .schema(_FILES)
                .option("pathGlobFilter", "*.parquet")
                .option("recursiveFileLookup", "true")
                # A file that was copied with its old date is new too.
                .option("maxFileAge", "99999d")
                # A day may be deleted meanwhile.
                .option("ignoreMissingFiles", "true")
                .load(as_glob(history.at(table)))
                .select("path")
            )
            queries.append(
                found.writeStream.foreachBatch(_noting(out.at(f"{NOTES}/{table}"), noted))
                .option("checkpointLocation", out.at(f"{CHECKPOINT}/{table}"))
                .queryName(f"new files of {table}")
                .trigger(availableNow=True)
                .start()
            )
        for query in queries:
            query.awaitTermination()
    finally:
        for query in queries:
            if query.isActive:
                query.stop()


def read_notes(out: Folder) -> Notes:
    """Return the notes whose tables are not published yet."""
    names: dict[str, set[str]] = {}
    files = []
    for note in out.files(NOTES):
        parts = note.split("/")
        # Names of incomplete files, also of killed runs, begin like this.
        if len(parts) != 4 or parts[3].startswith(("_", ".")):
            continue
        files.append(note)
        with out.open(note) as lines:
            for line in lines:
                # The name unchanged; if a store quotes it, it matches no file, and stands for its whole day.
                name = "/".join(json.loads(line)["path"].rsplit("/", 3)[1:])
                if day_in(name) is not None:
                    names.setdefault(parts[1], set()).add(name)
    return Notes(names, tuple(files))


def drop_notes(out: Folder, notes: Notes) -> None:
    """Remove notes, and incomplete files that killed runs left there."""
    out.remove(*{name.rpartition("/")[0] for name in notes.files})
    out.remove_empty(NOTES)


def forget(out: Folder) -> None:
    """Make all files new to the next run; the checkpoint is removed first, so that no noted file is lost."""
    out.remove(CHECKPOINT)
    out.remove(NOTES)


def _noting(url: str, noted: Callable[[], None] | None) -> Callable[[DataFrame, int], None]:
    # Over Spark Connect it runs on the server, which may not have this package: it must not refer to it.
    if noted is None:

        def note(batch: DataFrame, number: int) -> None:
            batch.coalesce(1).write.mode("overwrite").json(f"{url}/{number}")

        return note

    def note_and_tell(batch: DataFrame, number: int) -> None:
        batch.coalesce(1).write.mode("overwrite").json(f"{url}/{number}")
        noted()

    return note_and_tell


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

    _history: Folder
    _out: Folder

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
            self._history, self._out = open_folders(self._job.history, self._job.out, self._state_folder)
            with alone(self._out):
                claim(self._out, self._state_folder)
                outcome = self._run()
        except HistoryError as error:
            raise PipelineError(str(error)) from error
        finally:
            if self.engine is not None:
                self.engine.close()
        return replace(outcome, seconds=time.monotonic() - begun_s)

    def _run(self) -> Outcome:
        job, history, out = self._job, self._history, self._out
        held = files_held(history)
        before = manifest_before(history, out, is_full=job.full)
        state = read_state(out) or State()
        if job.full:
            # If this run does not complete, the next one must also compute everything.
            self._keep(replace(state, version=None))
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
            self._keep(replace(state, settings={}))
        notes = self._ingest(held)
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
            self._keep(State(VERSION, asdict(job.settings), seen, left_out))
            return Outcome(None, out.label, known_problems=len(left_out))
        if not any(held.values()) and before is None:
            raise PipelineError(f"{history.label} has no rows yet: rsmq-tui record --out {history.label} records some")
        return self._work(before, held, todo, left_out, seen, notes)

    def _work(
        self,
        before: Manifest | None,
        held: Held,
        todo: WorkPlan,
        left_out: dict[str, LeftOut],
        seen: str,
        notes: Notes,
    ) -> Outcome:
        history, out = self._history, self._out
        assert self.engine is not None
        run = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{secrets.token_hex(3)}"
        working = BatchJob(self.engine.spark, history, out, run, self._job.settings, self._progress, self._begin)
        try:
            made = working.by_day(held, todo, left_out, before)
            self._step("days written")
            days = made.done.days
            worked = {table: self._as_it_was(table, days[table], held[table], before) for table in TABLES}
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
        self._check_alone(before)
        with scratch_for(out, self._state_folder, MANIFEST_FILE) as scratch:
            write_manifest(out.store, manifest, scratch)
        self._step("published")
        self._keep(State(VERSION, asdict(self._job.settings), seen, both))
        drop_notes(out, notes)
        self._step("notes dropped")
        remove_old(out, manifest, before)
        rows = {table: about.rows for table, about in (made.written | whole).items()}
        new = tuple(problems[name] for name in sorted(made.damaged))
        return Outcome(run, out.label, {table: tuple(worked[table]) for table in TABLES}, rows, new, len(left_out))

    def _ingest(self, held: Held) -> Notes:
        self._progress.expect(4)
        self._begin("starting Spark")
        self.engine = self._open_engine(self._out.label)
        self._progress.watch(self.engine.tasks)
        self._begin("searching for new files")
        steps = self._steps
        noted = None if steps is None else lambda: steps("noted")
        tables = [table for table in TABLES if held[table]]
        note_new_files(self.engine.spark, self._history, self._out, tables, noted)
        self._step("ingested")
        return read_notes(self._out)

    def _as_it_was(self, table: str, days: list[str], held: Sequence[SealedFile], before: Manifest | None) -> list[str]:
        """Return the days whose files all still exist; the tables of other days are not changed."""
        now = {file.name for file in self._history.store.files(table)}
        gone = {file.day for file in held if file.name not in now}
        return [day for day in days if day not in gone or before is None or not is_stored(before, table, day)]

    def _check_alone(self, before: Manifest | None) -> None:
        """Raise if another run has published meanwhile, for stores that cannot be locked."""
        if self._job.full:
            return
        now = read_manifest(self._out.store)
        if (now and now.run) != (before and before.run):
            raise PipelineError(
                f"another run has written to {self._out.label} at the same time: run only one at a time"
            )

    def _keep(self, state: State) -> None:
        keep(self._out, state, self._state_folder)

    def _begin(self, doing: str) -> None:
        if self._stop.is_set():
            raise StoppedError
        self._progress.step(doing)

    def _step(self, name: str) -> None:
        if self._steps is not None:
            self._steps(name)
