"""The charts folded: below 100 columns each series is a line with its name, a sparkline and what it is now."""

import pytest
from textual.pilot import Pilot
from textual.strip import Strip

from rsmq_tui.tui.widgets.charts import ChartPanel, SparkPanel
from tests.tui.driving import opened, play_rows, press, resized, settled, shown
from tests.tui.reading import app_of, lines_of, text_of
from tests.tui.scripted import START_MS, ScriptedSource, row_of
from tests.tui.states import one_of_each

NARROW = (90, 28)
BLOCKS = set("▁▂▃▄▅▆▇█")


def _lines(pilot: Pilot[None]) -> list[str]:
    return lines_of(pilot.app.screen.query_one(SparkPanel))


def _spark(line: str) -> str:
    return "".join(character for character in line if character in BLOCKS)


async def _ten_minutes(pilot: Pilot[None]) -> None:
    """Play a queue whose backlog and arrivals rise for ten minutes, and that nobody deletes from."""
    for minute in range(11):
        rows = {"orders": row_of(depth=minute * 60 + 7, hidden=7, sent=minute * minute * 60)}
        await play_rows(pilot, rows, START_MS + minute * 60_000)


@pytest.mark.parametrize("width", [40, 60, 99])
async def test_each_line_is_a_name_a_sparkline_and_a_value(source: ScriptedSource, width: int) -> None:
    async with opened(source, size=(width, 28)) as pilot:
        await _ten_minutes(pilot)
        ready, hidden, arrivals, deletes = lines = _lines(pilot)
        assert [line.split()[0] for line in lines] == ["ready", "hidden", "arrivals/s", "deletes/s"]
        assert [line.split()[-1] for line in lines] == ["600", "7", "19.0", "18.0"]
        assert {len(line) for line in lines} == {width - 2}
        assert len(_spark(ready)) == width - 2 - len("arrivals/s  ") - 9 - (11 if width > 60 else 0)
        # It rose from nothing to what it is now; hidden stayed as it was, and is drawn to its own scale.
        assert _spark(ready)[0] == "▁"
        assert _spark(ready)[-1] == "▇"
        assert list(_spark(ready)) == sorted(_spark(ready))
        assert set(_spark(hidden)) == {"▄"}
        assert _spark(arrivals)[-1] == "▇"
        # The rates are drawn to one scale: fewer deletes are lower.
        assert _spark(deletes)[-1] <= _spark(arrivals)[-1]


async def test_the_queue_screen_folds_its_charts_too(source: ScriptedSource) -> None:
    async with opened(source, size=NARROW) as pilot:
        await _ten_minutes(pilot)
        await press(pilot, "enter")
        lines = _lines(pilot)
        assert [line.split()[0] for line in lines] == ["ready", "hidden", "arrivals/s", "deletes/s", "receives/s"]
        assert [line.split()[-1] for line in lines] == ["600", "7", "19.0", "18.0", "0.0"]
        assert all(_spark(line) for line in lines)
        assert all(chart.region.height == 0 for chart in pilot.app.screen.query(ChartPanel))


async def test_values_follow_each_poll_and_unknown_is_a_dash(source: ScriptedSource) -> None:
    async with opened(source, size=NARROW) as pilot:
        await play_rows(pilot, {"orders": row_of(depth=38_112)})
        assert [line.split() for line in _lines(pilot)[::3]] == [
            ["ready", "▄", "max", "38,112", "38,112"],
            ["deletes/s", "–"],
        ]
        await play_rows(pilot, {"orders": row_of(depth=38_113)}, START_MS + 1000)
        assert _lines(pilot)[0].split()[-1] == "38,113"


async def test_the_maximum_is_never_below_the_value_beside_it(source: ScriptedSource) -> None:
    async with opened(source, size=NARROW) as pilot:
        await play_rows(pilot, {"orders": row_of(depth=251)})
        await press(pilot, "enter")
        # So soon after the last time the past is not drawn again.
        await play_rows(pilot, {"orders": row_of(depth=253)}, START_MS + 1000)
        assert _lines(pilot)[0].split()[-3:] == ["max", "253", "253"]


async def test_nothing_is_said_before_anything_is_known(source: ScriptedSource) -> None:
    async with opened(source, size=NARROW) as pilot:
        source.play(source.last)
        await shown(pilot, source)
        assert [line.split() for line in _lines(pilot)] == [["ready"], ["hidden"], ["arrivals/s"], ["deletes/s"]]


async def test_ascii_draws_with_other_marks(source: ScriptedSource) -> None:
    async with opened(source, size=NARROW, ascii_only=True) as pilot:
        await _ten_minutes(pilot)
        assert all(line.split()[1:] for line in _lines(pilot))
        assert text_of(app_of(pilot)).isascii()
        assert "#" in text_of(app_of(pilot))


async def test_they_dim_when_stale(source: ScriptedSource) -> None:
    async with opened(source, one_of_each(), size=NARROW) as pilot:
        pilot.app.screen.add_class("-stale")
        await settled(pilot)
        assert pilot.app.screen.query_one(SparkPanel).styles.opacity < 1


@pytest.mark.usefixtures("painting")
async def test_charts_that_are_hidden_are_not_drawn(source: ScriptedSource, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(source, size=(120, 30)) as pilot:
        await _ten_minutes(pilot)
        await resized(pilot, *NARROW)
        drawn: list[ChartPanel] = []

        def paint(panel: ChartPanel) -> list[Strip]:
            drawn.append(panel)
            return []

        monkeypatch.setattr(ChartPanel, "paint", paint)
        await play_rows(pilot, {"orders": row_of(depth=9)}, START_MS + 11 * 60_000)
        assert drawn == []
        await resized(pilot, 120, 30)
        assert drawn
