import math
from datetime import UTC, date, datetime, time, timedelta
from itertools import product
from zoneinfo import ZoneInfo

import pytest

from rsmq_tui.charts.series import tick_label, time_ticks, value_ticks

SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000
# 2023-11-14 00:00 UTC
MIDNIGHT = 1_699_920_000_000


@pytest.mark.parametrize(
    ("value", "label"),
    [
        (0, "0"), (0.25, "0.25"), (0.05, "0.05"), (12.5, "12.5"), (850, "850"), (999.4, "999"), (999.6, "1k"),
        (1000, "1k"), (1200, "1.2k"), (9949, "9.9k"), (9960, "10k"), (38_112, "38k"), (850_000, "850k"),
        (999_600, "1M"), (4_100_000, "4.1M"), (2e9, "2G"), (3e12, "3T"), (4e15, "4P"), (1e18, "1E"), (1e21, "1e21"),
        (1.5e300, "1.5e300"),
        (1e308, "1e308"), (-1200, "-1.2k"), (math.nan, "–"), (math.inf, "–"),
    ],
)  # fmt: skip
def test_tick_label(value: float, label: str) -> None:
    assert tick_label(value) == label


@pytest.mark.parametrize(
    ("largest", "steps", "ticks"),
    [
        (830, 4, [0, 300, 600, 900]),
        (612, 4, [0, 200, 400, 600, 800]),
        (38_112, 4, [0, 10_000, 20_000, 30_000, 40_000]),
        (3, 1, [0, 3]),
        (1150, 1, [0, 1200]),
        (0, 4, [0, 1]),
        (-5, 4, [0, 1]),
        (5e-324, 4, [0, 1]),
    ],
)
def test_value_ticks(largest: float, steps: int, ticks: list[float]) -> None:
    assert value_ticks(largest, steps) == pytest.approx(ticks)


def test_counts_have_whole_ticks() -> None:
    assert value_ticks(1, 4, whole=True) == [0, 1]
    assert value_ticks(3, 5, whole=True) == [0, 1, 2, 3]


def test_the_largest_float_has_an_axis() -> None:
    assert value_ticks(1.7e308, 4) == [0, 1.7e308]


@pytest.mark.parametrize("steps", range(1, 6))
def test_an_axis_holds_the_largest_and_wastes_less_than_half(steps: int) -> None:
    for exponent, mantissa in product([-8, -3, 0, 2, 5, 18, 300], [1, 1.01, 1.49, 2, 3.3, 5.5, 9.99]):
        largest = mantissa * 10.0**exponent
        ticks = value_ticks(largest, steps)
        assert 2 <= len(ticks) <= steps + 1, largest
        assert largest <= ticks[-1] * 1.000001 < 2 * largest * 1.000001
        assert len({tick_label(tick) for tick in ticks}) == len(ticks), largest


@pytest.mark.parametrize(
    ("span_ms", "labels"),
    [
        (4 * SECOND, ["00:00:00", "00:00:01", "00:00:02", "00:00:03", "00:00:04"]),
        (60 * SECOND, ["00:00:00", "00:00:15", "00:00:30", "00:00:45", "00:01:00"]),
        (10 * MINUTE, ["00:00", "00:02", "00:04", "00:06", "00:08", "00:10"]),
        (2 * HOUR, ["00:00", "00:30", "01:00", "01:30", "02:00"]),
        (DAY, ["00:00", "06:00", "12:00", "18:00", "00:00"]),
        (5 * DAY, ["11-14", "11-15", "11-16", "11-17", "11-18", "11-19"]),
    ],
)
def test_time_ticks(span_ms: int, labels: list[str]) -> None:
    assert [label for _, label in time_ticks(MIDNIGHT, MIDNIGHT + span_ms, 120)] == labels


@pytest.mark.parametrize("span_s", [3, 7, 11, 59, 61, 100, 299, 600, 900, 1234, 3600, 5000, 86_400, 10**6, 10**9])
def test_three_to_six_round_times_inside(span_s: int) -> None:
    for offset_ms in (0, 1, 999, 13_370, 59_999, 7 * HOUR + 123):
        start, end = MIDNIGHT + offset_ms, MIDNIGHT + offset_ms + span_s * SECOND
        ticks = time_ticks(start, end, 120)
        assert 3 <= len(ticks) <= 6, offset_ms
        assert all(start <= at_ms <= end for at_ms, _ in ticks), offset_ms


def test_labels_fit_the_axis() -> None:
    for width in range(1, 60):
        ticks = time_ticks(MIDNIGHT, MIDNIGHT + 10 * MINUTE, width)
        assert len(ticks) <= 1 or sum(len(label) + 1 for _, label in ticks) - 1 <= width, width


