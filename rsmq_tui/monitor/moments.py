"""Times that users type: 21:50, 2031-05-17 21:50, -10m, +1h, seconds or ms since 1970.

They are in UTC unless the caller names a time zone; None is that of the system.
"""

import re
from datetime import UTC, date, datetime, timedelta, tzinfo

from rsmq_tui.monitor.text import read_span

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_CLOCK = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,3}))?)?(Z| ?UTC)?")
_DATE = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[ T]+(.+))?")
_EPOCH = re.compile(r"[0-9]{9,14}(?:\.[0-9]{1,3})?")
# Smaller numbers are seconds: in ms they would be in the first years after 1970.
_MS_MIN = 100_000_000_000
# The years 1 and 9999.
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999


class MomentError(ValueError):
    """An invalid time; its text says in one sentence what a valid one looks like."""


def read_moment(text: str, now_ms: int, zone: tzinfo | None = UTC) -> int:
    """Return the moment in ms since 1970; raises ``MomentError``.

    -10m, +1h and ``now`` are relative to ``now_ms``; a time without a date is the last such time before it.
    """
    typed = text.strip()
    if typed in ("now", "0", "-0"):
        return now_ms
    if typed.startswith(("-", "+")):
        span_ms = read_span(typed.removeprefix("+"))
        if isinstance(span_ms, str):
            raise MomentError(f"{text!r} is not a time: {span_ms}, as in -10m")
        if not _FIRST_MS <= now_ms + span_ms <= _LAST_MS:
            raise MomentError(f"{text!r} is not a time: it is outside the calendar")
        return now_ms + span_ms
    if (found := _CLOCK.fullmatch(typed)) is not None:
        zone = UTC if found[5] else zone
        today = datetime.fromtimestamp(now_ms / 1000, UTC).astimezone(zone).date()
        at_ms = _at(today, _of_day(found, text), zone, text)
        return at_ms if at_ms <= now_ms else _at(today - timedelta(days=1), _of_day(found, text), zone, text)
    if (found := _DATE.fullmatch(typed)) is not None:
        return _of_date(found, text, zone)
    if _EPOCH.fullmatch(typed):
        number = float(typed)
        return round(number if number >= _MS_MIN else number * 1000)
    raise MomentError(f"{text!r} is not a time: write 21:50, 2031-05-17 21:50, -10m or seconds since 1970{_note(zone)}")


def read_end(text: str, from_ms: int, now_ms: int, zone: tzinfo | None = UTC) -> int:
    """Return the end of a range that begins at ``from_ms``; raises ``MomentError``.

    A time without a date is the first such time after ``from_ms``.
    """
    is_clock = _CLOCK.fullmatch(text.strip()) is not None
    return read_moment(text, from_ms + DAY_MS if is_clock else now_ms, zone)


def weekday_of(at_ms: int) -> int:
    """Return the day of the week of a moment, in UTC; 0 is Monday."""
    # 1970 began on a Thursday.
    return (at_ms // DAY_MS + 3) % 7


def end_of_day(at_ms: int, zone: tzinfo | None) -> int:
    """Return the last ms of the day of a moment."""
    day = datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(zone).date()
    return _at(day, DAY_MS - 1, zone, str(day))


def _of_date(found: "re.Match[str]", text: str, zone: tzinfo | None) -> int:
    try:
        day = date.fromisoformat(found[1])
    except ValueError as error:
        raise MomentError(f"{text!r} is not a time: this day does not exist") from error
    if found[2] is None:
        return _at(day, 0, zone, text)
    clock = _CLOCK.fullmatch(found[2].strip())
    if clock is None:
        raise MomentError(f"{text!r} is not a time: write the time after the date, as in 2031-05-17 21:50{_note(zone)}")
    return _at(day, _of_day(clock, text), UTC if clock[5] else zone, text)


def _at(day: date, of_day_ms: int, zone: tzinfo | None, text: str) -> int:
    """Return when the clocks of a zone show a time of a day; the first time, if they show it twice."""
    shown = datetime.combine(day, datetime.min.time()) + timedelta(milliseconds=of_day_ms)
    try:
        moment = shown.astimezone() if zone is None else shown.replace(tzinfo=zone)
        return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    except (OverflowError, OSError, ValueError) as error:
        raise MomentError(f"{text!r} is not a time: it is outside the calendar") from error


def _note(zone: tzinfo | None) -> str:
    return ", in UTC" if zone is UTC else ""


def _of_day(found: "re.Match[str]", text: str) -> int:
    hours, minutes, seconds = int(found[1]), int(found[2]), int(found[3] or 0)
    if hours > 23 or minutes > 59 or seconds > 59:
        raise MomentError(f"{text!r} is not a time: this time of day does not exist")
    return ((hours * 60 + minutes) * 60 + seconds) * 1000 + int((found[4] or "0").ljust(3, "0"))
