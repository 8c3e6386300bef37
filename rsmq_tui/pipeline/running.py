"""One run of the pipeline: what is new in a history, worked into the tables, and published by one rename.

Whatever is killed, and whenever, the tables are those of one complete run, and the next run makes up for it:

- before the files are noted: they are new again;
- after that, and before the manifest: the notes are still there, and their days are worked anew;
- after the manifest, and before the notes are dropped: the same days are worked once more, to the same rows;
- files that no manifest names are removed by the next run that publishes.
"""

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event
from typing import Any

from rsmq_tui.history.analysis.manifest import Manifest, read_manifest, write_manifest
from rsmq_tui.history.analysis.schema import BY_DAY, MANIFEST_FILE, RUNS, VERSION
from rsmq_tui.history.errors import HistoryError
from rsmq_tui.history.schema import MESSAGES
from rsmq_tui.history.store import SealedFile
from rsmq_tui.pipeline.days import TABLES, source_of
from rsmq_tui.pipeline.errors import PipelineError, StoppedError
from rsmq_tui.pipeline.folder import Folder
from rsmq_tui.pipeline.opening import (
    alone,
    claim,
    files_held,
    keep,
    manifest_before,
    mended,
    open_folders,
    scratch_for,
    still_there,
)
from rsmq_tui.pipeline.progress import Progress
from rsmq_tui.pipeline.session import Engine
from rsmq_tui.pipeline.settings import Settings
from rsmq_tui.pipeline.state import LeftOut, State, digest, is_current, made_by, read_state
from rsmq_tui.pipeline.to_do import Held, ToDo, is_stored, to_do


@dataclass(frozen=True, slots=True)
class Job:
    """What a run is asked for."""

    history: str
    out: str
    settings: Settings = field(default_factory=Settings)
    full: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run did; ``run`` is None where there was nothing new, and nothing was changed.

    ``days`` are those that were worked, of samples and of messages; ``rows`` the rows that were written of each table;
    ``problems`` the files that were found unreadable, a sentence each, and ``known_problems`` how many of them were
    left out before.
    """

    run: str | None
    out: str
    days: dict[str, tuple[str, ...]] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    known_problems: int = 0
    seconds: float = 0.0


class Runner:
    """Does a job; ``state`` is the user's folder, ``open_engine`` starts Spark when it is needed.

    ``steps`` is told the name of each step that was just taken, for tests that kill it there. Setting ``stop`` ends the
    run before its next step; whoever sets it also cancels what Spark does.
    """

    def __init__(
        self,
        job: Job,
        state: Path,
        open_engine: Callable[[str], Engine],
        *,
        progress: Progress | None = None,
        stop: Event | None = None,
        steps: Callable[[str], None] | None = None,
    ) -> None:
        self.engine: Engine | None = None
        self._job = job
        self._state_folder = state
        self._open_engine = open_engine
        self._progress = progress or Progress()
        self._stop = stop or Event()
        self._steps = steps

    def run(self) -> Outcome:
        """Do it; raises ``PipelineError``, ``StoppedError`` and what Spark raises."""
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
        from rsmq_tui.pipeline.ingest import drop_notes, forget, read_notes  # noqa: PLC0415 - it imports Spark

        job = self._job
        held = files_held(history)
        before = manifest_before(history, out, is_full=job.full)
        state = read_state(out) or State()
        if job.full:
            # Should this run not come to its end, the next one is to make all anew as well.
            self._keep(out, replace(state, version=None))
            forget(out)
        whole_again = mended(history, state)
        seen = digest(file for files in held.values() for file in files)
        is_same = (
            before is not None and is_current(state) and state.settings == made_by(job.settings) and not whole_again
        )
        if is_same and not job.full and state.seen == seen and not read_notes(out).files:
            return Outcome(None, out.label, known_problems=len(still_there(state.left_out, held)))
        if state.settings != made_by(job.settings):
            # Until the run is over nobody knows which of the two the tables are made by.
            self._keep(out, replace(state, settings={}))
        notes = self._ingest(history, out, held)
        # What came while Spark was starting may be noted, and its notes go with this run.
        held = files_held(history)
        new = {table: set(notes.names.get(table, ())) for table in TABLES}
        for name in whole_again:
            new[name.partition("/")[0]].add(name)
        is_anew = before is None or job.full or not is_current(state)
        # What is poison is told by day.
        has_other_poison = state.settings.get("poison_rc") != job.settings.poison_rc
        anew = TABLES if is_anew else (MESSAGES,) if has_other_poison else ()
        todo = to_do(history, held, new, before, anew)
        left_out = still_there({name: about for name, about in state.left_out.items() if name not in whole_again}, held)
        if not todo and is_same:
            drop_notes(out, notes)
            self._keep(out, State(VERSION, made_by(job.settings), seen, left_out))
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
        todo: ToDo,
        left_out: dict[str, LeftOut],
        seen: str,
        notes: Any,
    ) -> Outcome:
        from rsmq_tui.pipeline.ingest import drop_notes  # noqa: PLC0415
        from rsmq_tui.pipeline.publishing import merged, remove_old  # noqa: PLC0415
        from rsmq_tui.pipeline.working import Working  # noqa: PLC0415

        assert self.engine is not None
        run = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{secrets.token_hex(3)}"
        working = Working(self.engine.spark, history, out, run, self._job.settings, self._progress, self._begin)
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
            # What tasks still write is removed by the next run.
            if not self._stop.is_set():
                out.remove(f"{RUNS}/{run}")
            raise
        self._begin("publishing")
        manifest = replace(manifest, tables=manifest.tables | {table: about.files for table, about in whole.items()})
        self._check_alone(out, before)
        self._store_manifest(out, manifest)
        self._step("published")
        self._keep(out, State(VERSION, made_by(self._job.settings), seen, both))
        drop_notes(out, notes)
        self._step("notes dropped")
        remove_old(out, manifest, before)
        rows = {table: about.rows for table, about in (made.written | whole).items()}
        new = tuple(problems[name] for name in sorted(made.damaged))
        return Outcome(run, out.label, {table: tuple(worked[table]) for table in TABLES}, rows, new, len(left_out))

    def _ingest(self, history: Folder, out: Folder, held: Held) -> Any:
        from rsmq_tui.pipeline.ingest import note_new_files, read_notes  # noqa: PLC0415

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
        """Return the days whose files are all still there: of another, its tables stay as they were."""
        now = {file.name for file in history.store.files(table)}
        gone = {file.day for file in held if file.name not in now}
        return [day for day in days if day not in gone or before is None or not is_stored(before, table, day)]

    def _check_alone(self, out: Folder, before: Manifest | None) -> None:
        """Where no lock tells of it: raise where somebody else has published meanwhile."""
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
