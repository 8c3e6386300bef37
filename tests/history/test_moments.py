"""Moments as people write them."""

import pytest

from rsmq_tui.history.moments import MomentError, read_moment

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
    with pytest.raises(MomentError, match=why) as told:
        read_moment(text, NOW_MS)
    assert "\n" not in str(told.value)
    assert str(told.value).isprintable()
