"""Spans of time as people write them: 250ms, 30s, 1h30m, 2d."""

import re

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SPAN = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,3})?)(ms|s|m|h|d)")
_SPANS = re.compile(rf"-?(?:{_SPAN.pattern})+|-?0")


def read_span(text: str) -> int | str:
    """Return a span in ms, or a sentence that says how one is written; 0 needs no unit."""
    if not _SPANS.fullmatch(text):
        return "a span of time has a unit, ms, s, m, h or d: 250ms, 30s, 1h30m, 2d"
    span_ms = sum(float(number) * _UNITS_MS[unit] for number, unit in _SPAN.findall(text))
    return round(-span_ms if text.startswith("-") else span_ms)
