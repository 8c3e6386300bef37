"""Keeps little free memory in programs that run for days, and returns it to the operating system."""

from contextlib import suppress
from functools import cache

# Of glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8


@cache
def keep_little_free() -> None:
    """Let the allocator keep little free memory from now on; without glibc, do nothing.

    Otherwise it raises its limits with each large block that is freed, and has a heap for each of several threads. Most
    of what a dashboard grew by in its first hours was free pieces of these.
    """
    import ctypes  # noqa: PLC0415 - not before the first paint

    with suppress(AttributeError, OSError, TypeError):
        mallopt = ctypes.CDLL(None).mallopt
        for option, value in ((_M_ARENA_MAX, 1), (_M_MMAP_THRESHOLD, 64 * 1024), (_M_TRIM_THRESHOLD, 128 * 1024)):
            mallopt(option, value)


def give_back() -> None:
    """Return the free memory of the heap to the system, in less than a millisecond; without glibc, do nothing.

    The allocator returns only memory at the end of the heap, so the process would grow a little with each peak.
    """
    import ctypes  # noqa: PLC0415 - not before the first paint

    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