def test_impossible_times_have_no_label() -> None:
    assert {label for _, label in time_ticks(10**25, 10**25 + 100 * DAY, 100)} == {""}
    assert {label for _, label in time_ticks(10**25, 10**45, 100)} == {""}


@pytest.mark.parametrize(
    ("zone", "first", "days", "change"),
    [
        ("Europe/Berlin", date(2026, 10, 24), 4, "back at three o'clock"),
        ("Europe/Berlin", date(2026, 3, 28), 4, "forward at two o'clock"),
        ("America/Santiago", date(2026, 4, 3), 4, "back at midnight"),
        ("America/Santiago", date(2026, 9, 4), 4, "forward at midnight, so that there is none"),
    ],
)
def test_days_begin_at_midnight_when_clocks_are_set(zone: str, first: date, days: int, change: str) -> None:
    midnights = [datetime.combine(first + timedelta(day), time(), ZoneInfo(zone)) for day in range(days + 1)]
    start_ms, end_ms = (round(at.timestamp() * 1000) for at in (midnights[0], midnights[-1]))

    ticks = time_ticks(start_ms, end_ms, 120, ZoneInfo(zone))
    assert [label for _, label in ticks] == [f"{at:%m-%d}" for at in midnights], change
    for (at_ms, _), midnight in zip(ticks, midnights, strict=True):
        # A midnight that is skipped, or comes twice, may be an hour off.
        assert abs(at_ms - midnight.timestamp() * 1000) <= (0 if "Berlin" in zone else HOUR)


@pytest.mark.parametrize("zone", ["Asia/Kolkata", "Europe/Berlin", "Australia/Lord_Howe", "America/Santiago"])
def test_ticks_are_round_and_true_on_the_clocks_of_a_zone(zone: str) -> None:
    clocks = ZoneInfo(zone)
    # Every few hours around the days on which clocks are set, else each hour of a day in turn.
    offsets = [datetime.fromtimestamp(MIDNIGHT / 1000 + day * 86_400, clocks).utcoffset() for day in range(366)]
    set_on = [day for day in range(365) if offsets[day] != offsets[day + 1]]
    assert len(set_on) == (0 if zone == "Asia/Kolkata" else 2)
    near = {hours for day in set_on for hours in range(day * 24 - 24, day * 24 + 49)}
    # The whole day is charted, an hour, and ten minutes.
    for hours in sorted(near | set(range(0, 365 * 24, 23))):
        start_ms = MIDNIGHT + hours * HOUR
        for span_ms, step_s in ((DAY, 6 * 3600), (5 * HOUR, 3600), (HOUR, 300), (10 * MINUTE, 120)):
            ticks = time_ticks(start_ms, start_ms + span_ms, 120, clocks)
            shown = [datetime.fromtimestamp(at_ms / 1000, clocks) for at_ms, _ in ticks]

            assert [label for _, label in ticks] == [f"{at:%H:%M}" for at in shown]
            assert len({at.replace(tzinfo=None, fold=0) for at in shown}) == len(shown)
            assert all((at.hour * 3600 + at.minute * 60) % step_s == 0 for at in shown), (shown, step_s)


@pytest.mark.parametrize(
    ("first", "hours", "labels"),
    [
        # From 03:00 back to 02:00, and from 02:00 forward to 03:00.
        (datetime(2031, 10, 25, 22, tzinfo=UTC), 24, ["00:00", "06:00", "12:00", "18:00"]),
        (datetime(2031, 10, 25, 22, tzinfo=UTC), 6, ["00:00", "01:00", "02:00", "03:00", "04:00", "05:00"]),
        (datetime(2031, 10, 26, 0, 30, tzinfo=UTC), 1, ["02:30", "02:40", "02:50", "02:00", "02:10", "02:20"]),
        (datetime(2031, 3, 29, 23, tzinfo=UTC), 24, ["00:00", "06:00", "12:00", "18:00", "00:00"]),
        (datetime(2031, 3, 29, 23, tzinfo=UTC), 5, ["00:00", "01:00", "03:00", "04:00", "05:00", "06:00"]),
    ],
)
def test_no_hour_is_labelled_twice_or_wrong_when_clocks_are_set(first: datetime, hours: int, labels: list[str]) -> None:
    start_ms = round(first.timestamp() * 1000)
    ticks = time_ticks(start_ms, start_ms + hours * HOUR, 120, ZoneInfo("Europe/Berlin"))
    assert [label for _, label in ticks] == labels
