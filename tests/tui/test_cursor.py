"""The cursor of the overview stays on its queue, and the rows under it stay where they are."""

import html
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from textual.pilot import Pilot

from rsmq_tui.tui.overview.screen import REST_S
from rsmq_tui.tui.queue.screen import QueueScreen
from rsmq_tui.tui.widgets.row_table import RowTable
from tests.tui.changing import asked, fill
from tests.tui.driving import opened, play, press, settled, type_at_once, until, wait_for_screen
from tests.tui.reading import app_of, lines_of, names_in, source_of, table_of
from tests.tui.scripted import START_MS, ScriptedSource
from tests.tui.scripted_triage import ScriptedTriage
from tests.tui.states import poll_of, queue_of

pytestmark = pytest.mark.slow


async def _poll(pilot: Pilot[None], ready: dict[str, int], second: int) -> None:
    """A poll in which queues are sorted by how much they hold, since nothing else is known of them."""
    source = source_of(pilot)
    queues = [queue_of(name, ready=number) for name, number in ready.items()]
    await play(pilot, source, poll_of(source, queues, START_MS + second * 1000))


@asynccontextmanager
async def _opened(source: ScriptedSource, **options: Any) -> AsyncIterator[Pilot[None]]:
    """Open the app with three queues: a, which holds the most, b and c."""
    async with opened(source, **options) as pilot:
        await _poll(pilot, {"a": 9, "b": 5, "c": 1}, 0)
        yield pilot


async def test_until_it_is_moved_the_cursor_stays_on_the_first_row(source: ScriptedSource) -> None:
    async with _opened(source) as pilot:
        assert table_of(pilot).cursor_key == "a"
        await _poll(pilot, {"a": 1, "b": 5, "c": 9}, 1)
        assert names_in(pilot) == ["c", "b", "a"]
        assert table_of(pilot).cursor_key == "c"


@pytest.mark.parametrize(("keys", "queue", "cursor"), [(("enter",), "a", "c"), (("j", "enter"), "b", "b")])
async def test_opening_a_queue_does_not_move_the_cursor_and_once_moved_it_stays_on_it(
    source: ScriptedSource, keys: tuple[str, ...], queue: str, cursor: str
) -> None:
    async with _opened(source) as pilot:
        await press(pilot, *keys)
        assert isinstance(pilot.app.screen, QueueScreen)
        assert pilot.app.screen.queue == queue
        await _poll(pilot, {"a": 1, "b": 5, "c": 9}, 1)
        await press(pilot, "escape")
        assert table_of(pilot).cursor_key == cursor


async def test_enter_opens_what_the_cursor_is_on_when_it_is_pressed(source: ScriptedSource) -> None:
    async with _opened(source) as pilot:
        table = table_of(pilot)
        # A poll that sorts the rows anew is shown right behind the key, before anything else has been done.
        table.action_open()
        queues = [queue_of(name, ready=ready) for name, ready in {"a": 1, "b": 5, "c": 9}.items()]
        table.show(queues[::-1], ["c", "b", "a"], table.context)
        await settled(pilot)
        assert isinstance(pilot.app.screen, QueueScreen)
        assert pilot.app.screen.queue == "a"


@pytest.mark.parametrize("keys", ["\rx", "\rP", "\rllhx", "\rA ", "\rv", "\r\r", "\r="])
async def test_keys_typed_behind_enter_are_for_the_queue_that_it_opens(
    source: ScriptedSource, monkeypatch: pytest.MonkeyPatch, keys: str
) -> None:
    asked: list[tuple[str, str]] = []

    def ask(_: object, name: str, queue: str, *__: object, **___: object) -> bool:
        asked.append((name, queue))
        return True

    async with _opened(source, triage=ScriptedTriage()) as pilot:
        monkeypatch.setattr(app_of(pilot).dashboard.changes, "ask", ask)
        type_at_once(pilot, keys)
        await wait_for_screen(pilot, QueueScreen)
        await settled(pilot)
        # What is there to change on that screen depends on what it has read by then; the queue itself is never meant.
        assert asked in ([], [("purge", "a")], [("set", "a")])


async def test_once_moved_it_follows_its_queue_by_name(source: ScriptedSource) -> None:
    async with _opened(source) as pilot:
        await press(pilot, "j")
        source.clock.now_s += REST_S
        for second, ready in enumerate(({"a": 9, "b": 1, "c": 5}, {"a": 1, "b": 9, "c": 5}, {"a": 5, "b": 9, "c": 7})):
            await _poll(pilot, ready, second + 1)
            assert names_in(pilot) == sorted(ready, key=ready.__getitem__, reverse=True)
            assert table_of(pilot).cursor_key == "b"
        await press(pilot, "enter")
        assert isinstance(pilot.app.screen, QueueScreen)
        assert pilot.app.screen.queue == "b"


