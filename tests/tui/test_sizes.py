"""Terminals of all sizes, and one that changes its size in the middle."""

import pytest
from textual.pilot import Pilot

from rsmq_tui.tui.columns import QUEUE_COLUMNS
from rsmq_tui.tui.widgets.chart_panel import ChartPanel
from rsmq_tui.tui.widgets.now_panel import NowPanel
from tests.tui.driving import (
    app_of,
    lines_of,
    names_in,
    opened,
    play,
    press,
    settled,
    table_of,
    text_of,
    until,
)
from tests.tui.scripted import ScriptedSource, messages_of
from tests.tui.states import one_of_each, poll_of, queue_of

TITLES = {column.title: column for column in QUEUE_COLUMNS}
SIZES = [(40, 10), (60, 16), (80, 24), (99, 30), (100, 30), (132, 36), (200, 60)]


def _shown(head: str) -> list[str]:
    return [title for title in TITLES if f"{title} " in f"{head} "]


async def _resized(pilot: Pilot[None], width: int, height: int) -> None:
    await pilot.resize_terminal(width, height)
    # The screen knows its new size at once; its layout follows when Textual's timer says so.
    await until(pilot, lambda: pilot.app.screen._compositor.size == (width, height), "the screen has its new size")
    await settled(pilot)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_names_ready_and_verdict_are_always_there(source: ScriptedSource, size: tuple[int, int]) -> None:
    async with opened(source, size=size) as pilot:
        await play(pilot, source, poll_of(source, one_of_each()))
        head, *rows = lines_of(table_of(pilot))
        shown = _shown(head)
        assert shown[:3] == ["VERDICT", "QUEUE", "READY"]
        # Those of a higher rank have left before any of a lower one.
        left = [column.drop for title, column in TITLES.items() if title not in shown]
        assert max([TITLES[title].drop for title in shown]) < min([*left, 99])
        assert rows[1].split()[:3] == ["■", "stalled", "emails"]
        assert "3,020" in rows[1]
        assert all(len(line) == size[0] for line in text_of(app_of(pilot)).splitlines())


async def test_columns_leave_one_by_one_as_the_terminal_narrows(source: ScriptedSource) -> None:
    async with opened(source, size=(132, 20)) as pilot:
        await play(pilot, source, poll_of(source, one_of_each()))
        before = len(_shown(lines_of(table_of(pilot))[0]))
        assert before == len(TITLES)
        for width in range(130, 38, -10):
            await _resized(pilot, width, 20)
            lines = lines_of(table_of(pilot))
            now = len(_shown(lines[0]))
            assert now <= before
            assert {len(line) for line in lines} == {table_of(pilot).size.width}
            assert table_of(pilot).region.width == width
            before = now
        assert before == 3


async def test_a_very_narrow_terminal_cuts_but_does_not_break(source: ScriptedSource) -> None:
    async with opened(source, size=(12, 4)) as pilot:
        await play(pilot, source, poll_of(source, one_of_each()))
        assert {len(line) for line in text_of(app_of(pilot)).splitlines()} == {12}
        await press(pilot, "G", "enter", "escape", "question_mark", "escape")
        await _resized(pilot, 1, 1)
        await _resized(pilot, 80, 24)
        assert "invoices" in text_of(app_of(pilot))


async def test_panels_leave_with_width_and_height(source: ScriptedSource) -> None:
    async with opened(source, size=(120, 30)) as pilot:
        await play(pilot, source, poll_of(source, one_of_each()))
        chart, now = pilot.app.screen.query_one(ChartPanel), pilot.app.screen.query_one(NowPanel)
        shown = lambda: (chart.region.height > 0, now.region.height > 0)  # noqa: E731
        assert shown() == (True, True)
        await _resized(pilot, 99, 30)
        assert shown() == (True, False)
        await _resized(pilot, 120, 19)
        await until(pilot, lambda: shown() == (False, False), "a short terminal has rows, not charts")
        await _resized(pilot, 120, 30)
        await until(pilot, lambda: shown() == (True, True), "they come back")


async def test_a_resize_keeps_the_cursor_in_sight(source: ScriptedSource) -> None:
    async with opened(source, size=(100, 40)) as pilot:
        await play(pilot, source, poll_of(source, [queue_of(f"q{n:03d}", ready=500 - n) for n in range(300)]))
        await press(pilot, "pagedown", "pagedown")
        table = table_of(pilot)
        key = str(table.cursor_key)
        for width, height in ((100, 24), (60, 12), (40, 10), (160, 50)):
            await _resized(pilot, width, height)
            lines = lines_of(table)
            assert sum(f" {key} " in line for line in lines) == 1
            assert {len(line) for line in lines} == {table_of(pilot).size.width}
            assert table.cursor_key == key
        assert len(names_in(pilot)) == 300


async def test_a_taller_terminal_leaves_no_empty_rows_at_the_end(source: ScriptedSource) -> None:
    async with opened(source, size=(100, 24)) as pilot:
        await play(pilot, source, poll_of(source, [queue_of(f"q{n:03d}", ready=500 - n) for n in range(60)]))
        await press(pilot, "G")
        await _resized(pilot, 100, 44)
        assert "q059" in lines_of(table_of(pilot))[-1]


@pytest.mark.parametrize("size", [(40, 10), (110, 25)], ids=str)
async def test_every_screen_survives_a_resize_in_the_middle(source: ScriptedSource, size: tuple[int, int]) -> None:
    source.messages["orders"] = messages_of([b'{"type": "refund", "order": 88121}'] * 100)
    async with opened(source, size=(132, 36)) as pilot:
        await play(pilot, source, poll_of(source, [queue_of("orders", ready=100)]))
        for keys in ((), ("enter",), ("enter",), ("question_mark",), ("escape", "n")):
            await press(pilot, *keys)
            await _resized(pilot, *size)
            assert {len(line) for line in text_of(app_of(pilot)).splitlines()} == {size[0]}
            await _resized(pilot, 132, 36)


async def test_a_larger_terminal_fills_the_page_of_messages(source: ScriptedSource) -> None:
    source.messages["orders"] = messages_of([b"x"] * 200)
    async with opened(source, size=(100, 20)) as pilot:
        await play(pilot, source, poll_of(source, [queue_of("orders", ready=200)]))
        await press(pilot, "enter")
        assert len(names_in(pilot)) == table_of(pilot).visible_rows
        await _resized(pilot, 100, 50)
        await until(pilot, lambda: len(names_in(pilot)) == table_of(pilot).visible_rows, "the page grows")
        assert len(names_in(pilot)) > 30
