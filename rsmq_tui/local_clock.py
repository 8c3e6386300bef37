"""The clock of this machine: when this program did something. All other times are those of the server."""

import time


def now_ms() -> int:
    """Return the local time in ms since 1970."""
    return time.time_ns() // 1_000_000
