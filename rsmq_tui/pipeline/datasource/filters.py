"""Filters that a query pushes down: which queues are read, which part of each, and what is dropped before its body.

Spark drops nothing itself of what is taken on here, so that each filter is also applied to what was read.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from rsmq_tui.monitor import MessageState

_INT64_MAX = 2**63 - 1
_COMPARISONS: dict[type[Filter], Callable[[Any, Any], bool]] = {
    EqualTo: lambda value, other: value == other,
    EqualNullSafe: lambda value, other: value == other,
    GreaterThan: lambda value, other: value > other,
    GreaterThanOrEqual: lambda value, other: value >= other,
    LessThan: lambda value, other: value < other,
    LessThanOrEqual: lambda value, other: value <= other,
    In: lambda value, others: value in others,
}
_TEXT_COMPARISONS: dict[type[Filter], Callable[[str, str], bool]] = {
    StringStartsWith: str.startswith,
    StringEndsWith: str.endswith,
    StringContains: str.__contains__,
}
_RC_COMPARISONS: dict[type[Filter], Callable[[pa.Array, pa.Scalar], pa.Array]] = {
    EqualTo: pc.equal,
    GreaterThan: pc.greater,
    GreaterThanOrEqual: pc.greater_equal,
    LessThan: pc.less,
    LessThanOrEqual: pc.less_equal,
}
ALL_STATES = frozenset(MessageState)


@dataclass(frozen=True)
class Pushed:
    """The filters that are taken on: on the queue's name, on the state, and on rc."""

    queue: tuple[Filter, ...] = ()
    rc: tuple[Filter, ...] = ()
    states: frozenset[MessageState] = field(default=ALL_STATES)

    def wants_queue(self, stored: str) -> bool:
        """Tell whether rows of a queue are wanted, by its name as the column holds it."""
        return all(_matches_text(each, stored) for each in self.queue)

    def wanted_rc(self, rc: pa.Array) -> pa.Array | None:
        """Tell for each of some receive counts whether it is wanted; None stands for all of them."""
        wanted: pa.Array | None = None
        for each in self.rc:
            found = pc.fill_null(_matching_rc(each, rc), False)
            wanted = found if wanted is None else pc.and_(wanted, found)
        return wanted


def push(filters: Sequence[Filter]) -> tuple[Pushed, list[Filter]]:
    """Return what is taken on of these filters, and those that are left to Spark."""
    queue: list[Filter] = []
    rc: list[Filter] = []
    states, left = ALL_STATES, []
    for each in filters:
        column, values = _subject(each)
        if column == "queue" and _are(values, str):
            queue.append(each)
        elif column == "state" and _are(values, str):
            states = frozenset(state for state in states if _matches_text(each, str(state)))
        elif column == "rc" and _are(values, int) and _is_about_numbers(each):
            rc.append(each)
        else:
            left.append(each)
    return Pushed(tuple(queue), tuple(rc), states), left


def _subject(each: Filter) -> tuple[str | None, tuple[Any, ...]]:
    """Return which column a filter is about, and the values in it; None for one that is not about one column."""
    if isinstance(each, Not):
        return _subject(each.child) if not isinstance(each.child, Not) else (None, ())
    attribute: tuple[str, ...] = getattr(each, "attribute", ())
    if len(attribute) != 1:
        return None, ()
    if isinstance(each, (IsNull, IsNotNull)):
        return attribute[0], ()
    value: Any = getattr(each, "value", None)
    return attribute[0], tuple(value) if isinstance(each, In) else (value,)


def _are(values: Iterable[Any], kind: type) -> bool:
    return all(
        isinstance(value, kind)
        and not isinstance(value, bool)
        and not (isinstance(value, int) and abs(value) > _INT64_MAX)
        for value in values
    )


def _is_about_numbers(each: Filter) -> bool:
    return not isinstance(each.child if isinstance(each, Not) else each, tuple(_TEXT_COMPARISONS))


def _matches_text(each: Filter, value: str) -> bool:
    """Tell whether a filter is true of a text that is not null."""
    match each:
        case Not():
            return not _matches_text(each.child, value)
        case IsNull():
            return False
        case IsNotNull():
            return True
    compare = _COMPARISONS.get(type(each)) or _TEXT_COMPARISONS[type(each)]
    # Spark orders texts by their bytes, Python by their characters: of valid UTF-8 that is the same order.
    return compare(value, each.value)  # type: ignore[attr-defined] # all but those above have one


def _matching_rc(each: Filter, rc: pa.Array) -> pa.Array:
    """Tell for each count whether a filter is true of it; null where that is unknown."""
    match each:
        case Not():
            return pc.invert(_matching_rc(each.child, rc))
        case IsNull():
            return pc.is_null(rc)
        case IsNotNull():
            return pc.is_valid(rc)
        case In():
            # is_in says False of a null, which a Not around it would turn into True.
            found = pc.is_in(rc, value_set=pa.array(each.value, pa.int64()))
            return pc.if_else(pc.is_valid(rc), found, pa.scalar(None, pa.bool_()))
        case EqualNullSafe():
            return pc.fill_null(pc.equal(rc, pa.scalar(each.value, pa.int64())), False)
    value: int = each.value  # type: ignore[attr-defined] # all but those above have one
    return _RC_COMPARISONS[type(each)](rc, pa.scalar(value, pa.int64()))
