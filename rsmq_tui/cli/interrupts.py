"""Signals: the first Ctrl+C requests an orderly end, each further one a quicker end."""

import asyncio
import signal
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any

from rsmq_tui.cli.errors import EXIT_INTERRUPTED


class Interrupts:
    """The effect of Ctrl+C on a command: it calls ``gently`` once if that is set, else it cancels the command."""

    def __init__(self, task: "asyncio.Task[Any]") -> None:
        self.gently: Callable[[], None] | None = None
        self.taken = False
        self._task = task

    def interrupt(self) -> None:
        """Take one Ctrl+C."""
        self.taken = True
        gently, self.gently = self.gently, None
        if gently is not None:
            gently()
        else:
            self._task.cancel()


def call_at(number: signal.Signals, call: Callable[[], object]) -> None:
    """Call a function on each of these signals, in the running loop.

    On Windows, and in threads other than the main one, such handlers are impossible: there asyncio or the system ends
    the command.
    """
    with suppress(NotImplementedError, RuntimeError, ValueError):
        asyncio.get_running_loop().add_signal_handler(number, call)


def call_at_end(call: Callable[[], object]) -> None:
    """Call a function on each signal that ends a program; a signal that nohup ignores stays ignored."""
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            call_at(number, call)


async def run_until_ended(interrupts: Interrupts, jobs: Iterable[Coroutine[Any, Any, None]]) -> int:
    """Run endless jobs until one of them fails or a signal ends them; return the exit status."""
    stop = asyncio.Event()
    interrupts.gently = stop.set
    call_at_end(stop.set)
    tasks = [asyncio.create_task(job) for job in jobs]
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([stopping, *tasks], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (stopping, *tasks):
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    for error in ended:
        if isinstance(error, Exception):
            raise error
    return EXIT_INTERRUPTED if interrupts.taken else 0


def run_interruptibly(command: Callable[[Interrupts], Coroutine[Any, Any, int]], *, runs_for_days: bool = False) -> int:
    """Run a command to its end and return its exit status, 130 if it was interrupted.

    One that runs for days keeps little free memory.
    """
    if runs_for_days:
        from rsmq_tui.heap import keep_little_free  # noqa: PLC0415 - other commands need none of it

        # Before any thread begins: each would have a heap of its own.
        keep_little_free()

    async def run() -> int:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("no task")
        interrupts = Interrupts(task)
        call_at(signal.SIGINT, interrupts.interrupt)
        return await command(interrupts)

    try:
        return asyncio.run(run())
    except asyncio.CancelledError:
        return EXIT_INTERRUPTED
