"""Returns free memory to the operating system."""

from contextlib import suppress


def give_back() -> None:
    """Return the free memory of the heap to the system, in less than a millisecond; without glibc, do nothing.

    The allocator returns only memory at the end of the heap, so the process would grow a little with each peak.
    """
    import ctypes  # noqa: PLC0415 - not before the first paint

    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
