"""Settings, progress and errors of the pipeline, and what it keeps between runs."""

import hashlib
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rsmq_tui.files import parse_json
from rsmq_tui.history.store import SealedFile
from rsmq_tui.pipeline.folder import Folder


@dataclass(frozen=True, slots=True)
class Settings:
    """The thresholds of an analysis."""

    poison_rc: int = 5
    """A message received at least this often is poison."""
    depth_limit: int | None = None
    """The depth that a queue should not reach; None for no limit."""
    age_limit_ms: int = 600_000
    """The age that the first ready message of a queue should not reach."""
    anomaly_score: float = 6.0
    """An hour at least this many robust standard deviations from the median is an anomaly."""
    zone: str = "UTC"
    """The time zone of the hours of the week."""
    zones: Mapping[str, str] = field(default_factory=dict)
    """The time zones of profiles by name, in place of ``zone``."""


STATE_FILE = "_state.json"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A file that could not be read: its stamp at that time, and the reason."""

    stamp: str
    why: str


@dataclass(slots=True)
class State:
    """How the tables were computed: version, settings and files; all of it may be unknown."""

    version: int | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    seen: str = ""
    """A digest of the file names in the history before the last run searched for new ones."""
    left_out: dict[str, LeftOut] = field(default_factory=dict)


def read_state(out: Folder) -> State | None:
    """Return the state of the last run, or None if there was none; damaged parts are unknown."""
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
    """Return a short digest of the names of files."""
    told = hashlib.sha256()
    for name in sorted(file.name for file in files):
        told.update(name.encode("utf-8", "surrogateescape") + b"\0")
    return told.hexdigest()


class PipelineError(Exception):
    """A run that cannot start or continue; its text is one sentence."""


class NotInstalledError(PipelineError):
    """A requirement that is not installed."""


class StoppedError(Exception):
    """A run that was stopped on request; the tables are those of the previous run."""


class RunProgress(NamedTuple):
    """The progress of a run.

    ``share`` is the completed part, from 0 to 1; ``tasks`` are the done and all Spark tasks of the current step.
    """

    doing: str
    share: float
    tasks: tuple[int, int]


class Progress:
    """Updated by the run, and read by the display from another thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._doing = ""
        self._begun = 0
        self._steps = 0
        self._share = 0.0
        self._tasks: Callable[[], tuple[int, int]] = lambda: (0, 0)

    def watch(self, tasks: Callable[[], tuple[int, int]]) -> None:
        """Set the function that returns the done and all Spark tasks."""
        self._tasks = tasks

    def expect(self, steps: int) -> None:
        """Set the number of remaining steps."""
        with self._lock:
            self._steps = self._begun + steps

    def step(self, doing: str) -> None:
        """Begin a step."""
        with self._lock:
            self._doing = doing
            self._begun += 1
            self._steps = max(self._steps, self._begun)

    def standing(self) -> RunProgress:
        """Return the current progress."""
        try:
            tasks = self._tasks()
        except Exception:
            # Spark may be shutting down.
            tasks = (0, 0)
        with self._lock:
            done, total = tasks
            within = done / total if total else 0.0
            share = (max(0, self._begun - 1) + within) / self._steps if self._steps else 0.0
            # The share never falls, although steps may be added and a step has several jobs.
            self._share = max(self._share, min(1.0, share))
            return RunProgress(self._doing, self._share, tasks)
