"""What an analysis answers besides lines, and how it deals with files that are gone or damaged."""

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import fsspec
import pytest

from rsmq_tui.history.analysis.reading import Analysis
from rsmq_tui.history.analysis.schema import BASELINE, EPISODES, MANIFEST_FILE, QUEUES, ROLLUP_1H, VERDICT_RUNS, VERSION
from rsmq_tui.history.analysis.values import TimeRange
from rsmq_tui.history.names import HistoryError
from rsmq_tui.history.report.facts import gather
from rsmq_tui.monitor.moments import DAY_MS, HOUR_MS
from tests.history.analysis.made import Made, bucket, depth_of, episode, line_of, named, scripted
from tests.history.analysis.queues import (
    EMAILS,
    END_MS,
    EU,
    GAP,
    INVOICES,
    ORDERS,
    OUTAGE,
    PROD,
    REFS,
    START_MS,
    WEBHOOKS,
)

pytestmark = pytest.mark.slow

ALL = TimeRange(START_MS, END_MS)
LAST = TimeRange(END_MS - DAY_MS, END_MS)


def test_it_tells_its_queues_its_time_and_where_it_comes_from(analysis: Analysis) -> None:
    assert [facts.ref for facts in analysis.queues()] == [EMAILS, INVOICES, ORDERS, WEBHOOKS]
    assert analysis.span() == TimeRange(START_MS, END_MS - 5_000)
    known = analysis.manifest
    assert (known.history, known.made_ms, analysis.problems) == ("/var/lib/history", END_MS, ())


def test_it_begins_with_the_first_sample_not_with_its_hour(tmp_path: Path) -> None:
    made = Made(tmp_path)
    first_ms, last_ms = START_MS + 1_507_000, START_MS + 1_586_000
    for ref in (ORDERS, EMAILS):
        made.add(QUEUES, {**named(ref), "first_ms": START_MS, "last_ms": last_ms, "samples": 80})
        run = {"verdict": "ok", "first_ms": first_ms, "last_ms": last_ms, "continues": False}
        made.add(VERDICT_RUNS, {**named(ref), **run})
    made.publish()

    analysis = Analysis(tmp_path)

    assert analysis.span() == TimeRange(first_ms, last_ms)
    # Nothing was recorded before, though its hour had begun.
    assert gather(analysis, TimeRange(first_ms, last_ms)).before is None


def test_episodes_are_those_that_reach_into_the_range(analysis: Analysis) -> None:
    every = analysis.episodes(ALL)
    assert [one.verdict for one in every] == ["broken", "aged", "down", "growing", "stalled", "poisoned"]
    middle = OUTAGE[0] + 60_000
    (down,) = analysis.episodes(TimeRange(middle, middle + 1))
    assert (down.queue, down.ref, down.place, down.start_ms) == (None, None, PROD, OUTAGE[0])
    assert analysis.episodes(TimeRange(START_MS, START_MS + DAY_MS)) == ()


def test_the_outage_of_a_place_is_one_of_each_of_its_queues(analysis: Analysis) -> None:
    assert [one.verdict for one in analysis.episodes(ALL, [ORDERS])] == ["down", "growing"]
    assert analysis.episodes(ALL, [WEBHOOKS]) == ()
    assert analysis.episodes(ALL, []) == ()


def test_heat_has_a_row_for_each_day_and_a_hole_for_what_is_unknown(analysis: Analysis) -> None:
    heat = analysis.heat([ORDERS], "depth", TimeRange(START_MS, END_MS - 1))
    assert [day for day, _ in heat.rows] == [START_MS + n * DAY_MS for n in range(4)]
    for day, hours in heat.rows:
        for hour, value in enumerate(hours):
            at_ms = day + hour * HOUR_MS
            assert value == (None if GAP[0] <= at_ms < GAP[0] + HOUR_MS else depth_of(ORDERS, at_ms)), (day, hour)
    assert heat.peak == depth_of(ORDERS, START_MS + 3 * DAY_MS + 16 * HOUR_MS)


