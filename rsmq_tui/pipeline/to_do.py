"""What a run has to work anew: hours of samples, and days of messages."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from rsmq_tui.history.analysis.manifest import Manifest
from rsmq_tui.history.analysis.schema import BY_DAY
from rsmq_tui.history.schema import MESSAGES, SAMPLES
from rsmq_tui.history.store import SealedFile
from rsmq_tui.monitor.wording import plural
from rsmq_tui.pipeline import days, hours
from rsmq_tui.pipeline.days import TABLES, day_in, source_of
from rsmq_tui.pipeline.folder import Folder

Held = Mapping[str, Sequence[SealedFile]]


@dataclass(frozen=True, slots=True)
class ToDo:
    """The hours and days to work anew, and the days to read for that, of each table of a history.

    ``days`` are those that hours or messages to work are of. ``partly`` are the days of samples of which some hours
    stay as they are stored.
    """

    hours: frozenset[int]
    days: Mapping[str, list[str]]
    read: Mapping[str, list[str]]
    partly: frozenset[str]

    def __bool__(self) -> bool:
        return any(self.days.values())

    def amount(self, table: str) -> str:
        """Return how much of a table of a history it is, in words."""
        if table == SAMPLES and self.partly:
            return plural(len(self.hours), "hour")
        return plural(len(self.days[table]), "day")


def to_do(
    history: Folder, held: Held, new: Mapping[str, Collection[str]], before: Manifest | None, anew: Collection[str]
) -> ToDo:
    """Return what there is to do where some files are new; of the tables ``anew`` it is all that is held.

    ``before`` tells what is stored: of a day of samples that it does not have, all hours are worked.
    """
    there = {table: {file.day for file in held[table]} for table in TABLES}
    worked = hours.to_work(_hours(history, held, new.get(SAMPLES, ()), anew), there[SAMPLES])
    worked |= hours.hours_of(
        day for day in hours.days_of(worked) if before is None or not is_stored(before, SAMPLES, day)
    )
    touched = there[MESSAGES] if MESSAGES in anew else {day for name in new.get(MESSAGES, ()) if (day := day_in(name))}
    message_days = days.to_work(touched, there[MESSAGES])
    return _reading(worked, message_days, there)


def with_whole_days(todo: ToDo, held: Held, wanted: Collection[str]) -> ToDo:
    """Return the same with all hours of some days, and with the hours that follow on these."""
    there = {table: {file.day for file in held[table]} for table in TABLES}
    worked = todo.hours | hours.to_work(hours.hours_of(wanted), there[SAMPLES])
    return _reading(worked, todo.days[MESSAGES], there)


def is_stored(before: Manifest, source: str, day: str) -> bool:
    """Tell whether any table by day, of a table of a history, has files of a day."""
    return any(before.files(table, day, day) for table in BY_DAY if source_of(table) == source)


def _reading(worked: Collection[int], message_days: list[str], there: Mapping[str, set[str]]) -> ToDo:
    sample_days = hours.days_of(worked)
    return ToDo(
        frozenset(worked),
        {SAMPLES: sample_days, MESSAGES: message_days},
        {SAMPLES: hours.to_read(worked, there[SAMPLES]), MESSAGES: days.to_read(message_days, there[MESSAGES])},
        frozenset(day for day in sample_days if not hours.hours_of([day]) <= set(worked)),
    )


def _hours(history: Folder, held: Held, new: Collection[str], anew: Collection[str]) -> set[int]:
    files = held[SAMPLES]
    if SAMPLES in anew:
        return hours.hours_of({file.day for file in files})
    names = {file.name for file in files}
    # Of a file that is gone, or called otherwise than its note says, only the day is known.
    unknown = {day for name in new if name not in names and (day := day_in(name))}
    found = hours.hours_in(history.store, sorted(names.intersection(new)), "at_ms")
    return hours.hours_of(unknown).union(*found.values())
