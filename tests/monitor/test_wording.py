"""How numbers, spans, sizes and moments are put into words."""

from collections.abc import Callable
from datetime import UTC
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsmq_tui.monitor import text

SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000


@pytest.mark.parametrize("say", [text.count, text.compact, text.rate, text.duration, text.seconds])
def test_none_is_a_dash(say: Callable[[None], str]) -> None:
    assert say(None) == "–"
    assert text.size(None) == text.clock(None) == text.clock(None, date=True) == "–"


WORDS: dict[Callable[[Any], str], list[tuple[float, str]]] = {
    text.duration_up: [
        (0, "0 ms"),
        (999, "999 ms"),
        (SECOND, "1 s"),
        (11_700, "12 s"),
        (9 * MINUTE + 59_001, "10m"),
        (HOUR, "1h 0m"),
        (2 * HOUR + 1, "2h 1m"),
        (DAY - 1, "1d 0h"),
        (3 * DAY + 1, "3d 1h"),
        (1000 * DAY + 1, "1,001d"),
    ],
    text.duration: [
        (-5000, "0 ms"),
        (0, "0 ms"),
        (0.4, "0 ms"),
        (850, "850 ms"),
        (999, "999 ms"),
        (999.4, "999 ms"),
        (999.6, "1 s"),
        (SECOND, "1 s"),
        (12_999, "12 s"),
        (MINUTE - 1, "59 s"),
        (MINUTE, "1m 0s"),
        (9 * MINUTE + 59_999, "9m 59s"),
        (10 * MINUTE, "10m"),
        (HOUR - 1, "59m"),
        (HOUR, "1h 0m"),
        (2 * HOUR + 14 * MINUTE, "2h 14m"),
        (DAY - 1, "23h 59m"),
        (DAY, "1d 0h"),
        (3 * DAY + 4 * HOUR, "3d 4h"),
        (1000 * DAY, "1,000d"),
        (20_255 * DAY, "20,255d"),
        (1e297, "–"),
        (float("inf"), "–"),
    ],
    text.compact: [
        (0, "0"),
        (38_112, "38,112"),
        (99_999, "99,999"),
        (99_999.6, "100k"),
        (100_000, "100k"),
        (381_400, "381k"),
        (999_499, "999k"),
        (999_999, "1.0M"),
        (1_000_000, "1.0M"),
        (38_100_000, "38.1M"),
        (99_960_000, "100M"),
        (381_000_000, "381M"),
        (999_999_999, "1.0G"),
        (1_000_000_000, "1.0G"),
        (999_000_000_000, "999G"),
        (999_999_000_000, "1e+12"),
        (1e15, "1e+15"),
        (-7, "-7"),
    ],
    text.rate: [
        (0.0, "0.0"),
        (0.04, "0.0"),
        (812.04, "812.0"),
        (38_112.5, "38,112.5"),
        (99_999.96, "100k"),
        (381_000.0, "381k"),
    ],
    text.size: [
        (0, "0 B"),
        (212, "212 B"),
        (999, "999 B"),
        (1000, "1.0 KiB"),
        (4301, "4.2 KiB"),
        (1000 * 1024 - 1, "1.0 MiB"),
        (12 * 2**20, "12.0 MiB"),
        (500 * 2**20, "500.0 MiB"),
        (3 * 2**30, "3.0 GiB"),
        (5 * 2**50, "5,120.0 TiB"),
    ],
    text.exact_seconds: [
        (0, "0 s"),
        (59, "59 s"),
        (1200, "20m"),
        (3700, "1h 1m 40s"),
        (9_999_999, "115d 17h 46m 39s"),
    ],
    text.seconds: [
        (0, "0 s"),
        (30, "30 s"),
        (15.5, "15.5 s"),
        (599, "599 s"),
        (600, "10m"),
        (7200, "2h 0m"),
    ],
}


@pytest.mark.parametrize(
    ("say", "value", "words"), [(say, value, words) for say, rows in WORDS.items() for value, words in rows]
)
def test_numbers_in_words(say: Callable[[Any], str], value: float, words: str) -> None:
    assert say(value) == words


@given(st.integers(0, 10**30))
def test_compact_takes_six_characters_at_most(value: int) -> None:
    assert len(text.compact(value)) <= 6


@pytest.mark.parametrize(
    ("at_ms", "time", "date"),
    [
        (0, "00:00:00.000", "1970-01-01 "),
        (1_750_000_000_121, "15:06:40.121", "2025-06-15 "),
        (1_750_000_000_999.9, "15:06:40.999", "2025-06-15 "),
        (-62_135_596_800_000, "00:00:00.000", "1-01-01 "),
    ],
)
def test_clock(at_ms: float, time: str, date: str) -> None:
    assert text.clock(at_ms) == time
    assert text.clock(at_ms, date=True).lstrip("0") == (date + time).lstrip("0")


@pytest.mark.parametrize("at_ms", [1e18, -1e18, 1e300, float("inf"), float("nan")])
def test_a_moment_beyond_the_calendar_is_unknown(at_ms: float) -> None:
    assert text.clock(at_ms) == "–"


def test_a_clock_time_with_its_zone() -> None:
    text.show_in_zone(ZoneInfo("Europe/Berlin"))
    try:
        said = [text.date_clock(at_ms, zone=True) for at_ms in (1_792_888_200_999, 1_792_891_800_000)]
        assert said == ["2026-10-25 02:30:00 CEST", "2026-10-25 02:30:00 CET"]
        assert text.clock(1_792_888_200_999, zone=True) == "02:30:00.999 CEST"
    finally:
        text.show_in_zone(UTC)
    assert text.date_clock(None, zone=True) == text.clock(None, zone=True) == "–"
    # A client may write any time.
    assert text.date_clock(-60_000_000_000_000, zone=True).endswith("-09-03 13:20:00 UTC")


@given(st.integers(0, 4_102_444_800_000))
def test_clock_keeps_the_milliseconds(at_ms: int) -> None:
    assert text.clock(at_ms).endswith(f".{at_ms % 1000:03d}")


@pytest.mark.parametrize(
    ("number", "words"), [(0, "0 messages"), (1, "1 message"), (2, "2 messages"), (1234, "1,234 messages")]
)
def test_plural(number: int, words: str) -> None:
    assert text.plural(number, "message") == words


def test_count_has_thousands_separators() -> None:
    assert text.count(1_234_567) == "1,234,567"
