"""Filters that are taken on: they say of each row what Spark would say, and the others are left to it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
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

from rsmq_tui.pipeline.datasource.messages import ALL_STATES, push

COUNTS = st.integers(-3, 8)
NAMES = st.sampled_from(["", "a", "orders", "orders-2", "ünï", "x\\xff", "ready", "delayed", "in flight"])
COMPARING = [EqualTo, EqualNullSafe, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual]


def filters_on(column: str, values: st.SearchStrategy[Any], kinds: list[Any]) -> st.SearchStrategy[Filter]:
    path = st.just((column,))
    plain = st.one_of(
        *(st.builds(kind, path, values) for kind in kinds),
        st.builds(In, path, st.lists(values, max_size=3).map(tuple)),
        st.builds(IsNull, path),
        st.builds(IsNotNull, path),
    )
    return st.one_of(plain, st.builds(Not, plain))


def is_true(each: Filter, value: Any) -> bool | None:
    """What SQL says of a value, which may be null."""
    match each:
        case Not(child):
            found = is_true(child, value)
            return None if found is None else not found
        case IsNull() | IsNotNull():
            return (value is None) == isinstance(each, IsNull)
        case EqualNullSafe(_, other):
            return bool(value == other)
    if value is None:
        return None
    other = each.value  # type: ignore[attr-defined]
    return bool(
        {
            EqualTo: lambda: value == other,
            GreaterThan: lambda: value > other,
            GreaterThanOrEqual: lambda: value >= other,
            LessThan: lambda: value < other,
            LessThanOrEqual: lambda: value <= other,
            In: lambda: value in other,
            StringStartsWith: lambda: value.startswith(other),
            StringEndsWith: lambda: value.endswith(other),
            StringContains: lambda: other in value,
        }[type(each)]()
    )


@given(st.lists(filters_on("rc", COUNTS, COMPARING), min_size=1, max_size=3), st.lists(st.none() | COUNTS, min_size=1))
def test_counts(filters: list[Filter], counts: list[int | None]) -> None:
    pushed, left = push(filters)

    assert left == []
    assert pushed.wanted_rc(counts) == [all(is_true(each, count) is True for each in filters) for count in counts]


TEXT = [*COMPARING, StringStartsWith, StringEndsWith, StringContains]


@given(st.lists(filters_on("queue", NAMES, TEXT), max_size=3), NAMES)
def test_queues(filters: list[Filter], name: str) -> None:
    pushed, left = push(filters)
    assert left == []
    assert pushed.wants_queue(name) == all(is_true(each, name) is True for each in filters)


@given(st.lists(filters_on("state", NAMES, TEXT), max_size=3))
def test_states(filters: list[Filter]) -> None:
    pushed, left = push(filters)
    assert left == []
    assert pushed.states == {state for state in ALL_STATES if all(is_true(each, str(state)) for each in filters)}


@pytest.mark.parametrize(
    "each",
    [
        EqualTo(("id",), "x"),
        EqualTo(("rc",), "7"),
        EqualTo(("rc",), 2**70),
        EqualTo(("rc",), True),
        GreaterThan(("rc",), 1.5),
        EqualTo(("rc",), None),
        In(("rc",), (1, None)),
        In(("queue",), ("a", None)),
        EqualNullSafe(("state",), None),
        StringContains(("rc",), "7"),
        EqualTo(("queue", "name"), "x"),
        Not(EqualTo(("sent_ms",), 5)),
    ],
)
def test_what_is_left_to_spark(each: Filter) -> None:
    taken = EqualTo(("rc",), 3)
    pushed, left = push([each, taken])
    assert left == [each]
    assert left[0] is each
    assert pushed.rc == (taken,)
