"""The filter of the queue screen: typed, wrong, applied, searched for, stopped, and searched for again."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from rsmq_tui.monitor import Connection, MessageState, SearchProgress, parse_filter
from rsmq_tui.protocol import Failure
from rsmq_tui.tui.overview.screen import OverviewScreen
from rsmq_tui.tui.queue.screen import QueueScreen
from rsmq_tui.tui.queue.search import ROWS_MAX, Hits, MessageOrder, SearchState, search_pieces
from rsmq_tui.tui.widgets.lines import TextLine
from rsmq_tui.tui.widgets.message_filter import FilterProblem
from tests.tui.driving import opened, play, play_orders, poll_again, press, says, settled, shown, until
from tests.tui.reading import app_of, lines_of, names_in, table_of, text_of
from tests.tui.scripted import START_MS, ScriptedSource
from tests.tui.states import poll_of, queue_of

pytestmark = pytest.mark.slow

SIZE = (120, 30)


def bodies(count: int) -> list[bytes]:
    return [
        b'{"type": "%s", "n": %d}' % (b"refund" if number % 4 == 0 else b"order", number) for number in range(count)
    ]


@asynccontextmanager
async def _opened(
    source: ScriptedSource, count: int = 100, *, hidden: int = 0, size: tuple[int, int] = SIZE, **options: Any
) -> AsyncIterator[tuple[Pilot[None], list[str]]]:
    """Open a queue of so many messages; give their ids, too."""
    async with opened(source, size=size, **options) as pilot:
        await play_orders(pilot, source, bodies(count), "enter", hidden=hidden)
        yield pilot, [row.id for row in source.messages["orders"]]


async def _type(pilot: Pilot[None], text: str) -> None:
    """Open the filter and put a text into it."""
    await press(pilot, "slash")
    _entry(pilot).value = text
    await settled(pilot)


async def _filter(pilot: Pilot[None], text: str) -> None:
    await _type(pilot, text)
    await press(pilot, "enter")


@asynccontextmanager
async def _searched(source: ScriptedSource, *, hidden: int = 0) -> AsyncIterator[tuple[Pilot[None], list[str]]]:
    """Open a queue of a hundred messages, and search it for those of refunds; give the ids of all, too."""
    async with _opened(source, hidden=hidden) as (pilot, ids):
        await _filter(pilot, "json.type=refund")
        yield pilot, ids


async def _poll(pilot: Pilot[None], source: ScriptedSource) -> None:
    """Let a poll succeed, whatever is under way."""
    source.play(
        replace(source.last, at_ms=source.last.at_ms + 1000, connection=Connection(fresh_at_s=source.clock.now_s))
    )
    await until(pilot, lambda: app_of(pilot).dashboard.snapshot is source.last, "the poll arrives")
    await pilot.pause()


async def _fail_poll(pilot: Pilot[None], source: ScriptedSource) -> None:
    source.play_failure(Failure("refused", "connection refused", "is it running?"))
    await shown(pilot, source)


def _entry(pilot: Pilot[None]) -> Input:
    return pilot.app.screen.query_one("#filter", Input)


def _listed(pilot: Pilot[None]) -> str:
    return " ".join("".join(lines_of(pilot.app.screen.query_one("#search", TextLine))).split())


class TestTheWayBack:
    async def test_escape_shows_the_page_and_the_message_from_before_the_filter(self, source: ScriptedSource) -> None:
        async with _opened(source) as (pilot, _):
            await press(pilot, "right_square_bracket", "j", "j")
            page, chosen = names_in(pilot), table_of(pilot).cursor_key
            await _filter(pilot, "json.type=refund")
            assert names_in(pilot) != page
            await press(pilot, "escape")
            # The line of the search gives its row back to the page.
            await until(pilot, lambda: names_in(pilot) == page, "the page")
            assert table_of(pilot).cursor_key == chosen

    async def test_the_message_chosen_among_the_results_stays_under_the_cursor(self, source: ScriptedSource) -> None:
        async with _searched(source) as (pilot, ids):
            await press(pilot, *"jjjjjjjjjj")
            assert table_of(pilot).cursor_key == ids[40]
            await press(pilot, "escape")
            assert table_of(pilot).cursor_key == ids[40]
            assert names_in(pilot)[0] == ids[40]
            # On the page that is shown already, it stays where it is.
            await _filter(pilot, "json.type=refund")
            await press(pilot, "G", "g", *"jjjjjjjjjjj")
            assert table_of(pilot).cursor_key == ids[44]
            await press(pilot, "escape")
            assert (names_in(pilot)[0], table_of(pilot).cursor_key) == (ids[40], ids[44])

    async def test_another_tab_begins_at_its_first_page(self, source: ScriptedSource) -> None:
        async with _opened(source) as (pilot, ids):
            await press(pilot, "right_square_bracket")
            await _filter(pilot, "json.type=refund")
            await press(pilot, "l", "escape")
            assert (names_in(pilot)[0], table_of(pilot).cursor_key) == (ids[0], ids[0])


class TestTyping:
    async def test_every_key_is_a_letter_there(self, source: ScriptedSource) -> None:
        async with _opened(source) as (pilot, _):
            await press(pilot, "slash", *"xAvMq", "slash", "space", "plus", "asterisk", *"hl0")
            assert _entry(pilot).value == "xAvMq/ +*hl0"
            assert "\n xAvMq/ +*hl0" in text_of(app_of(pilot))
            assert isinstance(pilot.app.screen, QueueScreen)

    @pytest.mark.parametrize(("text", "pointer", "words"), [
        ("rc>=x", "rc>=^", "a receive count must be a whole number"),
        ("ready colour:red", "ready ^^^^^^", 'unknown field "colour"'),
        ("state:redy", "state:^^^^", "Did you mean ready?"),
        ('body:"abc', "body:^^^^", "the quote is not closed"),
        ("body~(?=a)", "body~^^^^^", "lookaround is not supported"),
    ])  # fmt: skip
    async def test_what_is_wrong_is_said_and_pointed_at_while_one_types(
        self, source: ScriptedSource, text: str, pointer: str, words: str
    ) -> None:
        async with _opened(source) as (pilot, _):
            await _type(pilot, text)
            drawn, *listed = lines_of(pilot.app.screen.query_one(FilterProblem))
            start = pointer.index("^")
            assert drawn.rstrip() == " " * (start + 1) + pointer[start:]
            assert words in " ".join(listed)
            await press(pilot, "enter")
            assert source.searches == []
            assert _entry(pilot).has_focus
            _entry(pilot).value = "state:ready"
            await settled(pilot)
            assert not pilot.app.screen.query_one(FilterProblem).display

    async def test_the_pointer_follows_a_filter_that_is_wider_than_the_screen(self, source: ScriptedSource) -> None:
        async with _opened(source, size=(40, 16)) as (pilot, _):
            await press(pilot, "slash", *("a" * 60), "space", *"rc>x")
            pointer = lines_of(pilot.app.screen.query_one(FilterProblem))[0]
            line = next(line for line in text_of(app_of(pilot)).splitlines() if "rc>x" in line)
            assert pointer.index("^") == line.index("x")

    async def test_escape_leaves_what_was_typed_unapplied(self, source: ScriptedSource) -> None:
        async with _opened(source) as (pilot, _):
            await _type(pilot, "refund")
            await press(pilot, "escape")
            assert table_of(pilot).has_focus
            assert source.searches == []
            assert not _entry(pilot).parent.display

    async def test_a_filter_can_be_changed(self, source: ScriptedSource) -> None:
        async with _searched(source) as (pilot, ids):
            await press(pilot, "slash")
            assert _entry(pilot).value == "json.type=refund"
            await press(pilot, "space", *"json.n<9", "enter")
            assert names_in(pilot) == [ids[0], ids[4], ids[8]]
            await _filter(pilot, "  ")
            await until(pilot, lambda: len(names_in(pilot)) == table_of(pilot).visible_rows, "a page is shown")
            assert "1 of 100" in text_of(app_of(pilot))


class TestSearching:
    async def test_what_matches_is_shown_by_due_time_and_counted(self, source: ScriptedSource) -> None:
        async with _opened(source, hidden=10) as (pilot, ids):
            source.messages["orders"].reverse()
            await _filter(pilot, "json.type=refund")
            assert names_in(pilot) == ids[::4]
            assert _listed(pilot) == "filter: json.type=refund 1 of 25 matches · as of now"
            await press(pilot, "j", "enter")
            assert "pretty" in text_of(app_of(pilot))
            await press(pilot, "escape")
            assert names_in(pilot) == ids[::4]
            assert table_of(pilot).cursor_key == ids[4]
            assert len(source.searches) == 1

    async def test_matches_arrive_with_the_search_and_escape_stops_it(self, source: ScriptedSource) -> None:
        source.search_gate = asyncio.Semaphore(2)
        source.search_step = 20
        async with _opened(source) as (pilot, ids):
            await _type(pilot, "json.type=refund")
            await pilot.press("enter")
            await until(pilot, lambda: names_in(pilot) == ids[:40:4], "the first matches are shown")
            progress = "filter: json.type=refund 1 of 10 matches · scanned 40 of 100 · esc stops"
            await until(pilot, lambda: _listed(pilot) == progress, "how far it is")
            # Polls and keys go on meanwhile.
            source.play(poll_of(source, [queue_of("orders", ready=123)], source.last.at_ms + 1000))
            await says(pilot, "all 123")
            await pilot.press("j", "j")
            assert table_of(pilot).cursor_key == ids[8]
            source.search_gate.release()
            await until(pilot, lambda: names_in(pilot) == ids[:60:4], "more are shown")
            assert table_of(pilot).cursor_key == ids[8]
            await pilot.press("escape")
            await settled(pilot)
            assert names_in(pilot) == ids[:60:4]
            assert "15 matches · stopped at 60 of 100" in _listed(pilot)
            assert source.searches_closed == 1
            await press(pilot, "escape")
            await until(pilot, lambda: len(names_in(pilot)) == table_of(pilot).visible_rows, "a page is shown")
            await press(pilot, "escape")
            assert isinstance(pilot.app.screen, OverviewScreen)

    async def test_a_stopped_search_does_not_say_that_nothing_matches(self, source: ScriptedSource) -> None:
        source.search_gate, source.search_step = asyncio.Semaphore(2), 20
        async with _opened(source) as (pilot, _):
            await _type(pilot, "json.type=parcel")
            await pilot.press("enter")
            await until(pilot, lambda: "scanned 40 of 100" in _listed(pilot), "how far it is")
            await pilot.press("escape")
            await settled(pilot)
            text = text_of(app_of(pilot))
            assert "No match in the 40 of 100 messages searched. Press r to search all." in text
            assert "No message matches" not in text
            assert "0 matches · stopped at 40 of 100, as of now · r refreshes" in _listed(pilot)
            await _poll(pilot, source)
            await _poll(pilot, source)
            assert "stopped at 40 of 100, 2 s old" in _listed(pilot)
            source.search_gate = None
            await press(pilot, "r")
            await says(pilot, "No message matches")

    async def test_only_r_searches_again_and_the_line_says_how_old_it_is(self, source: ScriptedSource) -> None:
        async with _searched(source) as (pilot, ids):
            await press(pilot, "j", "j")
            source.messages["orders"] = source.messages["orders"][5:]
            for _ in range(3):
                await poll_again(pilot, 4000)
            assert len(source.searches) == 1
            assert names_in(pilot) == ids[::4]
            assert "25 matches · 12 s old · r refreshes" in _listed(pilot)
            assert lines_of(table_of(pilot))[1].split()[1] == "gone"
            assert "1m 11s ago" in lines_of(table_of(pilot))[4]
            await press(pilot, "r")
            assert names_in(pilot) == ids[8::4]
            assert table_of(pilot).cursor_key == ids[8]
            assert _listed(pilot).endswith("23 matches · as of now")

    async def test_while_it_searches_again_what_was_found_stays(self, source: ScriptedSource) -> None:
        async with _searched(source) as (pilot, ids):
            source.search_gate = asyncio.Semaphore(0)
            await pilot.press("r")
            await until(pilot, lambda: "esc stops" in _listed(pilot), "it searches")
            assert names_in(pilot) == ids[::4]
            source.search_error = "the server [/went] away\x1b[2J"
            source.search_gate.release()
            await settled(pilot)
            assert names_in(pilot) == ids[::4]
            assert _listed(pilot).endswith("25 matches · ✗ stale 0 s: the server [/went] away␛[2J")

    async def test_what_was_in_flight_is_ready_once_its_time_has_come(self, source: ScriptedSource) -> None:
        async with _opened(source, hidden=3) as (pilot, ids):
            await press(pilot, "l", "l")
            assert names_in(pilot) == ids[-3:]
            assert "in flight in 20 s" in " ".join(lines_of(table_of(pilot))[1].split())
            await poll_again(pilot, 25_000)
            row = " ".join(lines_of(table_of(pilot))[1].split())
            assert "ready 4 s ago" in row or "ready 5 s ago" in row

    async def test_a_tab_and_what_was_typed_are_one_filter(self, source: ScriptedSource) -> None:
        async with _searched(source, hidden=10) as (pilot, ids):
            await press(pilot, "l", "l")
            assert [str(wanted) for wanted in source.searches] == [
                'json.type=refund', "state:ready json.type=refund", "state:inflight json.type=refund",
            ]  # fmt: skip
            assert names_in(pilot) == [ids[92], ids[96]]
            # What was found for a tab is kept until the filter changes.
            await press(pilot, "h", "h")
            assert len(names_in(pilot)) == 25
            assert len(source.searches) == 3
            await press(pilot, "escape", "l", "l")
            assert len(names_in(pilot)) == 10

    async def test_leaving_a_tab_stops_its_search(self, source: ScriptedSource) -> None:
        source.search_gate = asyncio.Semaphore(0)
        async with _opened(source) as (pilot, _):
            await pilot.press("l", "l")
            await until(pilot, lambda: source.searches, "it searches")
            await pilot.press("h")
            await settled(pilot)
            assert source.searches_closed == 1
            assert "[ ready 100 ]" in text_of(app_of(pilot))
            await pilot.press("l")
            await pilot.pause()
            assert "stopped at 0 of 0" in _listed(pilot)
            assert "the search was stopped before the first reply" in text_of(app_of(pilot))
            await pilot.press("h", "h", "escape")
            await settled(pilot)
            assert isinstance(pilot.app.screen, OverviewScreen)

    async def test_leaving_the_screen_stops_the_search(self, source: ScriptedSource) -> None:
        source.search_gate = asyncio.Semaphore(1)
        async with _opened(source, 300) as (pilot, _):
            await pilot.press("l", "l")
            await until(pilot, lambda: source.searches, "it searches")
            await pilot.press("q")
            await until(pilot, lambda: source.searches_closed, "the search is closed")
            await settled(pilot)

    async def test_only_so_many_rows_are_kept_and_that_is_said(self, source: ScriptedSource) -> None:
        async with _opened(source, 2_500, size=(140, 30)) as (pilot, ids):
            source.messages["orders"].reverse()
            await _filter(pilot, "order")
            wanted = [id for number, id in enumerate(ids) if number % 4]
            assert names_in(pilot) == wanted[:ROWS_MAX]
            assert _listed(pilot) == "filter: order 1 of 1,875 matches, first 1,000 shown · as of now"

    async def test_another_namespace_is_searched_anew_and_nothing_of_it_is_marked(self, source: ScriptedSource) -> None:
        async with _searched(source) as (pilot, ids):
            await press(pilot, "space", "space")
            source.messages["orders"] = source.messages["orders"][50:]
            await play(pilot, source, replace(source.last, ns="mail", at_ms=source.last.at_ms + 1000))
            await settled(pilot)
            assert names_in(pilot) == ids[52::4]
            assert "marked" not in text_of(app_of(pilot))

    async def test_r_while_it_searches_begins_again(self, source: ScriptedSource) -> None:
        source.search_gate = asyncio.Semaphore(1)
        source.search_step = 50
        async with _opened(source) as (pilot, ids):
            await pilot.press("slash", *"refund", "enter")
            await until(pilot, lambda: len(names_in(pilot)) == 13, "the first are found")
            await pilot.press("r")
            await until(pilot, lambda: len(source.searches) == 2 and source.searches_closed == 1, "it begins again")
            assert len(names_in(pilot)) == 13
            source.search_gate = None
            await pilot.press("r")
            await settled(pilot)
            assert names_in(pilot) == ids[::4]
            assert source.searches_closed == 3

    async def test_nothing_found_and_a_failure_are_told(self, source: ScriptedSource) -> None:
        async with _opened(source) as (pilot, _):
            await _filter(pilot, "[/x]")
            assert "No message matches [/x]. Press esc to see all." in text_of(app_of(pilot))
            source.search_error = "NOPERM [/read]"
            await _filter(pilot, "other")
            assert _listed(pilot) == "filter: other – matches · ✗ NOPERM [/read]"
            assert "No message matches" not in text_of(app_of(pilot))
            assert isinstance(pilot.app.screen, QueueScreen)


class TestFailing:
    async def test_the_next_poll_that_succeeds_searches_again(self, source: ScriptedSource) -> None:
        async with _opened(source) as (pilot, ids):
            source.search_error = "connection refused"
            await _filter(pilot, "json.type=refund")
            assert names_in(pilot) == []
            await _fail_poll(pilot, source)
            assert len(source.searches) == 1
            source.search_error = None
            await poll_again(pilot)
            assert names_in(pilot) == ids[::4]
            assert _listed(pilot) == "filter: json.type=refund 1 of 25 matches · as of now"
            # And that was that.
            for _ in range(3):
                await poll_again(pilot)
            assert len(source.searches) == 2

    async def test_once_per_poll_and_no_more_often(self, source: ScriptedSource) -> None:
        async with _opened(source) as (pilot, _):
            source.search_error = "NOPERM"
            await press(pilot, "l", "l")
            for polled in range(1, 4):
                # Neither keys nor a screen that was in front are a poll.
                await press(pilot, "t", "question_mark", "escape", "h", "l", "enter", "j")
                assert len(source.searches) == polled
                await poll_again(pilot)
            await _fail_poll(pilot, source)
            await press(pilot, "p")
            assert len(source.searches) == 4
            await press(pilot, "r")
            assert len(source.searches) == 5

    async def test_not_while_one_is_under_way(self, source: ScriptedSource) -> None:
        async with _opened(source) as (pilot, ids):
            source.search_error = "LOADING"
            await _filter(pilot, "json.type=refund")
            source.search_error, source.search_gate, source.search_step = None, asyncio.Semaphore(0), 50
            for _ in range(3):
                await _poll(pilot, source)
            assert len(source.searches) == 2
            # It looks as it did until there is an answer.
            assert _listed(pilot) == "filter: json.type=refund – matches · ✗ LOADING"
            source.search_gate.release()
            await until(pilot, lambda: names_in(pilot) == ids[:50:4], "what it finds is shown at once")
            assert "13 matches · scanned 50 of 100 · esc stops" in _listed(pilot)
            source.search_gate.release()
            await settled(pilot)
            assert names_in(pilot) == ids[::4]

    async def test_what_was_found_before_stays_and_is_dimmed(self, source: ScriptedSource) -> None:
        async with _searched(source) as (pilot, ids):
            source.search_error = "LOADING"
            await press(pilot, "r")
            assert table_of(pilot).opacity < 1
            assert names_in(pilot) == ids[::4]
            assert _listed(pilot) == "filter: json.type=refund 1 of 25 matches · ✗ stale 0 s: LOADING"
            await poll_again(pilot, 7000)
            assert "25 matches · ✗ stale 7 s: LOADING" in _listed(pilot)
            await press(pilot, "A")
            assert "all matching" in text_of(app_of(pilot))
            source.search_error = None
            source.messages["orders"] = source.messages["orders"][8:]
            await poll_again(pilot)
            assert names_in(pilot) == ids[8::4]
            assert table_of(pilot).opacity == 1

    async def test_a_part_of_what_there_is_is_called_a_part(self, source: ScriptedSource) -> None:
        source.search_gate, source.search_step = asyncio.Semaphore(1), 40
        async with _opened(source) as (pilot, ids):
            await pilot.press("slash", *"refund", "enter")
            await until(pilot, lambda: len(names_in(pilot)) == 10, "the first are found")
            source.search_error = "gone"
            source.search_gate.release()
            await settled(pilot)
            assert _listed(pilot) == "filter: refund 1 of 10 matches · ✗ stale 0 s, at 40 of 100: gone"
            assert table_of(pilot).opacity < 1
            source.search_error = source.search_gate = None
            await poll_again(pilot)
            assert names_in(pilot) == ids[::4]

    async def test_each_tab_for_itself(self, source: ScriptedSource) -> None:
        async with _opened(source, hidden=10) as (pilot, ids):
            source.search_error = "BUSY"
            await press(pilot, "l", "l", "l")
            await press(pilot, "h")
            source.search_error = None
            await poll_again(pilot)
            assert names_in(pilot) == ids[90:]
            assert [str(wanted) for wanted in source.searches] == [
                "state:inflight", "state:delayed", "state:inflight",
            ]  # fmt: skip
            await press(pilot, "l")
            assert "✗ BUSY" in _listed(pilot)
            await poll_again(pilot)
            assert "There are no delayed messages" in text_of(app_of(pilot))

    @pytest.mark.parametrize("answers", [True, False])
    async def test_escape_does_not_stop_what_looks_failed(self, source: ScriptedSource, answers: bool) -> None:
        async with _opened(source) as (pilot, _):
            source.search_error = "BUSY"
            await _filter(pilot, "refund")
            if not answers:
                source.search_gate = asyncio.Semaphore(0)
            await _poll(pilot, source)
            assert len(source.searches) == 2
            await pilot.press("escape")
            await settled(pilot)
            assert "1 of 100" in text_of(app_of(pilot))
            assert source.searches_closed == 2

    async def test_a_search_that_was_left_is_made_when_one_comes_back(self, source: ScriptedSource) -> None:
        async with _opened(source, hidden=10) as (pilot, ids):
            source.search_error = "BUSY"
            await press(pilot, "l", "l")
            source.search_error, source.search_gate = None, asyncio.Semaphore(0)
            await _poll(pilot, source)
            await pilot.press("h", "l")
            await settled(pilot)
            assert "✗ BUSY" in _listed(pilot)
            source.search_gate = None
            await poll_again(pilot)
            assert names_in(pilot) == ids[90:]

    async def test_marks_outlast_it(self, source: ScriptedSource) -> None:
        async with _opened(source) as (pilot, _):
            await _filter(pilot, "refund")
            await press(pilot, "space", "space")
            source.search_error = "BUSY"
            await press(pilot, "r")
            assert "2 marked" in text_of(app_of(pilot))
            source.search_error = None
            source.messages["orders"] = source.messages["orders"][1:]
            await poll_again(pilot)
            assert "1 marked" in text_of(app_of(pilot))


class TestNumbers:
    """A tab says a number as sure only as long as it is."""

    async def test_what_was_counted_some_time_ago_is_about(self, source: ScriptedSource) -> None:
        async with _opened(source, hidden=10) as (pilot, _):
            await press(pilot, "l", "l")
            assert "[ in flight 10 ]" in text_of(app_of(pilot))
            await poll_again(pilot)
            assert "[ in flight ~10 ]" in text_of(app_of(pilot))
            await press(pilot, "r")
            assert "[ in flight 10 ]" in text_of(app_of(pilot))
            await press(pilot, "l")
            assert "in flight ~10 " in text_of(app_of(pilot))

    async def test_nor_is_one_that_could_not_be_counted_again(self, source: ScriptedSource) -> None:
        async with _opened(source, hidden=10) as (pilot, _):
            await press(pilot, "l", "l")
            source.search_error = "BUSY"
            await press(pilot, "r")
            assert "[ in flight ~10 ]" in text_of(app_of(pilot))
            assert _listed(pilot) == "1 of 10 in flight · ✗ stale 0 s: BUSY"
            await press(pilot, "l")
            assert "[ delayed – ]" in text_of(app_of(pilot))
            assert _listed(pilot) == "– delayed · ✗ BUSY"

    async def test_while_the_server_is_away_none_is_sure(self, source: ScriptedSource) -> None:
        async with _opened(source, hidden=10) as (pilot, _):
            await press(pilot, "l", "l")
            await _fail_poll(pilot, source)
            text = text_of(app_of(pilot))
            assert "all ~100 " in text
            assert "ready ~90 " in text
            assert "[ in flight ~10 ]" in text


def test_what_makes_results_incomplete_is_shown_before_their_age() -> None:
    hits = Hits(parse_filter("refund"))
    hits.add(SearchProgress(START_MS, 1_234_567, 123_456, 12_345, 1_234, ()))
    hits.end(SearchState.STOPPED)
    matched = "1 of 12,345 matches"
    incomplete = "1,234 too long to search · stopped at 123,456 of 1,234,567"
    for width, expected in (
        (160, f" filter: refund   {matched}, first 1,000 shown · {incomplete}, 1m 0s old · r refreshes"),
        (116, f" {matched}, first 1,000 shown · {incomplete}, 1m 0s old"),
        (110, f" filter: refund   {matched} · {incomplete}, 1m 0s old"),
        (84, f" {matched} · {incomplete}"),
    ):
        pieces = search_pieces(hits, "refund", width, position=1, now_ms=START_MS + 60_000, refresh="r")
        assert "".join(text for text, _ in pieces) == expected


def test_in_80_columns_the_order_stays_and_other_words_are_shorter() -> None:
    hits = Hits(parse_filter("refund"), order=MessageOrder("rc", reverse=True))
    hits.add(SearchProgress(START_MS, 1_234_567, 123_456, 12_345, 1_234, ()))
    hits.end(SearchState.STOPPED)
    pieces = search_pieces(hits, "refund", 80, position=1, now_ms=START_MS + 60_000, refresh="r")
    words = "".join(text for text, _ in pieces)
    assert words == " 1 of 12,345 matches, least received first · 1,234 too long · stopped at 10%"


@pytest.mark.parametrize("size", [(40, 10), (80, 24), (20, 6)], ids=str)
async def test_narrow_terminals_keep_the_count_and_how_to_stop(source: ScriptedSource, size: tuple[int, int]) -> None:
    source.search_gate, source.search_step = asyncio.Semaphore(1), 50
    async with _opened(source, size=size) as (pilot, _):
        await pilot.press("slash", *"refund", "enter")
        await until(pilot, lambda: "13 matches" in _listed(pilot), "the first are found")
        if size[0] >= 40:
            assert "scanned 50" in _listed(pilot)
            assert len(lines_of(table_of(pilot))) >= 3
        if size[0] >= 80:
            assert "filter: refund" in _listed(pilot)
            assert _listed(pilot).endswith("esc stops")
        assert {len(line) for line in text_of(app_of(pilot)).splitlines()} == {size[0]}
        await pilot.press("escape", "slash", *"rc>x")
        await settled(pilot)
        assert {len(line) for line in text_of(app_of(pilot)).splitlines()} == {size[0]}


async def test_rows_that_were_found_say_at_each_poll_what_has_become_of_them(source: ScriptedSource) -> None:
    async with _searched(source) as (pilot, ids):
        before = [line.split() for line in lines_of(table_of(pilot))[1:4]]
        assert [row[1] for row in before] == ["ready", "ready", "ready"]
        messages = source.messages["orders"]
        due_ms = START_MS + 30_000
        messages[0] = replace(messages[0], state=MessageState.IN_FLIGHT, due_ms=due_ms, score=str(due_ms), rc=3)
        del messages[4]
        source.followed.clear()
        await poll_again(pilot)
        after = [line.split() for line in lines_of(table_of(pilot))[1:4]]
        assert after[0][1:5] == ["in", "flight", "in", "29"]
        assert "3" in after[0]
        assert after[1][1:3] == ["gone", "–"]
        assert after[2][1] == "ready"
        # Only those in sight are asked for, and the list itself stays as it was found.
        assert source.followed == [names_in(pilot)[: table_of(pilot).visible_rows]]
        assert names_in(pilot) == ids[::4]
        assert "25 matches" in text_of(app_of(pilot))


async def test_a_mark_on_a_found_row_ends_when_its_message_has_gone(source: ScriptedSource) -> None:
    async with _searched(source) as (pilot, _):
        await press(pilot, "space", "space")
        assert "2 marked" in text_of(app_of(pilot))
        del source.messages["orders"][0]
        await poll_again(pilot)
        assert "1 marked" in text_of(app_of(pilot))


async def test_found_rows_are_asked_for_once_a_poll_and_a_failure_leaves_them(source: ScriptedSource) -> None:
    async with _searched(source) as (pilot, _):
        await poll_again(pilot)
        source.followed.clear()
        await press(pilot, "t", "t", "t", "j")
        assert source.followed == []
        source.peek_error = "no answer"
        await poll_again(pilot)
        assert lines_of(table_of(pilot))[1].split()[1] == "ready"
        source.peek_error = None
        await poll_again(pilot)
        assert len(source.followed) == 1
