"""Which hours of samples and which days of messages a run has to compute, and which days it has to read for that.

An hour is a number: the hours since 1970, UTC.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date, timedelta

import pyarrow.parquet as pq

from rsmq_tui.history.analysis.schema import BY_DAY, LIFECYCLE, POISON_DAYS, ROLLUP_1M, ROLLUP_10S
from rsmq_tui.history.analysis.tables import Manifest
from rsmq_tui.history.schema import MESSAGES, SAMPLES
from rsmq_tui.history.store import Store
from rsmq_tui.monitor.moments import DAY_MS, HOUR_MS
from rsmq_tui.monitor.text import plural
from rsmq_tui.pipeline.sources import Sources, day_in, spans_in

KEPT_DAYS = {ROLLUP_10S: 7, ROLLUP_1M: 92}
"""For how many days, up to the newest, fine roll-ups are kept; coarser ones are kept for ever."""


def first_day_of(table: str, newest: str) -> str:
    """Return the first day that a table by day is kept of, if ``newest`` is the newest day of the history."""
    return shifted(newest, 1 - KEPT_DAYS[table]) if table in KEPT_DAYS and newest else ""


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
            spans = spans_in(file.metadata, column)
    except Exception:
        # Any error is found and reported when the file is read completely.
        return whole
    return {hour for hour in whole for first_ms, last_ms in spans if first_ms // HOUR_MS <= hour <= last_ms // HOUR_MS}


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


def work_plan_for(sources: Sources, new: Mapping[str, Collection[str]], before: Manifest | None) -> WorkPlan:
    """Return the work plan for some new files.

    ``before`` names what is stored: of a day of samples that it does not have, all hours are computed.
    """
    there = sources.days
    worked = hours_to_work(_hours(sources, new.get(SAMPLES, ())), there[SAMPLES])
    worked |= hours_of(day for day in days_of(worked) if before is None or not is_stored(before, SAMPLES, day))
    touched = {day for name in new.get(MESSAGES, ()) if (day := day_in(name))}
    return _reading(worked, days_to_work(touched, there[MESSAGES]), there)


def with_whole_days(todo: WorkPlan, sources: Sources, wanted: Collection[str]) -> WorkPlan:
    """Return the plan extended by all hours of some days, and by the hours that follow these."""
    worked = todo.hours | hours_to_work(hours_of(wanted), sources.days[SAMPLES])
    return _reading(worked, todo.days[MESSAGES], sources.days)


def batches(todo: WorkPlan, sources: Sources, table: str, rows_max: int) -> list[WorkPlan]:
    """Split the work on a table of a history: parts of days, which have at most ``rows_max`` rows or are one day."""
    parts: list[list[str]] = []
    left = 0
    for day in todo.days[table]:
        rows = sum(file.rows or 0 for file in sources.of_day(table, day).values())
        if not parts or rows > left:
            parts.append([])
            left = rows_max
        parts[-1].append(day)
        left -= rows
    is_samples = table == SAMPLES
    return [
        _reading(todo.hours & hours_of(days) if is_samples else (), () if is_samples else days, sources.days)
        for days in parts
    ]


def is_stored(before: Manifest, source: str, day: str) -> bool:
    """Return whether any table by day that is computed from ``source`` has files of a day."""
    return any(before.files(table, day, day) for table in BY_DAY if source_of(table) == source)


def parts_to_read(sources: Sources, todo: WorkPlan, table: str, left_out: Collection[str]) -> list[str]:
    """Return the folders of days to read; of a day of which few hours are needed, the files with rows of these."""
    parts = []
    needed = {read for hour in todo.hours for read in (hour - 1, hour)}
    for day in todo.read[table]:
        if table == SAMPLES and not hours_of([day]) <= needed:
            files = sources.of_day(table, day).values()
            parts += [
                file.name for file in files if file.name not in left_out and (file.hours() & needed or not file.hours())
            ]
        else:
            parts.append(f"{table}/day={day}")
    return parts


def _reading(worked: Collection[int], message_days: Sequence[str], there: Mapping[str, Collection[str]]) -> WorkPlan:
    sample_days = days_of(worked)
    return WorkPlan(
        frozenset(worked),
        {SAMPLES: sample_days, MESSAGES: list(message_days)},
        {SAMPLES: hours_to_read(worked, there[SAMPLES]), MESSAGES: days_to_read(message_days, there[MESSAGES])},
        frozenset(day for day in sample_days if not hours_of([day]) <= set(worked)),
    )


def _hours(sources: Sources, new: Iterable[str]) -> set[int]:
    found: set[int] = set()
    for name, source in sources.footers(new).items():
        whole = hours_of([day_in(name) or ""])
        found |= source.hours() & whole or whole
    return found
