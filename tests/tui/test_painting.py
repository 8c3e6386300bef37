"""Only what changed is painted again: over a slow line that is the difference between live and stuttering."""

import asyncio
import gc
import re
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cached_cell_len
from rich.segment import Segment
from rich.style import Style
from textual._styles_cache import StylesCache
from textual.events import MouseDown
from textual.filter import ANSIToTruecolor
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from rsmq_tui.monitor import Verdict
from rsmq_tui.tui import app, garbage
from rsmq_tui.tui.widgets import row_table
from rsmq_tui.tui.widgets.painted import Painted, _differences
from rsmq_tui.tui.widgets.row_table import RowTable
from tests.tui.changing import Orders
from tests.tui.driving import opened, play, press, settled, until
from tests.tui.reading import app_of, lines_of, table_of
from tests.tui.scripted import START_MS, ScriptedSource, messages_of
from tests.tui.states import one_of_each, poll_of, queue_of

pytestmark = pytest.mark.usefixtures("painting")

RED = Style.parse("red")


def _strip(*pieces: str | tuple[str, Style]) -> Strip:
    return Strip([Segment(piece) if isinstance(piece, str) else Segment(*piece) for piece in pieces])


@contextmanager
def repaints(widget: Widget, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[Region, ...]]]:
    """Collect what a widget asks to be painted again: regions, or none for all of it."""
    asked: list[tuple[Region, ...]] = []
    honest = widget.refresh

    def refresh(*regions: Region, **options: bool) -> Widget:
        asked.append(regions)
        return honest(*regions, **options)

    with monkeypatch.context() as patch:
        patch.setattr(widget, "refresh", refresh)
        yield asked


@pytest.mark.parametrize(
    ("old", "new", "runs"),
    [
        ((), (), []),
        (("abc", "def"), ("abc", "def"), []),
        (("abc", "def", "ghi"), ("abc", "dxf", "ghi"), [(3, 6)]),
        (("abc", "def", "ghi"), ("xbc", "def", "ghx"), [(0, 3), (6, 9)]),
        (("abc", "def"), ("abc", ("def", RED)), [(3, 6)]),
        (("日本", "x"), ("日本", "y"), [(4, 5)]),
        (("日本", "x"), ("日x", "xx"), [(0, 5)]),
        (("abc",), ("ab", "c"), [(0, 3)]),
        (("abc", "de", "fg", "hij"), ("abc", "d", "efg", "hij"), [(3, 7)]),
        (("abc", "de", "f", "hij"), ("abc", "def", "hij"), [(3, 6)]),
        (("aa", "a", "x"), ("a", "aa", "x"), [(0, 3)]),
        (("abc", "x"), ("abc", "x", "x"), [(0, 10)]),
    ],
)
def test_differences_between_two_lines(old: tuple, new: tuple, runs: list[tuple[int, int]]) -> None:  # type: ignore[type-arg]
    assert _differences(_strip(*old), _strip(*new), 10) == runs


