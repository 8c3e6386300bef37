"""The screens after a restart: charts with a gap, and verdicts that began before."""

import re
from pathlib import Path

from rsmq_tui.monitor.text import clock
from rsmq_tui.monitor.tracking.memory import Memory
from rsmq_tui.monitor.tracking.place_tracker import PlaceTracker
from rsmq_tui.monitor.tracking.verdicts import Thresholds
from rsmq_tui.tui.widgets.charts import ChartPanel
from tests.tui.driving import opened, play_rows, press
from tests.tui.reading import app_of, lines_of, table_of, text_of
from tests.tui.scripted import START_MS, ScriptedSource, row_of

ROW = row_of(depth=300, sent=400, received=100)
BRAILLE = "[\u2801-\u28ff]"


async def restarted_source(folder: Path, *, ran_s: int, away_s: int) -> ScriptedSource:
    """Return a source that continues from a run of that length, which ended so long before START_MS."""
    end_ms = START_MS - away_s * 1000
    tracker, memory = PlaceTracker(Thresholds()), Memory(folder, "x")
    for at_ms in range(end_ms - ran_s * 1000, end_ms + 1, 30_000):
        tracker.begin(at_ms, ["orders"])
        tracker.add_rows([0], [ROW])
        tracker.finish()
        memory.save(tracker.moment())
    assert memory.problem is None
    source = ScriptedSource()
    await Memory(folder, "x").restore(source.tracker, START_MS)
    return source


async def test_a_queue_that_was_stalled_before_is_stalled_since_then(tmp_path: Path) -> None:
    source = await restarted_source(tmp_path, ran_s=300, away_s=60)
    async with opened(source) as pilot:
        await play_rows(pilot, {"orders": ROW})
        assert "no consumer ≥ 6m 0s" in lines_of(table_of(pilot))[1]
        await press(pilot, "enter")
        assert "300 messages ready and none received for 6m" in text_of(app_of(pilot))


async def test_the_chart_of_a_queue_has_a_gap(tmp_path: Path) -> None:
    source = await restarted_source(tmp_path, ran_s=240, away_s=60)
    async with opened(source, size=(160, 50)) as pilot:
        for second in range(0, 11, 5):
            await play_rows(pilot, {"orders": ROW}, START_MS + second * 1000)
        await press(pilot, "enter")
        chart = lines_of(pilot.app.screen.query_one("#depth", ChartPanel))
        # Both lines are level: each is on the same row before and after.
        assert len([line for line in chart if re.search(rf"{BRAILLE}{{30,}} {{8,}}{BRAILLE}", line)]) == 2


async def test_the_sums_of_the_counters_go_on(tmp_path: Path) -> None:
    source = await restarted_source(tmp_path, ran_s=300, away_s=3_000)
    async with opened(source, size=(260, 40)) as pilot:
        await play_rows(pilot, {"orders": row_of(depth=300, sent=1_000, received=700)})
        await press(pilot, "enter")
        since = clock(START_MS - 3_300_000)[:5]
        # No counter of a minute ago is known, only those from before.
        facts = " ".join(text_of(app_of(pilot)).split())
        assert f"· in 50m 600 sent, 600 received · since {since} 600 sent, 600 received" in facts


async def test_the_sparkline_and_the_sums_go_on(tmp_path: Path) -> None:
    source = await restarted_source(tmp_path, ran_s=300, away_s=120)
    async with opened(source) as pilot:
        await play_rows(pilot, {"orders": ROW})
        known = [point.ready for point in source.last.trend.totals]

        assert known == [300] * 11 + [None, 300]
        assert "max 300" in text_of(app_of(pilot))
