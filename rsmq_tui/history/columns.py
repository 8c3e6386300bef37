"""Columns that are kept from poll to poll: a value that changes costs one store, whatever the number of rows."""

from array import array
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

_WHOLE_MAX = 2**63 - 1


class NumberColumn:
    """A column of whole numbers or floats; a number that fits into none, which clients may write, is unknown."""

    def __init__(self, type_: pa.DataType, values: Sequence[Any]) -> None:
        self._type = type_
        self._fitted = as_float if pa.types.is_floating(type_) else as_whole
        self._count = len(values)
        self._values = array("d" if pa.types.is_floating(type_) else "q", bytes(8 * self._count))
        # A bit for each value that is known, as Arrow keeps it.
        self._known = bytearray((self._count + 7) // 8)
        for at, value in enumerate(values):
            if value is not None:
                self.set(at, value)

    def set(self, at: int, value: Any) -> None:
        """Change one value."""
        byte, bit = at >> 3, 1 << (at & 7)
        try:
            if value is not None:
                self._values[at] = value
                self._known[byte] |= bit
                return
        except (OverflowError, TypeError):
            fitted = self._fitted(value)
            if fitted is not None:
                self.set(at, fitted)
                return
        self._known[byte] &= ~bit

    def array(self) -> pa.Array:
        """Return the values as they are now."""
        buffers = [pa.py_buffer(bytes(self._known)), pa.py_buffer(self._values.tobytes())]
        return pa.Array.from_buffers(self._type, self._count, buffers)


class ValueColumn:
    """A column of anything else."""

    def __init__(self, type_: pa.DataType, values: Sequence[Any]) -> None:
        self._type = type_
        self._values = list(values)

    def set(self, at: int, value: Any) -> None:
        """Change one value."""
        self._values[at] = value

    def array(self) -> pa.Array:
        """Return the values as they are now."""
        return pa.array(self._values, self._type)


def column_of(type_: pa.DataType, values: Sequence[Any]) -> NumberColumn | ValueColumn:
    """Return a column of that type."""
    is_number = pa.types.is_integer(type_) or pa.types.is_floating(type_)
    return NumberColumn(type_, values) if is_number else ValueColumn(type_, values)


def array_of(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    """Return values that are not kept."""
    try:
        return pa.array(values, type_)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return column_of(type_, values).array()


def repeated(value: Any, type_: pa.DataType, count: int) -> pa.Array:
    """Return the same value many times."""
    return pa.nulls(count, type_) if value is None else pa.repeat(pa.scalar(value, type_), count)


def as_whole(value: Any) -> int | None:
    """Return a number as a column of whole ones can hold it, or None."""
    try:
        whole = int(value)
    except (OverflowError, TypeError, ValueError):
        return None
    return whole if -_WHOLE_MAX <= whole <= _WHOLE_MAX else None


def as_float(value: Any) -> float | None:
    """Return a number as a float, or None."""
    try:
        return float(value)
    except (OverflowError, TypeError, ValueError):
        return None
