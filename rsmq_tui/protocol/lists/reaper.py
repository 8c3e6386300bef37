"""Loops that reap queues again and again."""

import asyncio
import threading
from collections.abc import Callable, Sequence

from rsmq_tui.protocol.failures import SERVER_ERRORS
from rsmq_tui.protocol.lists.aio import AsyncListQueue
from rsmq_tui.protocol.lists.client import ListQueue
from rsmq_tui.protocol.lists.leasing import GRACE_MS
from rsmq_tui.protocol.lists.values import Reaped

OnReaped = Callable[[str, Reaped], object]
OnError = Callable[[str, Exception], object]


class Reaper:
    """Reaps queues every ``interval_s`` seconds until it is stopped; any number of reapers may run at once.

    ``on_reaped`` is called with the key of a queue in which something was done, and with what. ``on_error`` is called
    with the key and the error where the server could not be asked, and the loop goes on; without it the error is
    raised.
    """

    def __init__(
        self,
        queues: Sequence[ListQueue],
        *,
        interval_s: float = 1.0,
        grace_ms: int = GRACE_MS,
        on_reaped: OnReaped | None = None,
        on_error: OnError | None = None,
    ) -> None:
        self._queues = queues
        self._interval_s = interval_s
        self._grace_ms = grace_ms
        self._on_reaped = on_reaped
        self._on_error = on_error
        self._stopped = threading.Event()

    def run(self) -> None:
        """Reap until ``stop`` is called, which another thread or a signal's handler does."""
        while not self._stopped.is_set():
            for queue in self._queues:
                try:
                    reaped = queue.reap(grace_ms=self._grace_ms)
                except SERVER_ERRORS as error:
                    if self._on_error is None:
                        raise
                    self._on_error(queue.key, error)
                else:
                    if self._on_reaped is not None and any(reaped):
                        self._on_reaped(queue.key, reaped)
            self._stopped.wait(self._interval_s)

    def stop(self) -> None:
        """Let ``run`` return after the queue that it is at."""
        self._stopped.set()


class AsyncReaper:
    """``Reaper`` for asyncio: ``run`` goes on until it is cancelled."""

    def __init__(
        self,
        queues: Sequence[AsyncListQueue],
        *,
        interval_s: float = 1.0,
        grace_ms: int = GRACE_MS,
        on_reaped: OnReaped | None = None,
        on_error: OnError | None = None,
    ) -> None:
        self._queues = queues
        self._interval_s = interval_s
        self._grace_ms = grace_ms
        self._on_reaped = on_reaped
        self._on_error = on_error

    async def run(self) -> None:
        """Reap until cancelled."""
        while True:
            for queue in self._queues:
                try:
                    reaped = await queue.reap(grace_ms=self._grace_ms)
                except SERVER_ERRORS as error:
                    if self._on_error is None:
                        raise
                    self._on_error(queue.key, error)
                else:
                    if self._on_reaped is not None and any(reaped):
                        self._on_reaped(queue.key, reaped)
            await asyncio.sleep(self._interval_s)
