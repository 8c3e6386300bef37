"""A column that changes from poll to poll holds what a new one would, and arrays of earlier polls stay as they were."""

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from rsmq_tui.history.rows import NumberColumn

_VALUES = st.one_of(st.none(), st.integers(-3, 3), st.just(2**80), st.just("none"))


@given(
    first=st.lists(_VALUES, min_size=1, max_size=20),
    changes=st.lists(st.dictionaries(st.integers(0, 19), _VALUES, max_size=5), max_size=6),
)
@example(first=[1, None], changes=[{0: 2}, {1: 5}, {1: None}, {}])
def test_a_changed_column_is_as_a_new_one(first: list[object], changes: list[dict[int, object]]) -> None:
    column, values = NumberColumn(pa.int64(), first), list(first)
    seen = [(column.array(), column.array().to_pylist())]
    for change in changes:
        rows = [row for row in change if row < len(values)]
        for row in rows:
            values[row] = change[row]
        column.change(rows, [change[row] for row in rows])
        expected = [value if isinstance(value, int) and abs(value) < 2**63 else None for value in values]
        array = column.array()
        assert array.to_pylist() == expected
        assert array.null_count == expected.count(None)
        seen.append((array, expected))
    assert all(array.to_pylist() == expected for array, expected in seen)