def test_heat_by_week_is_the_mean_of_each_hour_of_the_week(tmp_path: Path) -> None:
    made = Made(tmp_path)
    # Wednesdays at 03:00.
    for week, depth in enumerate((10.0, 20.0, 60.0)):
        made.add(ROLLUP_1H, bucket(ORDERS, START_MS + 7 * week * DAY_MS + 3 * HOUR_MS, HOUR_MS, depth=depth))
    made.add(QUEUES, {**named(ORDERS), "first_ms": START_MS, "last_ms": START_MS + 21 * DAY_MS})
    made.publish()
    heat = Analysis(tmp_path).heat(None, "depth", TimeRange(START_MS, START_MS + 21 * DAY_MS), by_week=True)
    assert len(heat.rows) == 7
    assert [(day, hour, v) for day, hours in heat.rows for hour, v in enumerate(hours) if v is not None] == [(2, 3, 30)]


def test_tables_are_in_the_order_of_what_matters(analysis: Analysis) -> None:
    assert [one.rc for one in analysis.poison(ALL)] == [11, 10, 9]
    assert [one.ref for one in analysis.advice()] == [INVOICES, ORDERS]
    assert [one.ref for one in analysis.forecasts()] == [ORDERS, WEBHOOKS]
    assert [one.score for one in analysis.anomalies(ALL)] == [21.0, 9.5, -7.1]


def test_tables_can_be_asked_for_some_queues_and_a_time(analysis: Analysis) -> None:
    assert analysis.poison(TimeRange(START_MS, START_MS + DAY_MS)) == ()
    assert [one.ref for one in analysis.advice([ORDERS, EMAILS])] == [ORDERS]
    assert [one.ref for one in analysis.forecasts([WEBHOOKS])] == [WEBHOOKS]
    at_ms = START_MS + 3 * DAY_MS + 9 * HOUR_MS
    assert [one.bucket_ms for one in analysis.anomalies(TimeRange(at_ms, at_ms + HOUR_MS - 1))] == [at_ms]
    assert analysis.anomalies(ALL, [EMAILS]) == ()


def test_a_band_follows_the_hours_of_the_week(analysis: Analysis) -> None:
    band = analysis.band(ORDERS, "depth", LAST)
    assert [at_ms for at_ms, *_ in band.points] == list(range(LAST.from_ms, LAST.to_ms + 1, HOUR_MS))
    assert band.points[0][1:] == pytest.approx((300 - 88.956, 300.0, 300 + 88.956))
    assert analysis.band(ORDERS, "arrivals_s", LAST).points == ()


def test_a_band_follows_the_clocks_of_its_zone(tmp_path: Path) -> None:
    made = Made(tmp_path)
    for hour in range(168):
        usual = {"metric": "depth", "hour_of_week": hour, "hours": 12, "median": float(hour), "mad": 0.0}
        made.add("baseline", {**named(ORDERS), **usual, "zone": "Europe/Berlin"})
    made.publish()
    # The Sunday on which the clocks there go from 2:00 to 3:00, which is at 1:00 UTC.
    change_ms = round(datetime(2031, 3, 30, 1, tzinfo=UTC).timestamp() * 1000)

    band = Analysis(tmp_path).band(ORDERS, "depth", TimeRange(change_ms - 2 * HOUR_MS, change_ms + HOUR_MS))

    assert [middle for _, _, middle, _ in band.points] == [144.0, 145.0, 147.0, 148.0]


def test_what_happened_twice_is_not_what_is_usual(tmp_path: Path) -> None:
    made = Made(tmp_path)
    for hour in range(168):
        usual = {"metric": "depth", "hour_of_week": hour, "hours": 2, "median": 300.0, "mad": 20.0}
        made.add(BASELINE, {**named(ORDERS), **usual})
    made.publish()
    assert Analysis(tmp_path).band(ORDERS, "depth", LAST).points == ()


@pytest.mark.parametrize("kind", ["missing", "empty", "a file"])
def test_where_there_is_none_a_sentence_says_how_to_make_one(tmp_path: Path, kind: str) -> None:
    out = tmp_path / "out"
    if kind == "empty":
        out.mkdir()
    elif kind == "a file":
        out.write_text("x")
    words = "cannot be read" if kind == "a file" else "is not an analysis: rsmq-tui pipeline run --history DIR --out"
    with pytest.raises(HistoryError, match=words):
        Analysis(out)