async def test_top_goes_back_to_whatever_is_first(source: ScriptedSource) -> None:
    async with _opened(source) as pilot:
        await press(pilot, "G", "g")
        source.clock.now_s += REST_S
        await _poll(pilot, {"a": 1, "b": 5, "c": 9}, 1)
        assert table_of(pilot).cursor_key == "c"


async def test_rows_keep_their_places_for_three_seconds_after_a_move(source: ScriptedSource) -> None:
    async with _opened(source) as pilot:
        await press(pilot, "j")
        source.clock.now_s += REST_S - 0.1
        await _poll(pilot, {"a": 1, "b": 5, "c": 9}, 1)
        assert names_in(pilot) == ["a", "b", "c"]
        # The numbers are new all the same, and a new queue goes to the end.
        assert [line.split()[3] for line in lines_of(table_of(pilot))[1:4]] == ["1", "5", "9"]
        await _poll(pilot, {"a": 1, "b": 5, "c": 9, "d": 99}, 2)
        assert names_in(pilot) == ["a", "b", "c", "d"]
        source.clock.now_s += 0.1
        await _poll(pilot, {"a": 1, "b": 5, "c": 9, "d": 99}, 3)
        assert names_in(pilot) == ["d", "c", "b", "a"]
        assert table_of(pilot).cursor_key == "b"


async def test_each_move_gives_three_seconds_more(source: ScriptedSource) -> None:
    async with _opened(source) as pilot:
        await press(pilot, "j")
        source.clock.now_s += REST_S - 1
        await press(pilot, "j")
        source.clock.now_s += REST_S - 1
        await _poll(pilot, {"a": 1, "b": 5, "c": 9}, 1)
        assert names_in(pilot) == ["a", "b", "c"]


async def test_r_sorts_at_once_and_polls(source: ScriptedSource) -> None:
    async with _opened(source) as pilot:
        await press(pilot, "j")
        await _poll(pilot, {"a": 1, "b": 5, "c": 9}, 1)
        assert names_in(pilot) == ["a", "b", "c"]
        await press(pilot, "r")
        assert source.woken == 1
        await _poll(pilot, {"a": 1, "b": 5, "c": 9}, 2)
        assert names_in(pilot) == ["c", "b", "a"]
        await press(pilot, "ctrl+r")
        assert source.woken == 2


async def test_choosing_an_order_sorts_at_once(source: ScriptedSource) -> None:
    async with _opened(source) as pilot:
        await press(pilot, "j")
        await _poll(pilot, {"a": 1, "b": 5, "c": 9}, 1)
        await press(pilot, "S")
        assert names_in(pilot) == ["a", "b", "c"]
        await press(pilot, "S")
        assert names_in(pilot) == ["c", "b", "a"]


async def test_a_queue_that_vanishes_under_the_cursor_leaves_it_in_its_place(source: ScriptedSource) -> None:
    async with opened(source) as pilot:
        await _poll(pilot, {"a": 9, "b": 5, "c": 3, "d": 1}, 0)
        await press(pilot, "j", "j")
        await _poll(pilot, {"a": 9, "b": 5, "d": 1}, 1)
        assert table_of(pilot).cursor_key == "d"
        await _poll(pilot, {"a": 9}, 2)
        assert table_of(pilot).cursor_key == "a"
        await _poll(pilot, {}, 3)
        assert table_of(pilot).cursor_key is None
        await press(pilot, "enter", "j", "k", "G", "g", "pagedown")
        assert len(pilot.app.screen_stack) == 1
        await _poll(pilot, {"z": 1, "y": 2}, 4)
        assert table_of(pilot).cursor_key == "y"


async def test_the_cursor_follows_its_queue_through_a_filter(source: ScriptedSource) -> None:
    async with opened(source) as pilot:
        await _poll(pilot, {"apple": 9, "banana": 5, "cherry": 1}, 0)
        await press(pilot, "G", "slash", *"e", "enter")
        assert names_in(pilot) == ["apple", "cherry"]
        assert table_of(pilot).cursor_key == "cherry"


