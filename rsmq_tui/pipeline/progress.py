"""How far a run is: what it does now, and how much of the whole is done."""

import threading
from collections.abc import Callable
from typing import NamedTuple


class Standing(NamedTuple):
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

    def standing(self) -> Standing:
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
            return Standing(self._doing, self._share, tasks)
