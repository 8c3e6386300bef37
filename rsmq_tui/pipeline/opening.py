"""What a run finds: the two folders, whether it is alone, what is held, and how the run before left things."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from rsmq_tui.history.analysis.manifest import Manifest, read_manifest
from rsmq_tui.history.analysis.schema import RUNS
from rsmq_tui.history.errors import HistoryError, told
from rsmq_tui.history.reading import History
from rsmq_tui.history.store import SealedFile
from rsmq_tui.locks import FileLock
from rsmq_tui.pipeline.days import TABLES, day_in
from rsmq_tui.pipeline.errors import PipelineError
from rsmq_tui.pipeline.folder import Folder
from rsmq_tui.pipeline.state import STATE_FILE, LeftOut, State, read_state, write_state

_LOCK_FILE = "_lock"


def open_folders(history_at: str, out_at: str, state: Path) -> tuple[Folder, Folder]:
    """Return the history, and the folder for its tables, which is made; raises ``PipelineError``, ``HistoryError``."""
    # It says in a sentence what is wrong with a history.
    History(history_at, state=state)
    history, out = Folder(history_at, state), Folder(out_at, state)
    if out.is_within(history):
        raise PipelineError(f"{out.label} is inside the history: choose another folder for --out")
    try:
        out.store.prepare()
    except Exception as error:
        # Each kind of filesystem has errors of its own.
        raise PipelineError(told(error, out.label)) from error
    return history, out


@contextmanager
def alone(out: Folder) -> Iterator[None]:
    """Be the only run on a folder; raises ``PipelineError`` where another is. A URL cannot be locked."""
    if out.path is None:
        yield
        return
    try:
        lock = FileLock.acquire(out.path / _LOCK_FILE)
    except OSError as error:
        raise PipelineError(told(error, out.label)) from error
    if lock is None:
        raise PipelineError(f"another run is writing {out.label}: wait until it ends")
    try:
        yield
    finally:
        lock.release()


def claim(out: Folder, state: Path) -> None:
    """Mark a folder as that of an analysis; raises ``PipelineError`` for one that holds anything else.

    Files in it that no manifest names are removed later on: they must not be somebody else's.
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
        raise PipelineError(told(error, out.label)) from error


def files_held(history: Folder) -> dict[str, list[SealedFile]]:
    """Return the files that the history holds of each table; raises ``PipelineError``."""
    try:
        return {
            table: [file for file in history.store.files(table) if day_in(file.name) is not None] for table in TABLES
        }
    except Exception as error:
        said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise PipelineError(f"{history.label} cannot be read: {said}") from error


def manifest_before(history: Folder, out: Folder, *, is_full: bool) -> Manifest | None:
    """Return the manifest of the last run, or None where all is to be made anew; raises as ``read_manifest``."""
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
    """Return a manifest whose files are all there; raises where some are not, unless a full run does without."""
    there = {file.name for file in out.files(RUNS)}
    lost = [name for table in manifest.tables for name in manifest.files(table) if name not in there]
    if lost and not is_full:
        raise PipelineError(f"{out.label}/{lost[0]} is missing: run the pipeline with --full to build its tables again")
    kept = {
        table: {day: names for day, names in days.items() if there.issuperset(names)}
        for table, days in manifest.tables.items()
    }
    return replace(manifest, tables=kept)


def mended(history: Folder, state: State) -> Sequence[str]:
    """Return the files that were left out, and that are others by now."""
    return [name for name, about in state.left_out.items() if history.stamp(name) not in (about.stamp, None)]


def still_there(left_out: Mapping[str, LeftOut], held: Mapping[str, Sequence[SealedFile]]) -> dict[str, LeftOut]:
    """Return what was left out and is still in the history."""
    names = {file.name for files in held.values() for file in files}
    return {name: about for name, about in left_out.items() if name in names}


def keep(out: Folder, state: State, folder: Path) -> None:
    """Keep what the next run is to know; ``folder`` is the user's."""
    with scratch_for(out, folder, STATE_FILE) as scratch:
        write_state(out, state, scratch)


@contextmanager
def scratch_for(out: Folder, state: Path, name: str) -> Iterator[Path]:
    """Give a path to write a file to before it is renamed; ``state`` is the user's folder, for what is not local."""
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