def test_a_later_version_is_refused(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.publish()
    path = tmp_path / MANIFEST_FILE
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema": VERSION + 1}))
    with pytest.raises(HistoryError, match=f"has version {VERSION + 1}"):
        Analysis(tmp_path)


def test_an_unreadable_file_is_left_out_and_named(tmp_path: Path) -> None:
    made = scripted(tmp_path)
    day = "2031-05-15"
    broken = tmp_path / "runs/run-1" / ROLLUP_1H / f"day={day}/part-0.parquet"
    broken.write_bytes(broken.read_bytes()[:-40])
    analysis = Analysis(tmp_path)
    heat = analysis.heat([ORDERS], "depth", TimeRange(START_MS, END_MS - 1))
    assert [all(value is None for value in hours) for _, hours in heat.rows] == [False, True, False, False]
    (problem,) = analysis.problems
    assert f"day={day}/part-0.parquet was left out: " in problem
    assert "\n" not in problem
    assert analysis.heat([ORDERS], "depth", TimeRange(START_MS, END_MS - 1)) == heat
    assert len(analysis.problems) == 1
    made.publish("run-2", problems=["a day was left out"])
    assert analysis.renew()
    assert analysis.problems == ("a day was left out",)


def test_a_newer_run_that_removed_the_files_is_followed(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.add(EPISODES, episode(PROD, "orders", "aged", START_MS, START_MS + 1))
    made.publish("run-1")
    analysis = Analysis(tmp_path)
    made.add(EPISODES, episode(EU, "webhooks", "stalled", START_MS, START_MS + 1))
    made.publish("run-2")
    shutil.rmtree(tmp_path / "runs/run-1")
    assert [one.verdict for one in analysis.episodes(ALL)] == ["stalled", "aged"]
    assert analysis.problems == ()


def test_a_file_that_is_gone_for_good_is_left_out_and_named(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.add(EPISODES, episode(PROD, "orders", "aged", START_MS, START_MS + 1))
    made.publish()
    analysis = Analysis(tmp_path)
    shutil.rmtree(tmp_path / "runs")
    assert analysis.episodes(ALL) == ()
    (problem,) = analysis.problems
    assert "was left out: the file is missing; run the pipeline with --full" in problem


def test_only_the_files_of_the_asked_days_are_opened(tmp_path: Path) -> None:
    scripted(tmp_path)
    for path in tmp_path.glob("runs/*/rollup_*/day=2031-05-1[45]/*"):
        path.write_bytes(b"no parquet")
    analysis = Analysis(tmp_path)
    line_of(analysis, REFS, "depth", LAST)
    analysis.heat(REFS, "depth", LAST)
    assert analysis.problems == ()


def test_an_empty_analysis_answers_everything_with_nothing(tmp_path: Path) -> None:
    Made(tmp_path).publish()
    analysis = Analysis(tmp_path)
    assert (analysis.span(), analysis.queues(), analysis.episodes(ALL)) == (None, (), ())
    assert line_of(analysis, None, "depth", ALL).points == ()
    assert line_of(analysis, [ORDERS], "depth", ALL).is_empty
    assert analysis.heat([ORDERS], "depth", ALL, by_week=True).rows == ()
    assert analysis.band(ORDERS, "depth", ALL).points == ()


def test_rows_without_what_makes_them_one_are_left_out(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.add(QUEUES, {**named(ORDERS), "first_ms": None, "last_ms": 1}, {"server": "redis://h", "queue": "x"})
    made.add(EPISODES, episode(PROD, "orders", "aged", START_MS, START_MS + 1) | {"verdict": None})
    made.publish()
    analysis = Analysis(tmp_path)
    assert (analysis.queues(), analysis.episodes(ALL)) == ((), ())


def test_an_analysis_is_read_from_any_filesystem(tmp_path: Path, analysis: Analysis) -> None:
    made = scripted(tmp_path / "here")
    memory = fsspec.filesystem("memory")
    memory.put(str(made.out), "/there", recursive=True)
    try:
        remote = Analysis("memory://there", state=tmp_path)
        assert remote.episodes(ALL) == analysis.episodes(ALL)
        assert line_of(remote, None, "depth", LAST) == line_of(analysis, None, "depth", LAST)
        assert not remote.problems
        memory.rm("/there/runs", recursive=True)
        assert remote.episodes(ALL) == ()
        assert "the file is missing" in remote.problems[0]
    finally:
        memory.rm("/there", recursive=True)
