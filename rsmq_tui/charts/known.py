"""What counts as a known number."""

import sys

LARGEST = sys.float_info.max


def known(value: float | None) -> float | None:
    """Return `value` as a finite float, or None for anything a chart must show as unknown.

    Unknown are None, NaN, the infinities, and integers too large for a float.
    """
    return float(value) if value is not None and -LARGEST <= value <= LARGEST else None
