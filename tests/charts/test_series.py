import math
from collections.abc import Sequence

import pytest

from rsmq_tui.charts.series import ChartSpan, Run, Series, fold_runs, reduce_run, split_runs

MINUTE = ChartSpan(0, 60_000)


Points = Sequence[tuple[int, float | None]]


def times(points: Points, resolution_ms: float = 250.0, span: ChartSpan = MINUTE) -> list[Sequence[int]]:
    return [run.times_ms for run in split_runs(Series("s", points), span, resolution_ms)]


def every(step_ms: int, *ranges: tuple[int, int]) -> Points:
    return [(at_ms, 1.0) for begin, end in ranges for at_ms in range(begin, end, step_ms)]


def test_unknown_values_split() -> None:
    points = [(0, 1), (1000, None), (2000, 2), (3000, 3), (4000, math.nan), (5000, math.inf), (6000, 4)]
    assert split_runs(Series("s", points), MINUTE, 250) == [
        Run([0], [1.0]),
        Run([2000, 3000], [2.0, 3.0]),
        Run([6000], [4.0]),
    ]


def test_missing_samples_split() -> None:
    runs = times(every(1000, (0, 20_000), (30_000, 50_000)))
    assert [(run[0], run[-1]) for run in runs] == [(0, 19_000), (30_000, 49_000)]


def test_a_late_sample_does_not_split() -> None:
    assert len(times([*every(1000, (0, 10_000)), *every(1000, (11_500, 20_000))])) == 1


def test_a_hole_too_small_to_see_does_not_split() -> None:
    assert len(times(every(100, (0, 20_000), (20_500, 50_000)), resolution_ms=1000)) == 1


def test_a_slower_interval_is_no_hole() -> None:
    assert len(times([*every(10_000, (0, 50_000)), *every(1000, (50_000, 60_000))])) == 1


def test_points_outside_are_left_out_and_order_does_not_matter() -> None:
    assert times([(70_000, 1), (2000, 1), (1000, 1), (-1, 1), (60_000, 1)], resolution_ms=60_000) == [
        [1000, 2000, 60_000]
    ]


@pytest.mark.parametrize("points", [[], [(0, None)], [(90_000, 1)]])
def test_nothing_known(points: Points) -> None:
    assert times(points) == []


def test_columns_keep_their_extremes_in_order() -> None:
    run = Run([0, 1, 2, 3, 50, 51, 52, 99, 100], [5, 9, 1, 5, 2, 8, 3, 4, 4])
    assert list(reduce_run(run, ChartSpan(0, 100), 2)) == [(0, 9), (0, 1), (1, 2), (1, 8)]


def test_a_single_point_and_the_ends() -> None:
    assert list(reduce_run(Run([0], [5.0]), ChartSpan(0, 100), 10)) == [(0, 5)]
    assert list(reduce_run(Run([0, 100], [5.0, 6.0]), ChartSpan(0, 100), 10)) == [(0, 5), (9, 6)]


@pytest.mark.parametrize("count", [1, 2, 7, 100, 7201])
@pytest.mark.parametrize("columns", [1, 3, 40, 480])
def test_reduction_keeps_the_peak_and_bounds_the_cost(count: int, columns: int) -> None:
    span = ChartSpan(1_700_000_000_000, 1_700_000_600_000)
    run = Run(
        [span.start_ms + index * span.length_ms // count for index in range(count)],
        [float(index * 7919 % 1009) for index in range(count)],
    )
    reduced = list(reduce_run(run, span, columns))
    assert len(reduced) <= min(count, 2 * columns)
    assert max(value for _, value in reduced) == max(run.values)
    assert [column for column, _ in reduced] == sorted(column for column, _ in reduced)
    assert all(0 <= column < columns for column, _ in reduced)


def test_folding_holds_values_between_points_but_not_across_gaps() -> None:
    runs = [Run([0, 45], [1.0, 3.0]), Run([95], [2.0])]
    assert fold_runs(runs, ChartSpan(0, 100), 10) == [1, 1, 1, 1, 3, None, None, None, None, 2]