async def test_one_changed_number_repaints_its_cell_only(
    source: ScriptedSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    queues = one_of_each()
    async with opened(source, queues, size=(140, 36)) as pilot:
        table = table_of(pilot)
        before = lines_of(table)
        changed = [queue._replace(hidden=9) if queue.name == "emails" else queue for queue in queues]
        with repaints(table, monkeypatch) as asked:
            await play(pilot, source, poll_of(source, changed))
        after = lines_of(table)
        ((region,),) = asked
        (y,) = [y for y, line in enumerate(after) if line != before[y]]
        assert region.y == y
        assert region.height == 1
        end = after[0].index("HIDDEN") + len("HIDDEN")
        # A cell is its column and the gap behind it.
        assert (region.x, region.right) == (end - 7, end + 1)
        assert after[y][region.x : region.right].strip() == "9"


async def test_only_the_texts_that_changed_are_made_into_cells_again(
    source: ScriptedSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted: list[str] = []
    honest = row_table.fit

    def fit(text: str, width: int, **how: bool) -> str:
        fitted.append(text)
        return honest(text, width, **how)

    queues = one_of_each()
    async with opened(source, queues, size=(140, 36)) as pilot:
        monkeypatch.setattr(row_table, "fit", fit)
        titles = [column.title for column in table_of(pilot).columns]
        changed = [queue._replace(hidden=98) if queue.name == "emails" else queue for queue in queues]
        await play(pilot, source, poll_of(source, changed))
        assert [text for text in fitted if text not in titles] == ["98"]
        before = lines_of(table_of(pilot))
        fitted.clear()
        table_of(pilot).notify_style_update()
        assert lines_of(table_of(pilot)) == before
        assert "emails" in fitted


async def test_an_unchanged_poll_repaints_nothing_of_the_table(
    source: ScriptedSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    queues = one_of_each()
    async with opened(source, queues) as pilot:
        with repaints(table_of(pilot), monkeypatch) as asked:
            await play(pilot, source, poll_of(source, queues))
            await play(pilot, source, poll_of(source, list(queues)))
        assert asked == []


async def test_an_unchanged_poll_repaints_nothing_at_all(
    source: ScriptedSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    queues = one_of_each()
    async with opened(source) as pilot:
        for _ in range(2):
            await play(pilot, source, poll_of(source, queues))
        asked: list[tuple[str, tuple[Region, ...]]] = []
        honest = Painted.refresh

        def refresh(self: Painted, *regions: Region, **options: bool) -> Widget:
            asked.append((type(self).__name__, regions))
            return honest(self, *regions, **options)

        monkeypatch.setattr(Painted, "refresh", refresh)
        await play(pilot, source, poll_of(source, queues))
        # The first few polls also look at the chart, which has no second point yet.
        assert asked == []


async def test_moving_the_cursor_repaints_two_rows(source: ScriptedSource, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(source, one_of_each()) as pilot:
        with repaints(table_of(pilot), monkeypatch) as asked:
            await press(pilot, "j")
        rows = {region.y for regions in asked for region in regions}
        assert rows == {1, 2}


async def test_a_new_age_in_one_row_does_not_repaint_the_others(
    source: ScriptedSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(source, size=(140, 36)) as pilot:
        old = START_MS - 3 * 3_600_000
        queues = [queue_of("old", ready=2, oldest_ready_ms=old), queue_of("fresh", ready=1, oldest_ready_ms=START_MS)]
        await play(pilot, source, poll_of(source, queues, START_MS + 1000))
        with repaints(table_of(pilot), monkeypatch) as asked:
            await play(pilot, source, poll_of(source, queues, START_MS + 2000))
        (waiting, oldest) = [region for regions in asked for region in regions]
        assert lines_of(table_of(pilot))[waiting.y].split()[2] == "fresh"
        assert (waiting.y, waiting.width) == (oldest.y, oldest.width) == (waiting.y, 9)


async def test_a_new_verdict_is_emphasised_for_one_poll(
    source: ScriptedSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    def emphasised(table: RowTable[Any, Any]) -> list[str]:
        segments = [segment for y in range(table.size.height) for segment in table.render_line(y)]
        return [segment.text.strip() for segment in segments if segment.style and segment.style.reverse]

    async with opened(source) as pilot:
        queues = [queue_of("a", ready=9), queue_of("b", ready=5)]
        await play(pilot, source, poll_of(source, queues))
        table = table_of(pilot)
        assert emphasised(table) == []
        queues[1] = queues[1]._replace(verdict=Verdict.STALLED)
        await play(pilot, source, poll_of(source, queues, START_MS + 1000))
        assert emphasised(table) == ["■ stalled"]
        with repaints(table, monkeypatch) as asked:
            await play(pilot, source, poll_of(source, queues, START_MS + 2000))
        assert emphasised(table) == []
        assert [region.width for regions in asked for region in regions] == [11]
        # A queue that is new, or comes where another one was, has no verdict that changed.
        await play(pilot, source, poll_of(source, [queue_of("aa", ready=1), *queues], START_MS + 3000))
        assert emphasised(table) == []


async def test_what_is_painted_by_regions_equals_what_is_painted_at_once(source: ScriptedSource) -> None:
    async with opened(source) as pilot:
        for step in range(6):
            queues = [
                queue._replace(ready=(queue.ready or 0) + step * number, hidden=step)
                for number, queue in enumerate(one_of_each(START_MS + step * 1000))
                if number != step
            ]
            await play(pilot, source, poll_of(source, queues, START_MS + step * 1000))
            await press(pilot, "jkGgjj"[step])
            table = table_of(pilot)
            piecemeal = [table.render_line(y) for y in range(table.size.height)]
            table.repaint_all()
            await settled(pilot)
            assert piecemeal == [table.render_line(y) for y in range(table.size.height)]


async def test_lines_are_always_as_wide_as_their_widget(source: ScriptedSource) -> None:
    names = [
        "日本語の列",
        "e\u0301" * 9,
        "\U0001f469\u200d\U0001f469\u200d\U0001f467",
        "\u26a0\ufe0f warn",
        "\x1b[31m",
        "a\tb",
        "\u202eevil",
        "x" * 300,
        "\ufdfa" * 30,
    ]
    source.messages[names[0]] = messages_of([name.encode() for name in names] * 3)
    async with opened(source, [queue_of(name, ready=9 - n) for n, name in enumerate(names)], size=(83, 30)) as pilot:
        for key in ("g", "enter", "enter", "l", "l"):
            await press(pilot, key)
            for widget in pilot.app.screen.query(Painted):
                wide = {widget.render_line(y).cell_length for y in range(widget.size.height)}
                assert wide <= {widget.size.width}, f"{widget} after {key}"


async def test_a_hidden_widget_is_painted_whole_when_it_comes_back(source: ScriptedSource) -> None:
    async with opened(source, one_of_each()) as pilot:
        await press(pilot, "enter")
        await play(pilot, source, poll_of(source, [queue_of("only")], START_MS + 1000))
        await press(pilot, "escape")
        lines = lines_of(pilot.app.screen.query_one(RowTable))
        assert lines[1].split()[2] == "only"
        assert not lines[2].strip()


def test_each_token_has_its_style_and_the_app_alone_declares_them() -> None:
    styled = set(
        re.findall(r"^\.(token--[a-z-]+) {", Path(app.__file__).with_name("app.tcss").read_text(), re.MULTILINE)
    )
    assert app.RsmqApp._get_component_classes() == styled
    # Each of them would take part in every change of a class, once for each widget.
    assert not any(widget._get_component_classes() for widget in Painted.__subclasses__())


async def test_a_style_is_made_once_for_each_token(source: ScriptedSource) -> None:
    async with opened(source, one_of_each()) as pilot:
        table = table_of(pilot)
        assert table.token("verdict-ok cursor") is table.token("verdict-ok cursor")
        before = table.token("verdict-ok")
        await press(pilot, "T")
        assert table.token("verdict-ok") != before


async def test_a_screen_behind_has_the_colours_of_a_new_theme_too(source: ScriptedSource) -> None:
    async with opened(source, one_of_each()) as pilot:
        table = table_of(pilot)
        before = table.token("verdict-ok")
        await press(pilot, "enter", "T", "escape")
        assert table.token("verdict-ok") != before


async def test_what_a_closed_screen_painted_is_given_back(
    source: ScriptedSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Textual would keep the lines of the last 1,024 widgets: after a hundred screens, 50 MB."""
    monkeypatch.setattr("rsmq_tui.tui.garbage._FREE_AFTER_S", 0.05)
    async with opened(source, [queue_of("orders", ready=3)]) as pilot:
        await press(pilot, "enter")
        painted = [weakref.ref(widget._styles_cache) for widget in pilot.app.screen.query(Painted)]
        assert any(_lines_in(painted))
        await press(pilot, "escape", "question_mark", "escape")
        await until(pilot, lambda: not any(_lines_in(painted)), "all are gone")


async def test_a_connection_does_not_keep_the_screen_that_opened_it(
    orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rsmq_tui.tui.garbage._FREE_AFTER_S", 0.05)
    async with orders.opened() as pilot:
        closed = weakref.ref(pilot.app.screen)
        # One that is still being closed is freed after the next.
        await press(pilot, "escape", "question_mark", "escape")
        await until(pilot, lambda: gc.collect() >= 0 and closed() is None, "the screen is freed")


async def test_a_closed_screen_does_not_wait_for_the_garbage_collector(
    source: ScriptedSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rsmq_tui.tui.garbage._FREE_AFTER_S", 0.05)
    async with opened(source, [queue_of("orders", ready=3)]) as pilot:
        gc.disable()
        try:
            await press(pilot, "enter")
            closed = weakref.ref(pilot.app.screen)
            await press(pilot, "escape")
            for _ in range(100):
                # One that is still being closed is freed after the next.
                await press(pilot, "question_mark", "escape")
                await asyncio.sleep(0.2)
                if closed() is None:
                    break
            assert closed() is None
        finally:
            gc.enable()


async def test_closed_screens_are_freed_while_others_are_opened_and_closed(
    source: ScriptedSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rsmq_tui.tui.garbage._FREE_AFTER_S", 0.5)
    async with opened(source, [queue_of("orders", ready=3)]) as pilot:
        given_back: list[int] = []
        monkeypatch.setattr("rsmq_tui.tui.garbage.give_back", lambda: given_back.append(1))
        for _ in range(200):
            await press(pilot, "question_mark", "escape")
            if given_back:
                break
        assert given_back
        # What was closed last is freed too.
        await until(pilot, lambda: len(given_back) > 1, "memory is given back again")


@pytest.mark.parametrize("limit", [0, 1])
async def test_many_queues_are_not_collected_for_a_closed_screen(
    source: ScriptedSource, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    collected: list[int] = []
    async with opened(source, [queue_of("orders", ready=3)]) as pilot:
        monkeypatch.setattr("rsmq_tui.tui.garbage._FREE_QUEUES_MAX", limit)
        monkeypatch.setattr("rsmq_tui.tui.garbage._FREE_AFTER_S", 0.0)
        monkeypatch.setattr("rsmq_tui.tui.garbage.gc.collect", lambda: collected.append(1))
        given_back: list[int] = []
        monkeypatch.setattr("rsmq_tui.tui.garbage.give_back", lambda: given_back.append(1))
        await press(pilot, "question_mark", "escape")
        await until(pilot, lambda: given_back, "memory is given back")
        assert len(collected) == limit * len(given_back)


async def test_lines_that_were_cut_are_not_kept_longer_than_a_poll(source: ScriptedSource) -> None:
    async with opened(source, [queue_of("orders", ready=3)]) as pilot:
        line = Segment("never …" * 20)
        line.split_cells(7)
        misses = Segment._split_cells.cache_info().misses
        line.split_cells(7)
        assert Segment._split_cells.cache_info().misses == misses
        await play(pilot, source, poll_of(source, [queue_of("orders", ready=4)], START_MS + 1000))
        misses = Segment._split_cells.cache_info().misses
        line.split_cells(7)
        assert Segment._split_cells.cache_info().misses == misses + 1


@pytest.mark.parametrize("keys", [("question_mark", "escape"), ("T",)])
async def test_what_widgets_painted_and_where_is_not_kept_after_a_closed_screen_or_another_theme(
    source: ScriptedSource, monkeypatch: pytest.MonkeyPatch, keys: tuple[str, ...]
) -> None:
    monkeypatch.setattr("rsmq_tui.tui.garbage._FREE_AFTER_S", 0.05)
    async with opened(source, [queue_of("orders", ready=3)]) as pilot:
        used = (Region.intersection, cached_cell_len, Style._add, ANSIToTruecolor.truecolor_style)
        assert set(used) <= set(garbage.SCREEN_CACHES)
        assert all(cached.cache_info().currsize for cached in used)
        cleared: list[int] = []
        monkeypatch.setattr(
            "rsmq_tui.tui.garbage.give_back",
            lambda: cleared.append(sum(cached.cache_info().currsize for cached in garbage.SCREEN_CACHES)),
        )
        await press(pilot, *keys)
        await until(pilot, lambda: cleared, "memory is given back")
        assert cleared == [0]


async def test_what_held_a_toast_goes_too(source: ScriptedSource) -> None:
    async with opened(source, notifications=True) as pilot:
        for number in range(5):
            pilot.app.notify(f"toast {number}")
            await until(pilot, lambda: len(pilot.app.screen.query("Toast")) == 1, "it is shown")
            pilot.app.clear_notifications()
            await until(pilot, lambda: not pilot.app.screen.query("Toast"), "it is gone")
        pilot.app.notify("the last")
        await until(pilot, lambda: len(pilot.app.screen.query("ToastHolder")) == 1, "only that of the last is there")


def _lines_in(caches: Sequence["weakref.ref[StylesCache]"]) -> list[int]:
    gc.collect()
    return [len(cache._cache) for each in caches if (cache := each()) is not None]


async def test_a_click_where_a_note_has_just_gone_does_nothing(source: ScriptedSource) -> None:
    async with opened(source, one_of_each(), notifications=True) as pilot:
        app = app_of(pilot)
        app.notify("a note", markup=False)
        await until(pilot, lambda: app.screen.query("Toast"), "the note is shown")
        await settled(pilot)
        toast = app.screen.query_one("Toast")
        x, y = toast.content_region.offset
        with app.batch_update():
            await toast.remove()
            app.screen._forward_event(
                MouseDown(None, x, y, delta_x=0, delta_y=0, button=1, shift=False, meta=False, ctrl=False)
            )
