"""How the server and the workload live: started once, stopped once, at the latest when this process ends."""

import atexit
import os
import subprocess
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import ClassVar, Generic, Self, TypeVar

from rsmq_tui.embedded.errors import EmbeddedError


@dataclass(frozen=True, slots=True)
class Running:
    """A process, and the process that it belongs to."""

    process: subprocess.Popen[bytes]
    owner_pid: int


R = TypeVar("R", bound=Running)


class Lifetime(ABC, Generic[R]):
    """A process that lives as long as the ``with`` block; subclasses say how it starts and ends.

    Methods may be called from any thread. ``WHAT`` is its name in sentences.
    """

    WHAT: ClassVar[str]

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._running: R | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """The process id; raises ``EmbeddedError`` when it was not started."""
        return self._started().process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process is there."""
        running = self._running
        return running is not None and running.process.poll() is None

    @abstractmethod
    def start(self) -> None:
        """Start it; one that runs is left alone."""

    def stop(self) -> None:
        """Stop it; does nothing when it is not running, or in a forked child."""
        running = self._running
        if running is None or running.owner_pid != os.getpid():
            return
        with self._lock:
            if self._running is None:
                return
            self._running = None
            atexit.unregister(self.stop)
            self._end(running)

    def _start(self, spawn: Callable[[], R]) -> None:
        with self._lock:
            if self.is_running:
                return
            # What is left of one that ended by itself.
            self.stop()
            self._running = spawn()
            atexit.register(self.stop)

    def _started(self) -> R:
        running = self._running
        if running is None:
            raise EmbeddedError(f"The {self.WHAT} is not running.")
        return running

    @abstractmethod
    def _end(self, running: R) -> None:
        """End what ``_start`` spawned, and clear up."""
