"""Columns that are kept from poll to poll: a value that changes costs one store, whatever the number of rows."""

from array import array
from collections.abc import Iterable, Sequence
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
        # A byte for each value, 1 where it is known.
        self._known = bytearray(self._count)
        self.change(range(self._count), values)

    def change(self, ats: Sequence[int], values: Iterable[Any]) -> None:
        """Change the values at these places."""
        kept, known = self._values, self._known
        for at, value in zip(ats, values, strict=True):
            try:
                kept[at] = value
                known[at] = 1
            except (OverflowError, TypeError):
                fitted = None if value is None else self._fitted(value)
                known[at] = fitted is not None
                if fitted is not None:
                    kept[at] = fitted  # type: ignore[assignment]  # the fitting one of two types

    def array(self) -> pa.Array:
        """Return the values as they are now."""
        known = None
        if 0 in self._known:
            bytes_ = pa.Array.from_buffers(pa.uint8(), self._count, [None, pa.py_buffer(self._known)])
            # As Arrow keeps it: a bit for each.
            known = bytes_.cast(pa.bool_()).buffers()[1]
        return pa.Array.from_buffers(self._type, self._count, [known, pa.py_buffer(self._values.tobytes())])


class ValueColumn:
    """A column of anything else."""

    def __init__(self, type_: pa.DataType, values: Sequence[Any]) -> None:
        self._type = type_
        self._values = list(values)

    def change(self, ats: Sequence[int], values: Iterable[Any]) -> None:
        """Change the values at these places."""
        kept = self._values
        for at, value in zip(ats, values, strict=True):
            kept[at] = value

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
