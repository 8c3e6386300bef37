"""Which analysis of a history the dashboard looks into, and which range of its time."""

import re
from dataclasses import dataclass

from rsmq_tui.history.analysis.values import DAY_MS, HOUR_MS, TimeRange
from rsmq_tui.history.moments import MomentError, read_end, read_moment
from rsmq_tui.monitor.wording import clock, duration

LEAST_MS = 60_000
PRESETS = (
    ("last hour", HOUR_MS),
    ("last day", DAY_MS),
    ("last week", 7 * DAY_MS),
    ("last 30 days", 30 * DAY_MS),
    ("all", None),
)
_BETWEEN = re.compile(r"\s*(?:–|—|\.\.+|\bto\b|\s-\s)\s*")


@dataclass(frozen=True, slots=True)
class Past:
    """Where the answers of the past lie: an ``analysis``, and the ``history`` that it was made of, to replay.

    Both are paths or URLs. Without ``history``, the one is meant that the analysis names.
    """

    analysis: str
    history: str | None = None


def last(length_ms: int | None, whole: TimeRange) -> TimeRange:
    """Return the last part of that length, or the whole."""
    if length_ms is None or length_ms >= whole.length_ms:
        return whole
    return TimeRange(whole.to_ms - length_ms, whole.to_ms)


def shifted(span: TimeRange, step: int, whole: TimeRange) -> TimeRange:
    """Return the range half its length later (``step`` 1) or earlier (-1), as far as the whole reaches."""
    return _within(span.from_ms + step * span.length_ms // 2, span.length_ms, whole)


def zoomed(span: TimeRange, step: int, whole: TimeRange) -> TimeRange:
    """Return the middle half of the range (``step`` 1), or one twice as long (-1), at least a minute."""
    length_ms = max(LEAST_MS, span.length_ms // 2 if step > 0 else span.length_ms * 2)
    return _within(span.from_ms + (span.length_ms - length_ms) // 2, length_ms, whole)


def said(span: TimeRange) -> str:
    """Say a range: 05-17 09:00 – 05-18 09:00 UTC, 1d 0h."""
    with_seconds = span.length_ms < 10 * LEAST_MS
    return f"{moment(span.from_ms, with_seconds)} – {moment(span.to_ms, with_seconds)} UTC, {duration(span.length_ms)}"


def moment(at_ms: int | None, with_seconds: bool = False) -> str:
    """Say a moment without its year: 05-17 09:00."""
    words = clock(at_ms, date=True)
    return words if len(words) < 19 else words[5 : 19 if with_seconds else 16]


def _within(from_ms: int, length_ms: int, whole: TimeRange) -> TimeRange:
    if length_ms >= whole.length_ms:
        return whole
    from_ms = max(whole.from_ms, min(from_ms, whole.to_ms - length_ms))
    return TimeRange(from_ms, from_ms + length_ms)


def read_range(text: str, whole: TimeRange) -> TimeRange:
    """Read a range as people write it: 05-17 09:00 – 11:00 with the year before it, 09:00 .. 11:00, -2h.

    One moment alone is where it begins. Raises ``MomentError``.
    """
    first, *others = _BETWEEN.split(text.strip(), maxsplit=1)
    from_ms = read_moment(first, whole.to_ms)
    end = others[0].strip() if others else ""
    to_ms = read_end(end, from_ms, whole.to_ms) if end else whole.to_ms
    if to_ms <= from_ms and end:
        raise MomentError("the range ends before it begins: write the earlier time first")
    if not whole.holds(from_ms, to_ms):
        raise MomentError(f"no data for that time: the analysis covers {said(whole)}")
    return TimeRange(from_ms, max(to_ms, from_ms + LEAST_MS))
