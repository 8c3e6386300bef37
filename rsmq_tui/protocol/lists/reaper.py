"""Loops that reap at an interval: a reaper returns items whose lease has expired to their queue."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Generic, TypeVar

from rsmq_tui.protocol.errors import SERVER_ERRORS
from rsmq_tui.protocol.lists.client import AsyncListQueue, ListQueue
from rsmq_tui.protocol.lists.operations import GRACE_MS, Reaped

Q = TypeVar("Q")
OnReaped = Callable[[str, Reaped], object]
OnError = Callable[[str, Exception], object]


@dataclass(eq=False)
class _Loop(Generic[Q]):
    """The queues and the settings of a loop that reaps."""

    queues: Sequence[Q]
    _: KW_ONLY
    interval_s: float = 1.0
    grace_ms: int = GRACE_MS
    on_reaped: OnReaped | None = None
    on_error: OnError | None = None

    def _tell(self, key: str, reaped: Reaped) -> None:
        if self.on_reaped is not None and any(reaped):
            self.on_reaped(key, reaped)

    def _tell_error(self, key: str, error: Exception) -> None:
        """Call ``on_error``, or raise the error if there is none."""
        if self.on_error is None:
            raise error
        self.on_error(key, error)


@dataclass(eq=False)
class Reaper(_Loop[ListQueue]):
    """Reaps queues every ``interval_s`` seconds until it is stopped; any number of reapers may run at once.

    ``on_reaped`` is called with the key of a queue and the result, if anything was reaped. ``on_error`` is called with
    the key and the error if the server cannot be asked, and the loop goes on; without it the error is raised.
    """

    _stopped: threading.Event = field(init=False, default_factory=threading.Event)

    def run(self) -> None:
        """Reap until ``stop`` is called, by another thread or a signal handler."""
        while not self._stopped.is_set():
            for queue in self.queues:
                try:
                    reaped = queue.reap(grace_ms=self.grace_ms)
                except SERVER_ERRORS as error:
                    self._tell_error(queue.key, error)
                else:
                    self._tell(queue.key, reaped)
            self._stopped.wait(self.interval_s)

    def stop(self) -> None:
        """Make ``run`` return after the current queue."""
        self._stopped.set()


class AsyncReaper(_Loop[AsyncListQueue]):
    """``Reaper`` for asyncio: ``run`` goes on until it is cancelled."""

    async def run(self) -> None:
        """Reap until cancelled."""
        while True:
            for queue in self.queues:
                try:
                    reaped = await queue.reap(grace_ms=self.grace_ms)
                except SERVER_ERRORS as error:
                    self._tell_error(queue.key, error)
                else:
                    self._tell(queue.key, reaped)
            await asyncio.sleep(self.interval_s)
