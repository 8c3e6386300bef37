"""Durations and sizes as people write them: 250ms, 30s, 10min, 1h30m, 2d; 512, 64k, 1m."""

import re

_UNITS_MS = {
    unit: unit_ms
    for unit_ms, units in (
        (1, "ms msec millisecond milliseconds"),
        (1_000, "s sec secs second seconds"),
        (60_000, "m min mins minute minutes"),
        (3_600_000, "h hr hrs hour hours"),
        (86_400_000, "d day days"),
    )
    for unit in units.split()
}
_PART = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,3})?) ?([a-z]{1,12})")
_SPAN = re.compile(rf"-?{_PART.pattern}(?: ?{_PART.pattern})*|-?0")
_SECONDS = re.compile(r"-?[0-9]{1,12}(?:\.[0-9]{1,9})?")
_WHOLE_SECONDS_MAX = 9_999_999
_EXAMPLES = "30s, 10m, 1h30m, 2d"

_SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,3})?)(?:([kmgt])(?:i?b)?|b)?", re.IGNORECASE)
_SIZES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def read_span(text: str) -> int | str:
    """Return a duration that has a unit in ms, or a sentence that says how one is written; 0 needs no unit."""
    parts = _PART.findall(text)
    if not _SPAN.fullmatch(text) or any(unit not in _UNITS_MS for _, unit in parts):
        return f"a duration has a unit: 250ms, {_EXAMPLES}"
    span_ms = sum(float(number) * _UNITS_MS[unit] for number, unit in parts)
    return round(-span_ms if text.startswith("-") else span_ms)


def read_seconds(text: str) -> float | str:
    """Return a duration in seconds, or a sentence that says how one is written; a number alone is in seconds."""
    if _SECONDS.fullmatch(text):
        return float(text)
    span_ms = read_span(text)
    if isinstance(span_ms, str):
        return f"a duration is a number of seconds, or has a unit: {_EXAMPLES}"
    return span_ms / 1000


def read_whole_seconds(text: str) -> int | str:
    """As ``read_seconds``, for the whole seconds that an RSMQ queue takes: 0 to 9,999,999."""
    value_s = read_seconds(text)
    if isinstance(value_s, str):
        return value_s
    if not 0 <= value_s <= _WHOLE_SECONDS_MAX or value_s != int(value_s):
        return f"a duration must be a whole number of seconds from 0 to {_WHOLE_SECONDS_MAX:,}"
    return int(value_s)


def read_size(text: str) -> int | str:
    """Return a size in bytes, or a sentence that says how one is written."""
    found = _SIZE.fullmatch(text)
    if found is None:
        return "a size must be a number of bytes, or have a unit of 1024: 512, 64k, 1m"
    return round(float(found[1]) * _SIZES[(found[2] or "").lower()])
