"""Which hours of samples have to be worked anew, and which samples that takes.

An hour is a number: how many were over since 1970, UTC.
"""

from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta

import pyarrow.parquet as pq

from rsmq_tui.history.store import Store
from rsmq_tui.pipeline.days import midnight_ms, shifted

HOUR_MS = 3_600_000
_A_DAY = 24
_AT_ONCE = 8


def hours_of(days: Iterable[str]) -> set[int]:
    """Return all hours of some days."""
    return {midnight_ms(day) // HOUR_MS + hour for day in days for hour in range(_A_DAY)}


def days_of(hours: Iterable[int]) -> list[str]:
    """Return the days that some hours are of."""
    return [(date(1970, 1, 1) + timedelta(number)).isoformat() for number in sorted({hour // _A_DAY for hour in hours})]


def to_work(touched: Iterable[int], held: Iterable[str]) -> set[int]:
    """Return the hours to work anew where samples of some hours are new, of the days that the history holds.

    The first samples of an hour may follow on the last ones of the hour before.
    """
    return {hour for one in touched for hour in (one, one + 1)} & hours_of(held)


def to_read(hours: Collection[int], held: Collection[str]) -> list[str]:
    """Return the days to read for working some hours: an hour needs the one before."""
    wanted = set(days_of(hours))
    before = {shifted(day, -1) for day in wanted if midnight_ms(day) // HOUR_MS in hours}
    return sorted((wanted | before).intersection(held))


def hours_in(store: Store, names: Sequence[str], column: str) -> dict[str, set[int]]:
    """Return the hours of the rows in each of some files, by a column that holds moments.

    Where a file does not tell, it is all hours of its day: its folder's name.
    """
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return dict(zip(names, pool.map(lambda name: _hours_in(store, name, column), names), strict=True))


def _hours_in(store: Store, name: str, column: str) -> set[int]:
    whole = hours_of([name.rsplit("/", 2)[-2].removeprefix("day=")])
    try:
        with pq.ParquetFile(store.open(name)) as file:
            spans = _spans_in(file.metadata, column)
    except Exception:
        # Whatever is wrong with it, it is found and told when it is read to its end.
        return whole
    return {hour for hour in whole for first_ms, last_ms in spans if first_ms // HOUR_MS <= hour <= last_ms // HOUR_MS}


def _spans_in(footer: pq.FileMetaData, column: str) -> list[tuple[int, int]]:
    """Return the first and the last moment of each group of rows; raises where one does not tell."""
    place = next(number for number in range(footer.num_columns) if footer.schema.column(number).path == column)
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    told = [group.column(place).statistics for group in groups if group.num_rows]
    if not all(one is not None and one.has_min_max for one in told):
        raise ValueError("not all is told")
    return [(int(one.min), int(one.max)) for one in told]
