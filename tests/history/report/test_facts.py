"""What a report claims of all queues together, and of forecasts, holds for each queue and for its range."""

from pathlib import Path

from rsmq_tui.history.analysis.reading import Analysis
from rsmq_tui.history.analysis.schema import QUEUES, ROLLUP_10S
from rsmq_tui.history.analysis.values import QueueRef, TimeRange
from rsmq_tui.history.report.html import as_html
from rsmq_tui.history.report.markdown import as_markdown
from rsmq_tui.history.report.words import Report, gather, summary
from tests.history.analysis.made import (
    DAY_MS,
    EMAILS,
    END_MS,
    EU,
    ORDERS,
    START_MS,
    WEBHOOKS,
    Made,
    bucket,
    episode,
    named,
)
from tests.history.report.reading import parsed, section_of, text_of

HOUR = TimeRange(START_MS, START_MS + 3_600_000)


def of(made: Made, peaks: dict[QueueRef, dict[int, float]], buckets: int = 360) -> Report:
    """An hour in buckets of ten seconds: each queue is empty, but for some buckets whose greatest depth is given."""
    for ref, greatest in peaks.items():
        known = {"kind": "rsmq", "first_ms": START_MS, "last_ms": HOUR.to_ms, "samples": 10}
        made.add(QUEUES, {**named(ref), **known, "peak_depth": 1, "last_depth": 0})
        for number in range(buckets):
            row = bucket(ref, START_MS + number * 10_000, 10_000, samples=2, depth=0.0)
            if number in greatest:
                # It was there for a part of the bucket only.
                row |= {"depth_mean": greatest[number] / 2, "depth_max": greatest[number]}
            made.add(ROLLUP_10S, row)
    in_trouble = episode(ORDERS.place, "orders", "aged", START_MS, START_MS + 60_000, peak_depth=None, peak_ms=None)
    made.add("episodes", in_trouble)
    made.publish()
    return gather(Analysis(made.out), HOUR)


def test_together_is_never_less_than_what_one_queue_held(tmp_path: Path) -> None:
    report = of(Made(tmp_path), {ORDERS: {7: 1000.0}, EMAILS: {300: 400.0}})
    assert report.fullest is not None
    assert report.fullest == (START_MS + 70_000, 1000.0, 1000.0)
    assert "The total depth peaked at 2031-05-14 00:01: about 1,000 messages." in summary(report)[0]


def test_peaks_of_one_moment_may_add_up(tmp_path: Path) -> None:
    report = of(Made(tmp_path), {ORDERS: {7: 1000.0}, EMAILS: {7: 400.0}})
    assert report.fullest == (START_MS + 70_000, 1000.0, 1400.0)
    assert "at 2031-05-14 00:01: between 1,000 and 1,400 messages." in summary(report)[0]


def test_a_place_that_was_not_polled_hides_no_peak_of_another(tmp_path: Path) -> None:
    made = Made(tmp_path)
    rows = {ORDERS: {200: 5000.0}, WEBHOOKS: {3: 10.0}}
    of(made, rows)
    stored = [row for part in made.rows[ROLLUP_10S].pop("2031-05-14") for row in part.to_pylist()]
    made.add(ROLLUP_10S, *(row for row in stored if not _is_away(row)))
    made.publish("run-2")
    report = gather(Analysis(tmp_path), HOUR)
    assert max(value for _, value in report.depth.points if value is not None) < 5000
    assert report.fullest == (START_MS + 2_000_000, 5000.0, 5000.0)


def _is_away(row: dict[str, object]) -> bool:
    at_ms = row["bucket_ms"]
    assert isinstance(at_ms, int)
    return row["server"] == EU.server and at_ms >= START_MS + 1_000_000


def test_an_episode_within_the_range_counts_where_its_roll_up_is_lost(tmp_path: Path) -> None:
    made = Made(tmp_path)
    place = ORDERS.place
    made.add("episodes", episode(place, "orders", "aged", START_MS, START_MS + 60_000, peak_depth=9_000))
    before = episode(place, "emails", "aged", START_MS - DAY_MS, START_MS + 60_000, peak_depth=99_000)
    made.add("episodes", {**before, "peak_ms": START_MS - DAY_MS})
    report = of(made, {ORDERS: {7: 1000.0}, EMAILS: {}})
    assert report.fullest is not None
    assert report.fullest.least == 9_000


def test_forecasts_of_another_time_say_so(tmp_path: Path, analysis_folder: Path) -> None:
    told = "Forecasts are made at 2031-05-17 23:00, which may be later than the range of this report"
    report = gather(Analysis(analysis_folder), TimeRange(START_MS, START_MS + DAY_MS))
    assert told in text_of(section_of(parsed(as_html(report)), "forecasts"))
    assert told in as_markdown(report)
    assert "| As of |" in as_markdown(report)
    later = gather(Analysis(analysis_folder), TimeRange(END_MS - DAY_MS, END_MS))
    assert told not in as_markdown(later)
