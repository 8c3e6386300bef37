"""Numbers that look random and are the same each time: a function of what they are for."""

_MASK = (1 << 64) - 1


def mixed(*parts: int) -> int:
    """Return 64 bits that depend on all of these numbers."""
    found = 0x9E3779B97F4A7C15
    for part in parts:
        # The finish of splitmix64.
        found = (found ^ part) * 0xBF58476D1CE4E5B9 & _MASK
        found = (found ^ found >> 27) * 0x94D049BB133111EB & _MASK
        found ^= found >> 31
    return found


def share(*parts: int) -> float:
    """Return a number from 0 up to 1 that depends on all of these."""
    return mixed(*parts) / 2.0**64


def between(least: float, most: float, *parts: int) -> float:
    """Return a number in between that depends on all of these."""
    return least + (most - least) * share(*parts)
