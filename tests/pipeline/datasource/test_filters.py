"""Filters that are taken on: they say of each row what Spark would say, and the others are left to it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import datasource

from rsmq_tui.pipeline.datasource.messages import ALL_STATES, push

COUNTS = st.integers(-3, 8)
NAMES = st.sampled_from(["", "a", "orders", "orders-2", "ünï", "x\\xff", "ready", "delayed", "in flight"])
COMPARING = [
    datasource.EqualTo,
    datasource.EqualNullSafe,
    datasource.GreaterThan,
    datasource.GreaterThanOrEqual,
    datasource.LessThan,
    datasource.LessThanOrEqual,
]


def filters_on(column: str, values: st.SearchStrategy[Any], kinds: list[Any]) -> st.SearchStrategy[datasource.Filter]:
    path = st.just((column,))
    plain = st.one_of(
        *(st.builds(kind, path, values) for kind in kinds),
        st.builds(datasource.In, path, st.lists(values, max_size=3).map(tuple)),
        st.builds(datasource.IsNull, path),
        st.builds(datasource.IsNotNull, path),
    )
    return st.one_of(plain, st.builds(datasource.Not, plain))


def is_true(each: datasource.Filter, value: Any) -> bool | None:
    """What SQL says of a value, which may be null."""
    match each:
        case datasource.Not(child):
            found = is_true(child, value)
            return None if found is None else not found
        case datasource.IsNull() | datasource.IsNotNull():
            return (value is None) == isinstance(each, datasource.IsNull)
        case datasource.EqualNullSafe(_, other):
            return bool(value == other)
    if value is None:
        return None
    other = each.value  # type: ignore[attr-defined]
    return bool(
        {
            datasource.EqualTo: lambda: value == other,
            datasource.GreaterThan: lambda: value > other,
            datasource.GreaterThanOrEqual: lambda: value >= other,
            datasource.LessThan: lambda: value < other,
            datasource.LessThanOrEqual: lambda: value <= other,
            datasource.In: lambda: value in other,
            datasource.StringStartsWith: lambda: value.startswith(other),
            datasource.StringEndsWith: lambda: value.endswith(other),
            datasource.StringContains: lambda: other in value,
        }[type(each)]()
    )


@given(st.lists(filters_on("rc", COUNTS, COMPARING), min_size=1, max_size=3), st.lists(st.none() | COUNTS, min_size=1))
def test_counts(filters: list[datasource.Filter], counts: list[int | None]) -> None:
    pushed, left = push(filters)

    assert left == []
    assert pushed.wanted_rc(counts) == [all(is_true(each, count) is True for each in filters) for count in counts]


TEXT = [*COMPARING, datasource.StringStartsWith, datasource.StringEndsWith, datasource.StringContains]


@given(st.lists(filters_on("queue", NAMES, TEXT), max_size=3), NAMES)
def test_queues(filters: list[datasource.Filter], name: str) -> None:
    pushed, left = push(filters)
    assert left == []
    assert pushed.wants_queue(name) == all(is_true(each, name) is True for each in filters)


@given(st.lists(filters_on("state", NAMES, TEXT), max_size=3))
def test_states(filters: list[datasource.Filter]) -> None:
    pushed, left = push(filters)
    assert left == []
    assert pushed.states == {state for state in ALL_STATES if all(is_true(each, str(state)) for each in filters)}


@pytest.mark.parametrize(
    "each",
    [
        datasource.EqualTo(("id",), "x"),
        datasource.EqualTo(("rc",), "7"),
        datasource.EqualTo(("rc",), 2**70),
        datasource.EqualTo(("rc",), True),
        datasource.GreaterThan(("rc",), 1.5),
        datasource.EqualTo(("rc",), None),
        datasource.In(("rc",), (1, None)),
        datasource.In(("queue",), ("a", None)),
        datasource.EqualNullSafe(("state",), None),
        datasource.StringContains(("rc",), "7"),
        datasource.EqualTo(("queue", "name"), "x"),
        datasource.Not(datasource.EqualTo(("sent_ms",), 5)),
    ],
)
def test_what_is_left_to_spark(each: datasource.Filter) -> None:
    taken = datasource.EqualTo(("rc",), 3)
    pushed, left = push([each, taken])
    assert left == [each]
    assert left[0] is each
    assert pushed.rc == (taken,)
