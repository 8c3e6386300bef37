"""How much of a history is kept: whole days go, the oldest first, and never one that is being written."""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rsmq_tui.history.errors import HistoryError
from rsmq_tui.history.schema import MESSAGES, SAMPLES
from rsmq_tui.history.store import Store


def day_of(at_ms: int) -> str:
    """Return the UTC day of a time: 2031-05-17; raises ``HistoryError`` for a time beyond the calendar."""
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).date().isoformat()
    except (OverflowError, OSError, ValueError) as error:
        raise HistoryError(f"the server's clock is beyond the calendar: {at_ms} ms; mend it with ntp") from error


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
    try:
        midnight = datetime.fromisoformat(day).replace(tzinfo=UTC) + timedelta(days=1)
    except (OverflowError, ValueError):
        # No day of the calendar: nothing that we wrote, and not ours to delete by age.
        return 1 << 62
    return round(midnight.timestamp() * 1000)
