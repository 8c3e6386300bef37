"""Settings, progress and errors of the pipeline, and what it keeps between runs."""

import hashlib
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rsmq_tui.files import parse_json
from rsmq_tui.history.store import SealedFile
from rsmq_tui.pipeline.folder import Folder


@dataclass(frozen=True, slots=True)
class Settings:
    """The thresholds of an analysis."""

    poison_rc: int = 5
    """A message received so often, or more, is poison."""
    depth_limit: int | None = None
    """The depth that a queue should not reach; None for no limit."""
    age_limit_ms: int = 600_000
    """The age that the first ready message of a queue should not reach."""
    anomaly_score: float = 6.0
    """An hour so many robust standard deviations away from what is usual, or more, is an anomaly."""


STATE_FILE = "_state.json"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A file that could not be read: what marks it as it was then, and why."""

    stamp: str
    why: str


@dataclass(slots=True)
class State:
    """How the tables were made: by which version and settings, and from which files; all of it may be unknown."""

    version: int | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    seen: str = ""
    """A digest of the names in the history, as they were before the last run looked for new ones."""
    left_out: dict[str, LeftOut] = field(default_factory=dict)


def read_state(out: Folder) -> State | None:
    """Return what the last run left, or None where no run was begun here; what is damaged is unknown."""
    text = out.store.read(STATE_FILE)
    if text is None:
        return None
    try:
        told = parse_json(text)
        left_out = {
            str(name): LeftOut(str(about["stamp"]), str(about["why"])) for name, about in told["left_out"].items()
        }
        return State(told["version"], dict(told["settings"]), str(told["seen"]), left_out)
    except (ValueError, TypeError, KeyError, AttributeError):
        return State()


def digest(files: Iterable[SealedFile]) -> str:
    """Return a few letters that are others when there are other files."""
    told = hashlib.sha256()
    for name in sorted(file.name for file in files):
        told.update(name.encode("utf-8", "surrogateescape") + b"\0")
    return told.hexdigest()


class PipelineError(Exception):
    """A run that cannot begin, or cannot go on; its text is one sentence."""


class NotInstalledError(PipelineError):
    """Something that has to be installed first."""


class StoppedError(Exception):
    """A run that was asked to end; the tables are those of the previous run."""


class RunProgress(NamedTuple):
    """How far a run is.

    ``share`` is how much of the whole is done, from 0 to 1; ``tasks`` are those of Spark in the present step, done and
    all of them.
    """

    doing: str
    share: float
    tasks: tuple[int, int]


class Progress:
    """Told by the run, and asked by whoever shows it, from another thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._doing = ""
        self._begun = 0
        self._steps = 0
        self._share = 0.0
        self._tasks: Callable[[], tuple[int, int]] = lambda: (0, 0)

    def watch(self, tasks: Callable[[], tuple[int, int]]) -> None:
        """Say who knows how many of Spark's tasks are done."""
        self._tasks = tasks

    def expect(self, steps: int) -> None:
        """Say how many steps are still to begin."""
        with self._lock:
            self._steps = self._begun + steps

    def step(self, doing: str) -> None:
        """Begin a step."""
        with self._lock:
            self._doing = doing
            self._begun += 1
            self._steps = max(self._steps, self._begun)

    def standing(self) -> RunProgress:
        """Return how far it is."""
        try:
            tasks = self._tasks()
        except Exception:
            # Spark may be about to end.
            tasks = (0, 0)
        with self._lock:
            done, total = tasks
            within = done / total if total else 0.0
            share = (max(0, self._begun - 1) + within) / self._steps if self._steps else 0.0
            # More turns out to be to do, and one step has several jobs: what was told is not taken back.
            self._share = max(self._share, min(1.0, share))
            return RunProgress(self._doing, self._share, tasks)
