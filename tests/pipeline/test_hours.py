"""Which hours are worked and read, and what the footers of files tell of them."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rsmq_tui.history.store import FolderStore
from rsmq_tui.monitor.moments import HOUR_MS
from rsmq_tui.pipeline.work_plan import days_of, hours_in, hours_of, hours_to_read, hours_to_work

DAY, DAY_BEFORE, DAY_AFTER = "2024-10-04", "2024-10-03", "2024-10-05"
MIDNIGHT = 20_000 * 24
NAME = f"samples/day={DAY}/a.parquet"


def test_days_have_hours_and_hours_have_days() -> None:
    assert hours_of([DAY]) == set(range(MIDNIGHT, MIDNIGHT + 24))
    assert days_of(hours_of([DAY_AFTER, DAY])) == [DAY, DAY_AFTER]
    assert days_of([MIDNIGHT - 1, MIDNIGHT]) == [DAY_BEFORE, DAY]
    assert days_of([]) == []


def test_an_hour_is_worked_with_the_one_after_as_far_as_there_is_a_day_of_it() -> None:
    assert hours_to_work([MIDNIGHT + 5], [DAY]) == {MIDNIGHT + 5, MIDNIGHT + 6}
    assert hours_to_work([MIDNIGHT + 23], [DAY]) == {MIDNIGHT + 23}
    assert hours_to_work([MIDNIGHT + 23], [DAY, DAY_AFTER]) == {MIDNIGHT + 23, MIDNIGHT + 24}


@pytest.mark.parametrize("held", [[DAY], [DAY_BEFORE, DAY]])
def test_the_day_before_is_read_for_the_first_hour_alone(held: list[str]) -> None:
    assert hours_to_read({MIDNIGHT, MIDNIGHT + 9}, held) == held
    assert hours_to_read({MIDNIGHT + 1}, held) == [DAY]


def test_the_first_day_of_the_calendar_has_none_before() -> None:
    assert hours_to_read(hours_of(["0001-01-01"]), ["0001-01-01"]) == ["0001-01-01"]


def file_of(folder: Path, table: pa.Table, **options: object) -> FolderStore:
    path = folder / NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, **options)
    return FolderStore(folder)


@pytest.mark.parametrize(
    ("hours", "expected"),
    [
        ([3.0, 3.99], {3}),
        ([5.0, 3.5, 4.999999], {3, 4, 5}),
        ([], set()),
        # What is of other days is no matter of this one.
        ([-2.0, 0.5], {0}),
    ],
)
def test_footers_tell_the_hours(tmp_path: Path, hours: list[float], expected: set[int]) -> None:
    moments = [round((MIDNIGHT + hour) * HOUR_MS) for hour in hours]
    store = file_of(tmp_path, pa.table({"texts": [["a"]] * len(hours), "at_ms": pa.array(moments, pa.int64())}))

    assert hours_in(store, [NAME], "at_ms") == {NAME: {MIDNIGHT + hour for hour in expected}}


def test_groups_of_rows_are_told_one_by_one(tmp_path: Path) -> None:
    moments = pa.array([(MIDNIGHT + hour) * HOUR_MS for hour in (1, 20)], pa.int64())
    store = file_of(tmp_path, pa.table({"at_ms": moments}), row_group_size=1)

    assert hours_in(store, [NAME], "at_ms") == {NAME: {MIDNIGHT + 1, MIDNIGHT + 20}}


def test_a_file_that_does_not_tell_is_of_all_its_day(tmp_path: Path) -> None:
    whole = {NAME: hours_of([DAY])}
    moments = pa.table({"at_ms": pa.array([MIDNIGHT * HOUR_MS], pa.int64())})

    assert hours_in(FolderStore(tmp_path), [NAME], "at_ms") == whole
    assert hours_in(file_of(tmp_path, moments, write_statistics=False), [NAME], "at_ms") == whole
    assert hours_in(file_of(tmp_path, moments), [NAME], "first_ms") == whole
    (tmp_path / NAME).write_bytes(b"damaged")
    assert hours_in(FolderStore(tmp_path), [NAME], "at_ms") == whole
