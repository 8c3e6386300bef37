"""Days, which are text: 2031-05-17, UTC; which days of messages have to be worked anew, and which rows that takes."""

import re
from collections.abc import Collection, Iterable
from datetime import date, timedelta

from rsmq_tui.history.analysis.schema import LIFECYCLE, POISON_DAYS
from rsmq_tui.history.schema import MESSAGES, SAMPLES

TABLES = (SAMPLES, MESSAGES)
"""The tables of a history."""

DAY_MS = 86_400_000
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def day_in(name: str) -> str | None:
    """Return the day that a file of a history belongs to, by its name; None for a file that is none of a history."""
    parts = name.split("/")
    if len(parts) != 3 or not parts[1].startswith("day=") or parts[2].startswith(("_", ".")):
        return None
    day = parts[1].removeprefix("day=")
    return day if _is_day(day) else None


def source_of(table: str) -> str:
    """Return which table of a history a table by day is made of."""
    return MESSAGES if table in (LIFECYCLE, POISON_DAYS) else SAMPLES


def to_work(touched: Iterable[str], held: Collection[str]) -> list[str]:
    """Return the days of messages to work anew, of those that the history holds, where files of some days are new.

    What an inventory tells of a day's messages may come from the first one of the day after.
    """
    wanted = {day for one in touched for day in (one, shifted(one, -1))}
    return sorted(wanted.intersection(held))


def to_read(days: Collection[str], held: Collection[str]) -> list[str]:
    """Return the days of messages to read for working some."""
    after = {shifted(day, 1) for day in days}
    return sorted({*days, *after.intersection(held)})


def shifted(day: str, days: int) -> str:
    """Return the day so many days later; at the calendar's ends the day itself."""
    try:
        return (date.fromisoformat(day) + timedelta(days)).isoformat()
    except OverflowError:
        return day


def midnight_ms(day: str) -> int:
    """Return when a day begins."""
    return (date.fromisoformat(day) - date(1970, 1, 1)).days * DAY_MS


def _is_day(text: str) -> bool:
    if not _DAY.fullmatch(text):
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True
