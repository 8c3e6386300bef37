"""Memory that was used for a moment, given back to the system."""

from contextlib import suppress


def give_back() -> None:
    """Return what is free of the heap to the system, in less than a millisecond; nothing happens without glibc.

    The allocator itself returns only what is free at its end, so each moment that takes a lot adds a little for ever.
    """
    import ctypes  # noqa: PLC0415 - not before the first paint

    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