async def test_the_cursor_returns_to_its_queue_and_line_when_a_filter_is_cleared(source: ScriptedSource) -> None:
    async with opened(source, size=(120, 24)) as pilot:
        await _poll(pilot, {f"q{number:02}": 100 - number for number in range(60)}, 0)
        await press(pilot, "pagedown", "pagedown", "k")
        table = table_of(pilot)
        chosen, in_sight = table.cursor_key, list(table.rows_in_sight)
        await press(pilot, "slash", *"q5")
        assert chosen not in names_in(pilot)
        await press(pilot, "escape")
        assert (table.cursor_key, list(table.rows_in_sight)) == (chosen, in_sight)
        # Also if nothing was found, and if the filter is emptied instead.
        await press(pilot, "slash", *"none", "enter", "escape")
        assert (table.cursor_key, list(table.rows_in_sight)) == (chosen, in_sight)
        await press(pilot, "slash", *"q5", "backspace", "backspace", "enter")
        assert (table.cursor_key, list(table.rows_in_sight)) == (chosen, in_sight)
        # After Enter, the queue that was found is what was wanted.
        await press(pilot, "slash", *"q57", "enter", "escape")
        assert table.cursor_key == "q57"
        assert "q57" in [queue.name for queue in table.rows_in_sight]
        assert len(names_in(pilot)) == 60


async def test_the_cursor_stays_on_the_queue_that_was_chosen_with_a_filter(source: ScriptedSource) -> None:
    async with opened(source, size=(120, 24)) as pilot:
        await _poll(pilot, {f"q{number:02}": 100 - number for number in range(60)}, 0)
        await press(pilot, "j", "j", "slash", *"q5", "enter", "j")
        assert table_of(pilot).cursor_key == "q53"
        await press(pilot, "escape")
        assert table_of(pilot).cursor_key == "q53"
        assert "q53" in [queue.name for queue in table_of(pilot).rows_in_sight]


async def test_a_cursor_at_the_top_stays_there_after_a_filter(source: ScriptedSource) -> None:
    async with opened(source) as pilot:
        await _poll(pilot, {"a": 9, "b": 5, "c": 1}, 0)
        await press(pilot, "slash", "c", "escape")
        await _poll(pilot, {"a": 1, "b": 5, "c": 9}, 5)
        assert names_in(pilot)[0] == table_of(pilot).cursor_key == "c"


async def test_moving_stops_at_both_ends(source: ScriptedSource) -> None:
    async with opened(source) as pilot:
        await _poll(pilot, {"a": 9, "b": 5}, 0)
        await press(pilot, "k")
        assert table_of(pilot).cursor_key == "a"
        await press(pilot, "j", "j", "down")
        assert table_of(pilot).cursor_key == "b"
        await press(pilot, "up", "up")
        assert table_of(pilot).cursor_key == "a"
        await press(pilot, "pagedown")
        assert table_of(pilot).cursor_key == "b"
        await press(pilot, "pageup")
        assert table_of(pilot).cursor_key == "a"
        await press(pilot, "end")
        assert table_of(pilot).cursor_key == "b"
        await press(pilot, "home")
        assert table_of(pilot).cursor_key == "a"


def _displayed(pilot: Pilot[None]) -> str:
    """All that the terminal shows, what is behind dialogs too."""
    lines = re.findall(r"<text[^>]*>([^<]*)</text>", pilot.app.export_screenshot())
    return html.unescape(" ".join(lines)).replace("\xa0", " ")


@pytest.mark.parametrize("dialogs", [1, 2])
async def test_behind_a_dialog_the_rows_go_on_and_the_cursor_stays_on_its_queue(
    source: ScriptedSource, triage: ScriptedTriage, dialogs: int
) -> None:
    async with _opened(source, triage=triage) as pilot:
        behind = pilot.app.screen
        if dialogs == 1:
            await press(pilot, "P")
        else:
            await press(pilot, "a")
            await fill(pilot, body="hello")
        await asked(pilot)
        assert len(pilot.app.screen_stack) == dialogs + 1
        for second, ready in enumerate((71_234, 82_345), 1):
            before, wanted = _displayed(pilot), f"{ready + 6:,} messages"
            await _poll(pilot, {"a": 1, "b": 5, f"new-{second}": ready}, second)
            await until(pilot, lambda wanted=wanted: wanted in _displayed(pilot), "the sums go on")  # type: ignore[misc]
            assert f" new-{second} " in _displayed(pilot)
            assert f" new-{second} " not in before
            table = behind.query_one(RowTable)
            assert list(table.keys) == [f"new-{second}", "b", "a"]
            assert table.cursor_key == "a"
        # What is told of the server's silence counts on behind them too.
        for silent_s in (40, 42):
            source.clock.now_s = 1_000 + silent_s
            words = f"stale {silent_s} s"
            await until(pilot, lambda words=words: words in _displayed(pilot), "the age counts on")  # type: ignore[misc]
        # A form with a text in it asks for a second escape.
        await press(pilot, *["escape"] * (1 if dialogs == 1 else 3))
        assert pilot.app.screen is behind
        assert table_of(pilot).cursor_key == "a"
