"""Reads the service level objectives of a profile: [[profiles.NAME.slo]] and [[defaults.slo]]."""

import re
from typing import Any

from rsmq_tui.monitor.slo import AGE, ANSWERING, STALLED, Objective
from rsmq_tui.monitor.text import read_span
from rsmq_tui.profiles import values
from rsmq_tui.profiles.values import Mistakes, Read, Value, read_table

_EXAMPLES = f'"{ANSWERING}", "{AGE} < 5m" or "{STALLED} < 2m"'
_BELOW = re.compile(rf"({AGE}|{STALLED}) ?< ?(.+)")
_LEAST_PERCENT, _MOST_PERCENT = 50, 99.9999


def read_slo(given: Value, mistakes: Mistakes) -> tuple[Objective, ...]:
    """Return the objectives of a profile; mistakes are added to ``mistakes``."""
    if not isinstance(given.value, list) or not all(isinstance(table, dict) for table in given.value):
        mistakes.add(given.place, f"slo must be tables, one for each objective: [[{'.'.join(map(str, given.place))}]]")
        return ()
    found = []
    for number, table in enumerate(given.value):
        place, before = (*given.place, number), len(mistakes.found)
        read = {key: value.value for key, value in read_table(table, place, _KEYS, mistakes).items()}
        for key in ("target", "objective"):
            if key not in table:
                mistakes.add(place, f"an objective needs {key}, such as {_NEEDED[key]}")
        if "queues" in read and read.get("target", ("",))[0] == ANSWERING:
            mistakes.add((*place, "queues"), f'queues cannot be combined with target = "{ANSWERING}": it has none')
        if len(mistakes.found) == before:
            sli, below_ms = read["target"]
            more = {field: read[key] for key, field in _FIELDS.items() if key in read}
            found.append(Objective(sli, read["objective"], below_ms, **more))
    return tuple(found)


def _target(value: Any) -> tuple[str, int]:
    written = " ".join(values.text(value).lower().split())
    if written == ANSWERING:
        return ANSWERING, 0
    limit = _BELOW.fullmatch(written)
    below_ms = read_span(limit[2]) if limit else None
    if limit is None or not isinstance(below_ms, int) or below_ms <= 0:
        raise ValueError(f"must be {_EXAMPLES}")
    return limit[1], below_ms


def _percent(value: Any) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not _LEAST_PERCENT <= value <= _MOST_PERCENT:
        raise ValueError(f"must be a percentage from {_LEAST_PERCENT} to {_MOST_PERCENT}, without quotes, such as 99.5")
    return float(value)


_KEYS: dict[str, Read] = {
    "target": _target,
    "objective": _percent,
    "queues": values.patterns,
    "window": values.span_ms,
}
_FIELDS = {"queues": "queues", "window": "window_ms"}
_NEEDED = {"target": f"target = {_EXAMPLES}", "objective": "objective = 99.5, in percent of the time"}
