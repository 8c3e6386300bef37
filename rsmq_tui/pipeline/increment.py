"""Which hours of samples and which days of messages a run has to compute, and which days it has to read for that.

An hour is a number: the hours since 1970, UTC.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date, timedelta

import pyarrow.parquet as pq

from rsmq_tui.history.analysis.schema import BY_DAY, LIFECYCLE, POISON_DAYS
from rsmq_tui.history.analysis.tables import Manifest
from rsmq_tui.history.moments import DAY_MS, HOUR_MS
from rsmq_tui.history.schema import MESSAGES, SAMPLES
from rsmq_tui.history.store import SealedFile, Store, is_day
from rsmq_tui.monitor.text import plural
from rsmq_tui.pipeline.folder import Folder

TABLES = (SAMPLES, MESSAGES)
"""The tables of a history."""


def day_in(name: str) -> str | None:
    """Return the day of a file of a history, by its name; None if it is not a file of a history."""
    parts = name.split("/")
    if len(parts) != 3 or not parts[1].startswith("day=") or parts[2].startswith(("_", ".")):
        return None
    day = parts[1].removeprefix("day=")
    return day if is_day(day) else None


def source_of(table: str) -> str:
    """Return the table of a history that a table by day is computed from."""
    return MESSAGES if table in (LIFECYCLE, POISON_DAYS) else SAMPLES


def days_to_work(touched: Iterable[str], held: Collection[str]) -> list[str]:
    """Return the ``held`` days of messages to compute, if files of the ``touched`` days are new.

    A day also depends on the first inventory of the day after.
    """
    wanted = {day for one in touched for day in (one, shifted(one, -1))}
    return sorted(wanted.intersection(held))


def days_to_read(days: Collection[str], held: Collection[str]) -> list[str]:
    """Return the days of messages to read in order to compute ``days``."""
    after = {shifted(day, 1) for day in days}
    return sorted({*days, *after.intersection(held)})


def shifted(day: str, days: int) -> str:
    """Return the day ``days`` later; at the ends of the calendar, the day itself."""
    try:
        return (date.fromisoformat(day) + timedelta(days)).isoformat()
    except OverflowError:
        return day


def midnight_ms(day: str) -> int:
    """Return the start of a day, in ms."""
    return (date.fromisoformat(day) - date(1970, 1, 1)).days * DAY_MS


_A_DAY = 24
_AT_ONCE = 8


def hours_of(days: Iterable[str]) -> set[int]:
    """Return all hours of some days."""
    return {midnight_ms(day) // HOUR_MS + hour for day in days for hour in range(_A_DAY)}


def days_of(hours: Iterable[int]) -> list[str]:
    """Return the days of some hours."""
    return [(date(1970, 1, 1) + timedelta(number)).isoformat() for number in sorted({hour // _A_DAY for hour in hours})]


def hours_to_work(touched: Iterable[int], held: Iterable[str]) -> set[int]:
    """Return the hours of the ``held`` days to compute, if samples of the ``touched`` hours are new.

    The first samples of an hour depend on the last ones of the hour before.
    """
    return {hour for one in touched for hour in (one, one + 1)} & hours_of(held)


def hours_to_read(hours: Collection[int], held: Collection[str]) -> list[str]:
    """Return the days to read in order to compute some hours: an hour needs the one before."""
    wanted = set(days_of(hours))
    before = {shifted(day, -1) for day in wanted if midnight_ms(day) // HOUR_MS in hours}
    return sorted((wanted | before).intersection(held))


def hours_in(store: Store, names: Sequence[str], column: str) -> dict[str, set[int]]:
    """Return the hours of the rows in each of some files, by a column of times.

    If a file's metadata does not have them, they are all hours of its day, by the name of its folder.
    """
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return dict(zip(names, pool.map(lambda name: _hours_in(store, name, column), names), strict=True))


def _hours_in(store: Store, name: str, column: str) -> set[int]:
    whole = hours_of([name.rsplit("/", 2)[-2].removeprefix("day=")])
    try:
        with pq.ParquetFile(store.open(name)) as file:
            spans = _spans_in(file.metadata, column)
    except Exception:
        # Any error is found and reported when the file is read completely.
        return whole
    return {hour for hour in whole for first_ms, last_ms in spans if first_ms // HOUR_MS <= hour <= last_ms // HOUR_MS}


def _spans_in(footer: pq.FileMetaData, column: str) -> list[tuple[int, int]]:
    """Return the first and last time of each row group; raises if one has no statistics."""
    place = next(number for number in range(footer.num_columns) if footer.schema.column(number).path == column)
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    told = [group.column(place).statistics for group in groups if group.num_rows]
    if not all(one is not None and one.has_min_max for one in told):
        raise ValueError("not all is told")
    return [(int(one.min), int(one.max)) for one in told]


Held = Mapping[str, Sequence[SealedFile]]


@dataclass(frozen=True, slots=True)
class WorkPlan:
    """The hours and days to compute, and the days to read for that, of each table of a history.

    ``days`` are the days of the hours and messages to compute. ``partly`` are the days of samples of which some stored
    hours are kept.
    """

    hours: frozenset[int]
    days: Mapping[str, list[str]]
    read: Mapping[str, list[str]]
    partly: frozenset[str]

    def __bool__(self) -> bool:
        return any(self.days.values())

    def amount(self, table: str) -> str:
        """Describe how much of a table of a history is to be computed."""
        if table == SAMPLES and self.partly:
            return plural(len(self.hours), "hour")
        return plural(len(self.days[table]), "day")


def to_do(
    history: Folder, held: Held, new: Mapping[str, Collection[str]], before: Manifest | None, anew: Collection[str]
) -> WorkPlan:
    """Return the work plan for some new files; the tables ``anew`` are computed completely.

    ``before`` names what is stored: of a day of samples that it does not have, all hours are computed.
    """
    there = {table: {file.day for file in held[table]} for table in TABLES}
    worked = hours_to_work(_hours(history, held, new.get(SAMPLES, ()), anew), there[SAMPLES])
    worked |= hours_of(day for day in days_of(worked) if before is None or not is_stored(before, SAMPLES, day))
    touched = there[MESSAGES] if MESSAGES in anew else {day for name in new.get(MESSAGES, ()) if (day := day_in(name))}
    message_days = days_to_work(touched, there[MESSAGES])
    return _reading(worked, message_days, there)


def with_whole_days(todo: WorkPlan, held: Held, wanted: Collection[str]) -> WorkPlan:
    """Return the plan extended by all hours of some days, and by the hours that follow these."""
    there = {table: {file.day for file in held[table]} for table in TABLES}
    worked = todo.hours | hours_to_work(hours_of(wanted), there[SAMPLES])
    return _reading(worked, todo.days[MESSAGES], there)


def is_stored(before: Manifest, source: str, day: str) -> bool:
    """Return whether any table by day that is computed from ``source`` has files of a day."""
    return any(before.files(table, day, day) for table in BY_DAY if source_of(table) == source)


def _reading(worked: Collection[int], message_days: list[str], there: Mapping[str, set[str]]) -> WorkPlan:
    sample_days = days_of(worked)
    return WorkPlan(
        frozenset(worked),
        {SAMPLES: sample_days, MESSAGES: message_days},
        {SAMPLES: hours_to_read(worked, there[SAMPLES]), MESSAGES: days_to_read(message_days, there[MESSAGES])},
        frozenset(day for day in sample_days if not hours_of([day]) <= set(worked)),
    )


def _hours(history: Folder, held: Held, new: Collection[str], anew: Collection[str]) -> set[int]:
    files = held[SAMPLES]
    if SAMPLES in anew:
        return hours_of({file.day for file in files})
    names = {file.name for file in files}
    # For a file that is gone, or whose name differs from its note, only the day is known.
    unknown = {day for name in new if name not in names and (day := day_in(name))}
    found = hours_in(history.store, sorted(names.intersection(new)), "at_ms")
    return hours_of(unknown).union(*found.values())
