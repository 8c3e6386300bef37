"""When an item of a list queue was made, which only a timestamp in its own JSON can tell."""

import math
import re
from datetime import UTC, datetime
from typing import Any

from rsmq_tui.monitor.json_paths import (
    Absent,
    JsonPath,
    JsonPathError,
    load,
    path_text,
    read_path,
    value_at,
    value_text,
)
from rsmq_tui.monitor.wording import printable
from rsmq_tui.protocol import MICROSECONDS_FROM, SECONDS_BELOW

# An item is read only as far as this: a JSON text that is longer cannot be read at all.
AGE_BYTES = 8 << 10

_TIME_FROM = 100_000_000
_NANOSECONDS_FROM = 100_000_000_000_000_000
_END_MS = 253_402_300_800_000
_NUMBER = re.compile(r"\s*([0-9]{1,19}(?:\.[0-9]+)?)\s*")


def age_path(text: str) -> JsonPath:
    """Read where the timestamp is: ``created``, ``json.meta.at`` or ``.meta["at"]``; raises ValueError."""
    start = text.strip().removeprefix("json")
    start = start if start[:1] in (".", "[") else "." + text.strip()
    try:
        path, end = read_path(start)
    except JsonPathError as error:
        raise ValueError(f"must be a JSON path in an item, such as created or meta.at: {error}") from error
    if end != len(start) or not path:
        raise ValueError("must be a JSON path in an item, such as created or meta.at")
    return path


def read_age(start: bytes, size: int, path: JsonPath) -> tuple[int | None, str | None]:
    """Return when an item was made, in ms, or None and a sentence; ``start`` is all of it unless it is long."""
    if len(start) < size:
        return None, f"the next item is too long for its age to be read: {size:,} bytes"
    document = load(start)
    if document is Absent.JSON:
        return None, "the next item is not JSON: its age is unknown"
    value = value_at(document, path)
    if value is Absent.VALUE:
        return None, f"the next item has no {printable(path_text(path), 60)}: its age is unknown"
    at_ms = timestamp_ms(value)
    if at_ms is None:
        return (
            None,
            f"{printable(path_text(path), 60)} of the next item is not a time: {printable(value_text(value), 40)}",
        )
    return at_ms, None


def timestamp_ms(value: Any) -> int | None:
    """Read a time as programs write it: seconds, ms, µs or ns since 1970 by magnitude, or an ISO date."""
    if isinstance(value, str):
        number = _NUMBER.fullmatch(value)
        if number is None:
            return _iso_ms(value)
        value = float(number[1])
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    if not _TIME_FROM <= value < _NANOSECONDS_FROM * 1000:
        return None
    if value < SECONDS_BELOW:
        found = value * 1000
    elif value < MICROSECONDS_FROM:
        found = value
    else:
        found = value / (1000 if value < _NANOSECONDS_FROM else 1_000_000)
    return int(found) if found < _END_MS else None


def _iso_ms(text: str) -> int | None:
    # Go writes nanoseconds; Python reads at most microseconds.
    try:
        moment = datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", text.strip()))
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None
