"""How much of a history is kept: whole days go, the oldest first, and never one that is being written."""

from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path

from rsmq_tui.history.errors import HistoryError
from rsmq_tui.history.schema import MESSAGES, SAMPLES
from rsmq_tui.history.store import Store

# The last ms of the calendar.
LAST_MS = 253_402_300_799_999
_DAY_MS = 86_400_000


def day_of(at_ms: int) -> str:
    """Return the UTC day of a time: 2031-05-17; raises ``HistoryError`` for a time beyond the calendar."""
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).date().isoformat()
    except (OverflowError, OSError, ValueError) as error:
        raise HistoryError(
            f"the server's clock is outside the calendar: {at_ms} ms; synchronize it with NTP"
        ) from error


def is_day(day: str) -> bool:
    """Tell whether a text is a day of the calendar, written as ``day_of`` writes it."""
    try:
        return datetime.fromisoformat(day).date().isoformat() == day
    except ValueError:
        return False


def day_span_ms(day: str) -> tuple[int, int] | None:
    """Return the first and the last ms of a UTC day, or None for what is no day of the calendar."""
    if not is_day(day):
        return None
    start_ms = round(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp() * 1000)
    return start_ms, start_ms + _DAY_MS - 1


def nearest_day_of(at_ms: int) -> str:
    """Return the UTC day of a time; of one beyond the calendar, what sorts before all days or after them."""
    try:
        return day_of(at_ms)
    except HistoryError:
        return "0000-00-00" if at_ms < 0 else "9999-99-99"


def delete_old_days(
    store: Store, *, keep_ms: int | None, max_bytes: int | None, now_ms: int, written: Collection[str], scratch: Path
) -> list[str]:
    """Delete what is older than ``keep_ms``, and the oldest days beyond ``max_bytes``; return the days deleted.

    Neither today, by ``now_ms``, nor the newest day nor one of the days ``written`` is deleted. Raises ``OSError``.
    """
    sizes: dict[str, int] = {}
    for table in (SAMPLES, MESSAGES):
        for file in store.files(table):
            sizes[file.day] = sizes.get(file.day, 0) + file.bytes
    if not sizes:
        return []
    protected = {*written, max(sizes)}
    removable = [day for day in sorted(sizes) if day not in protected and day < day_of(now_ms)]
    gone = [day for day in removable if keep_ms is not None and _end_ms(day) <= now_ms - keep_ms]
    left = sum(size for day, size in sizes.items() if day not in gone)
    for day in removable:
        if max_bytes is None or left <= max_bytes:
            break
        if day not in gone:
            gone.append(day)
            left -= sizes[day]
    for day in gone:
        store.remove_day(day, scratch)
    return gone


def _end_ms(day: str) -> int:
    span_ms = day_span_ms(day)
    # No day of the calendar: nothing that we wrote, and not ours to delete by age.
    return 1 << 62 if span_ms is None else span_ms[1] + 1
