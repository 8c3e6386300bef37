"""Moments as people write them."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from rsmq_tui.monitor.moments import HOUR_MS, MomentError, end_of_day, read_end, read_moment

# 2031-05-17 21:50:10.500 UTC
NOW_MS = 1_936_821_010_500


@pytest.mark.parametrize(
    ("text", "ago_ms"),
    [
        ("now", 0), ("-0", 0), ("-10m", 600_000), ("-1h30m", 5_400_000), (" 21:50 ", 10_500), ("21:50:10", 500),
        ("21:50:10.5", 0), ("21:50:10.500Z", 0), ("9:50", 43_210_500), ("21:51", 86_400_000 - 49_500),
        ("2031-05-17 21:50", 10_500), ("2031-05-17T21:50:10.25Z", 250), ("2031-05-17", 78_610_500),
        ("2031-05-18 00:00", -7_789_500), ("1936821010", 500), ("1936821010.5", 0), ("1936821010500", 0),
    ],
)  # fmt: skip
def test_a_moment_is_read(text: str, ago_ms: int) -> None:
    assert read_moment(text, NOW_MS) == NOW_MS - ago_ms


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "write 21:50"),
        ("yesterday", "write 21:50"),
        ("25:00", "this time of day does not exist"),
        ("-10", "has a unit"),
        ("12:60", "this time of day does not exist"),
        ("2031-02-30", "this day does not exist"),
        ("2031-05-17 noon", "write the time after the date"),
        ("12", "write 21:50"),
        ("0000-01-01", "this day does not exist"),
        ("٢١:٥٠", "write 21:50"),
        ("\x1b[2J", "write 21:50"),
        ("-999999999999d", "outside the calendar"), ("+9999999d", "outside the calendar"),
    ],
)  # fmt: skip
def test_what_is_none_is_refused_in_a_sentence(text: str, why: str) -> None:
    with pytest.raises(MomentError, match=why) as known:
        read_moment(text, NOW_MS)
    assert "\n" not in str(known.value)
    assert str(known.value).isprintable()


def test_a_moment_is_read_in_a_time_zone() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    now = datetime(2031, 10, 26, 12, tzinfo=UTC)
    now_ms = round(now.timestamp() * 1000)

    def read(text: str) -> str:
        return f"{datetime.fromtimestamp(read_moment(text, now_ms, berlin) / 1000, UTC):%d %H:%M}"

    # The clocks go back at 03:00 CEST; a time that they show twice is the first of the two.
    texts = ("13:00", "14:00", "2031-10-26 02:30", "2031-10-26 03:00", "2031-10-26", "12:00 UTC", "2031-10-26 00:30Z")
    assert [read(text) for text in texts] == [
        *("26 12:00", "25 12:00", "26 00:30", "26 02:00", "25 22:00", "26 12:00", "26 00:30")
    ]
    assert read_moment("now", now_ms, berlin) == now_ms
    assert end_of_day(now_ms, berlin) == round(datetime(2031, 10, 26, 23, tzinfo=UTC).timestamp() * 1000) - 1
    assert read_end("02:00", read_moment("2031-10-25 23:00", now_ms, berlin), now_ms, berlin) == now_ms - 12 * HOUR_MS
