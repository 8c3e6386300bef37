import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from rsmq_tui.charts.drawing import fold_latest, spark_runs, sparklines
from rsmq_tui.charts.series import Series

NUMBERS = st.none() | st.floats() | st.integers(-(10**400), 10**400)


def sparkline(values: Sequence[float | None], width: int) -> str:
    """Draw values, without what is high."""
    return "".join(marks for marks, _ in spark_runs(values, width))


def test_each_step_has_its_block() -> None:
    assert sparkline([0, 0, 0, 0, 0.9, 1.9, 2.9, 3.9, 4.9, 5.9, 6], 11) == "▁▁▁▁▂▃▄▅▆▇▇"


def test_no_row_of_blocks_touches_the_row_above() -> None:
    assert "█" not in sparkline(range(100), 100)


def test_unknown_is_blank_and_zero_is_not() -> None:
    assert sparkline([0, None, 4, math.nan, math.inf, -math.inf, 10**400], 7) == "▁ ▇    "


def test_all_zero_is_the_floor_and_all_unknown_is_blank() -> None:
    assert sparkline([0, 0.0, 0], 3) == "▁▁▁"
    assert sparkline([None, None], 3) == "   "
    assert sparkline([], 3) == "   "


def test_the_smallest_amount_does_not_look_like_zero() -> None:
    assert sparkline([0, 1, 1_000_000], 3) == "▁▂▇"


def test_negative_is_drawn_as_zero() -> None:
    assert sparkline([-5, 5], 2) == "▁▇"


def test_what_stays_the_same_stands_at_half_the_height_and_a_peak_has_room_above_it() -> None:
    assert sparkline([5, 5, 5], 3) == "▄▄▄"
    assert sparkline([5, 5, 5, 10, 5], 5) == "▄▄▄▇▄"
    assert sparkline([5, 5, 5, 50, 5], 5) == "▂▂▂▇▂"


def test_few_values_stand_at_the_right() -> None:
    assert sparkline([7], 4) == "   ▄"


def test_many_values_are_joined_by_their_maximum() -> None:
    assert sparkline([0, 7, 0, 0, None, 1, None, None], 4) == "▇▁▂ "


@pytest.mark.parametrize("width", [0, -1])
def test_no_width_is_empty(width: int) -> None:
    assert sparkline([1, 2], width) == ""


@given(st.lists(NUMBERS, max_size=60), st.integers(1, 40))
def test_width_is_exact(values: list[float | None], width: int) -> None:
    drawn = sparkline(values, width)
    assert cell_len(drawn) == len(drawn) == width


def test_runs_tell_what_is_high_beside_the_rest() -> None:
    assert spark_runs([4, 4, 5, 4, 9, 9, 4], 7) == [("▄▄▅▄", False), ("▇▇", True), ("▄", False)]
    assert spark_runs([4, 4, 4], 5) == [("  ", False), ("▄▄▄", False)]
    assert spark_runs([0, 0, 0, 1, None], 5) == [("▁▁▁", False), ("▇", True), (" ", False)]
    assert spark_runs([None], 2) == [(" ", False), (" ", False)]
    assert spark_runs([], 0) == []


def test_folding_keeps_the_highest_of_each_span() -> None:
    times, values = [0, 59, 60, 61, 120, 180], [1, 5, 2, None, 3, 4]
    assert fold_latest(times, values, end_ms=180, cell_ms=60, cells=3) == [5, 3, 4]
    assert fold_latest(times, values, end_ms=179, cell_ms=60, cells=3) == [5, 2, 3]
    assert fold_latest(times, values, end_ms=1_000, cell_ms=60, cells=3) == [None, None, None]
    assert fold_latest([], [], end_ms=0, cell_ms=60, cells=2) == [None, None]


def test_gaps_stay_gaps_when_folded() -> None:
    points = [(at_ms, None if 4_000 <= at_ms < 7_000 else 1) for at_ms in range(0, 10_001, 500)]
    assert sparklines([Series("a", points)], width=10, start_ms=0, end_ms=10_000) == ["▄▄▄▄   ▄▄▄"]
