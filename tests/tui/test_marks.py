"""Marks on messages, and what an action is for: marked ones, a range, a page, all that match, or the one at hand."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from textual.pilot import Pilot

from rsmq_tui.monitor import MessageState
from rsmq_tui.triage.scope import Everything, Marked, Matching, Shown
from rsmq_tui.tui.changes.controller import ChangeStatus
from rsmq_tui.tui.overview.screen import OverviewScreen
from tests.tui.asked import Asked, keep_what_is_asked
from tests.tui.driving import opened, play_orders, poll_again, press, settled, until
from tests.tui.reading import app_of, lines_of, names_in, table_of, tabs_of, text_of
from tests.tui.scripted import START_MS, ScriptedSource

pytestmark = pytest.mark.slow

SIZE = (120, 30)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    return keep_what_is_asked(monkeypatch)


@asynccontextmanager
async def _opened(
    source: ScriptedSource, count: int = 100, *, hidden: int = 0, size: tuple[int, int] = SIZE, **options: Any
) -> AsyncIterator[tuple[Pilot[None], list[Shown]]]:
    """Open a queue of so many messages; give what is shown of them, too."""
    async with opened(source, size=size, **options) as pilot:
        bodies = [b'{"n": %d}' % number for number in range(count)]
        await play_orders(pilot, source, bodies, "enter", hidden=hidden)
        yield pilot, [Shown(row.id, row.score, row.rc or 0) for row in source.messages["orders"]]


def _column(pilot: Pilot[None], rows: int) -> str:
    """The first cell of so many rows."""
    return "".join(line[0] for line in lines_of(table_of(pilot))[1 : rows + 1])


class TestMarking:
    async def test_space_marks_and_goes_on_and_unmarks(self, source: ScriptedSource, asked: Asked) -> None:
        async with _opened(source) as (pilot, shown):
            await press(pilot, "space", "space", "j", "space")
            assert _column(pilot, 5) == "●● ● "
            assert "3 marked" in tabs_of(pilot)
            await press(pilot, "k", "space", "x")
            assert asked.changes == [("delete", "orders", Marked((shown[0], shown[1])), None)]

    async def test_a_range_is_marked_from_v_to_v(self, source: ScriptedSource, asked: Asked) -> None:
        async with _opened(source) as (pilot, shown):
            await press(pilot, "j", "v", "j", "j")
            assert _column(pilot, 5) == " ○○○ "
            assert "marked" not in tabs_of(pilot)
            await press(pilot, "k", "v")
            assert _column(pilot, 5) == " ●●  "
            await press(pilot, "j", "j", "v", "k", "space", "x")
            assert asked.scope == Marked((shown[1], shown[2], shown[3], shown[4]))
            await press(pilot, "v", "j", "escape")
            assert "4 marked" in tabs_of(pilot)

    async def test_a_range_goes_on_over_the_edge_of_the_page(self, source: ScriptedSource, asked: Asked) -> None:
        async with _opened(source) as (pilot, shown):
            rows = table_of(pilot).visible_rows
            await press(pilot, *"j" * (rows - 2), "v", "j", "j", "j", "v", "x")
            assert asked.scope == Marked(tuple(shown[rows - 2 : rows + 2]))

    async def test_a_star_marks_the_page_and_unmarks_it(self, source: ScriptedSource, asked: Asked) -> None:
        async with _opened(source) as (pilot, shown):
            rows = table_of(pilot).visible_rows
            await press(pilot, "asterisk", "right_square_bracket", "asterisk", "x")
            assert asked.scope == Marked(tuple(shown[: 2 * rows]))
            assert f"{2 * rows} marked" in tabs_of(pilot)
            await press(pilot, "asterisk")
            assert f"{rows} marked" in tabs_of(pilot)

    async def test_marks_stay_over_pages_tabs_filters_and_polls(self, source: ScriptedSource, asked: Asked) -> None:
        async with _opened(source, hidden=10) as (pilot, shown):
            rows = table_of(pilot).visible_rows
            await press(pilot, "space", "right_square_bracket", "space", "l", "l", "space", "h")
            await poll_again(pilot)
            await press(pilot, "h", "slash", *"99", "enter")
            assert "3 marked" in tabs_of(pilot)
            assert _column(pilot, 1) == " "
            await press(pilot, "space", "x")
            assert asked.scope == Marked((shown[0], shown[rows], shown[90], shown[99]))

    async def test_signs_have_an_ascii_form(self, source: ScriptedSource) -> None:
        async with _opened(source, ascii_only=True) as (pilot, _):
            await press(pilot, "space", "j", "v", "j")
            rows = text_of(app_of(pilot)).splitlines()
            start = next(y for y, row in enumerate(rows) if " ID " in row) + 1
            assert "".join(row[1] for row in rows[start : start + 5]) == "o .. "

    async def test_a_message_that_left_loses_its_mark_and_one_that_changed_keeps_what_was_shown(
        self, source: ScriptedSource, asked: Asked
    ) -> None:
        async with _opened(source) as (pilot, shown):
            await press(pilot, "space", "space", "space")
            _, second, *rest = source.messages["orders"]
            taken = replace(
                second,
                score=str(START_MS + 30_000),
                due_ms=START_MS + 30_000,
                rc=1,
                state=MessageState.IN_FLIGHT,
            )
            source.messages["orders"] = [*rest, taken]
            await poll_again(pilot)
            assert "2 marked" in tabs_of(pilot)
            await press(pilot, "x")
            assert asked.scope == Marked((shown[1], shown[2]))
            source.messages["orders"] = []
            await poll_again(pilot)
            await press(pilot, "x")
            assert len(asked.changes) == 1

    async def test_escape_clears_the_marks_then_the_filter_then_goes_back(self, source: ScriptedSource) -> None:
        async with _opened(source) as (pilot, _):
            await press(pilot, "slash", *"9", "enter", "space", "v", "escape")
            assert "1 marked" in tabs_of(pilot)
            await press(pilot, "escape")
            assert "marked" not in tabs_of(pilot)
            assert len(names_in(pilot)) == 19
            await press(pilot, "escape")
            # The cursor went on from the message that was marked.
            assert names_in(pilot)[0] == source.messages["orders"][19].id
            await press(pilot, "escape")
            assert isinstance(pilot.app.screen, OverviewScreen)


class TestAll:
    async def test_without_a_filter_it_is_the_whole_queue(self, source: ScriptedSource, asked: Asked) -> None:
        async with _opened(source) as (pilot, _):
            await press(pilot, "space", "A", "M")
            assert "all 100 in the queue" in tabs_of(pilot)
            assert _column(pilot, 5) == "●●●●●"
            assert asked.changes == [("move", "orders", Everything(), None)]

    async def test_with_a_filter_it_is_all_that_matches(self, source: ScriptedSource, asked: Asked) -> None:
        async with _opened(source, 3_000) as (pilot, _):
            await press(pilot, "slash", *"json.n", "greater_than_sign", *"5", "enter", "A", "0")
            assert "all 2,994 matching" in tabs_of(pilot)
            scope = asked.scope
            assert isinstance(scope, Matching)
            assert scope.filter.text == "json.n>5"
            assert scope.limit is None

    async def test_a_tab_is_a_filter_too(self, source: ScriptedSource, asked: Asked) -> None:
        async with _opened(source, hidden=10) as (pilot, _):
            await press(pilot, "l", "A", "x")
            assert "all 90 matching" in tabs_of(pilot)
            assert isinstance(asked.scope, Matching)
            assert asked.scope.filter.text == "state:ready"
            await press(pilot, "l")
            # What it was all of is another tab's.
            assert "matching" not in tabs_of(pilot)
            await press(pilot, "A", "R")
            assert asked.scope.filter.text == "state:inflight"

    async def test_while_it_searches_the_number_is_not_final(self, source: ScriptedSource, asked: Asked) -> None:
        source.search_gate = asyncio.Semaphore(1)
        async with _opened(source, 300) as (pilot, _):
            await pilot.press("slash", "n", "enter")
            await until(pilot, lambda: len(names_in(pilot)) == 100, "the first are found")
            await pilot.press("A")
            await until(pilot, lambda: "all 100+ matching" in tabs_of(pilot), "there may be more")
            source.search_gate.release()
            source.search_gate.release()
            await settled(pilot)
            assert "all 300 matching" in tabs_of(pilot)

    @pytest.mark.parametrize("key", ["space", "v", "asterisk"])
    async def test_a_mark_ends_it_and_marks_nothing(self, source: ScriptedSource, asked: Asked, key: str) -> None:
        async with _opened(source, notifications=True) as (pilot, shown):
            await press(pilot, "A", key)
            assert "all unmarked" in tabs_of(pilot)
            assert _column(pilot, 5).strip() == ""
            # Whoever wanted all but this one does not get just this one.
            await press(pilot, "x", "j", "x")
            assert asked.changes == []
            assert "nothing is marked" in text_of(app_of(pilot))
            await press(pilot, "space", "x")
            assert asked.scope == Marked((shown[1],))
            assert "1 marked" in tabs_of(pilot)

    async def test_escape_begins_anew(self, source: ScriptedSource, asked: Asked) -> None:
        async with _opened(source) as (pilot, shown):
            await press(pilot, "A", "escape", "x")
            assert asked.scope == Marked((shown[0],))
            await press(pilot, "A", "space", "escape", "j", "x")
            assert asked.scope == Marked((shown[1],))
            assert "all unmarked" not in tabs_of(pilot)


class TestAsking:
    async def test_the_message_at_hand_where_nothing_is_marked(self, source: ScriptedSource, asked: Asked) -> None:
        async with _opened(source, hidden=10) as (pilot, shown):
            await press(pilot, "G", "plus", "minus", "C")
            assert [(name, scope) for name, _, scope, _ in asked.changes] == [
                ("hide", Marked((shown[-1],))),
                ("hide", Marked((shown[-1],))),
                ("copy", Marked((shown[-1],))),
            ]

    async def test_changes_of_the_queue_have_no_messages(self, source: ScriptedSource, asked: Asked) -> None:
        async with _opened(source) as (pilot, _):
            await press(pilot, "space", "a", "equals_sign", "P", "u")
            assert asked.changes == [(name, "orders", None, None) for name in ("send", "set", "purge")]
            assert asked.undone == ["orders"]

    async def test_edit_gives_the_whole_body(self, source: ScriptedSource, asked: Asked) -> None:
        async with _opened(source, notifications=True) as (pilot, _):
            source.bodies[source.messages["orders"][0].id] = b"x" * 5_000
            await press(pilot, "e")
            assert asked.changes == [("send", "orders", None, b"x" * 5_000)]
            source.read_error = "[/x] gone"
            await press(pilot, "e")
            assert len(asked.changes) == 1

    async def test_export_is_for_what_is_marked_or_else_for_all_that_matches(
        self, source: ScriptedSource, asked: Asked
    ) -> None:
        async with _opened(source) as (pilot, shown):
            await press(pilot, "space", "E", "A", "E", "escape", "E", "l", "E")
            *others, last = asked.exported
            assert others == [("orders", Marked((shown[0],))), ("orders", Everything()), ("orders", Everything())]
            assert isinstance(last[1], Matching)
            assert last[1].filter.text == "state:ready"

    async def test_an_empty_queue_has_nothing_to_ask_for(self, source: ScriptedSource, asked: Asked) -> None:
        async with _opened(source, 0, notifications=True) as (pilot, _):
            await press(pilot, "space", "v", "asterisk", "x", "e", "y", "b", "escape")
            assert asked.changes == []

    async def test_marks_are_cleared_and_what_was_found_is_searched_for_again_when_the_change_was_made(
        self, source: ScriptedSource, asked: Asked
    ) -> None:
        async with _opened(source) as (pilot, _):
            await press(pilot, "slash", *"9", "enter", "j", "space", "x")
            app = app_of(pilot)
            app.dashboard.changes._show(ChangeStatus("deleting", is_running=True))
            await settled(pilot)
            assert "1 marked" in tabs_of(pilot)
            source.messages["orders"].pop(9)
            app.dashboard.changes._show(ChangeStatus("deleted 1", scope=asked.scope))
            await settled(pilot)
            assert "marked" not in tabs_of(pilot)
            assert len(names_in(pilot)) == 18
            # Other changes leave marks alone, also after one that was asked for and not made.
            await press(pilot, "space", "x", "u")
            app.dashboard.changes._show(ChangeStatus("put back 1"))
            await settled(pilot)
            assert "1 marked" in tabs_of(pilot)


@pytest.mark.parametrize("size", [(40, 10), (80, 24)], ids=str)
async def test_narrow_terminals_show_the_marks_and_their_number(
    source: ScriptedSource, asked: Asked, size: tuple[int, int]
) -> None:
    async with _opened(source, size=size) as (pilot, _):
        await press(pilot, "space", "space")
        assert "2 marked" in tabs_of(pilot)
        assert "[ all 100 ]" in tabs_of(pilot)
        assert _column(pilot, 2) == "●●"
        await press(pilot, "A")
        assert "all 100 in the queue" in tabs_of(pilot)
        await press(pilot, "space")
        assert "all unmarked" in tabs_of(pilot)
