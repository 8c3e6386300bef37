"""Ending when the program is told to from outside."""

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress


def end_on_signals(end: Callable[[int], None]) -> None:
    """Give the terminal back before the program ends because it was told to, or because the terminal is gone.

    ``end`` is given the exit status.
    """
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        # nohup ignores SIGHUP, and so do we then.
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            with suppress(NotImplementedError, RuntimeError, ValueError):
                asyncio.get_running_loop().add_signal_handler(number, end, 128 + number)
