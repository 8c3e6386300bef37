"""Settings, progress and errors of the pipeline."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


@dataclass(frozen=True, slots=True)
class AnalysisSettings:
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
    expected: dict[str, list[list[Any]]] = field(default_factory=dict)
    """The fields of ``Expected`` by profile, as lists, which JSON can hold."""


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
    """Updated by the run, and read by the display from another thread.

    Each step has a weight: about how long it takes, compared with the others.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._doing = ""
        self._done = self._weight = self._ahead = 0.0
        self._share = 0.0
        self._stages = 0
        self._last = (0, 0)
        self._tasks: Callable[[], tuple[int, int]] = lambda: (0, 0)

    def watch(self, tasks: Callable[[], tuple[int, int]]) -> None:
        """Set the function that returns the done and all Spark tasks."""
        self._tasks = tasks

    def expect(self, weight: float) -> None:
        """Set the weight of all steps that follow."""
        with self._lock:
            self._ahead = weight

    def step(self, doing: str, weight: float = 1.0) -> None:
        """Begin a step."""
        with self._lock:
            self._doing = doing
            self._done += self._weight
            self._weight = weight
            self._ahead = max(0.0, self._ahead - weight)
            self._stages, self._last = 0, (0, 0)

    def current(self) -> RunProgress:
        """Return the current progress."""
        try:
            tasks = self._tasks()
        except Exception:
            # Spark may be shutting down.
            tasks = (0, 0)
        with self._lock:
            done, total = tasks
            if self._last[1] and (total != self._last[1] or done < self._last[0]):
                self._stages += 1
            self._last = tasks
            # How many stages a step has is unknown: each takes half of what is left.
            within = 1 - 0.5**self._stages * (1 - (done / total if total else 0.0) / 2)
            all_ = self._done + self._weight + self._ahead
            share = (self._done + within * self._weight) / all_ if all_ else 0.0
            # The share never falls, although steps may be added.
            self._share = max(self._share, min(1.0, share))
            return RunProgress(self._doing, self._share, tasks)
