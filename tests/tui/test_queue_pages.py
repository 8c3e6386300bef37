"""Pages of messages: turned by keys, anchored while messages come and go, and never an older reply over a newer one."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from textual.pilot import Pilot

from rsmq_tui.monitor import MessageState, Page, PageRequest
from rsmq_tui.protocol.kinds import kind_named
from rsmq_tui.tui.changes.forms import FormScreen
from rsmq_tui.tui.queue.message_list import MessageList
from rsmq_tui.tui.queue.positions import Number, PositionError
from rsmq_tui.tui.queue.screen import QueueScreen
from rsmq_tui.tui.queue.tabs import Tabs
from tests.tui.driving import opened, play, play_orders, poll_again, press, says, settled, until
from tests.tui.reading import app_of, names_in, table_of, tabs_of, text_of
from tests.tui.scripted import START_MS, ScriptedSource, messages_of
from tests.tui.scripted_triage import ScriptedTriage
from tests.tui.states import poll_of, queue_of
from tests.waiting import SECONDS_MAX

pytestmark = pytest.mark.slow

READY, HIDDEN = 70, 30


@asynccontextmanager
async def _paged(source: ScriptedSource, *keys: str, **options: Any) -> AsyncIterator[tuple[Pilot[None], list[str]]]:
    """Run the app, open a queue of a hundred messages, and press keys; give the ids too."""
    async with opened(source, **options) as pilot:
        bodies = [b'{"n": %d}' % number for number in range(READY + HIDDEN)]
        await play_orders(pilot, source, bodies, "enter", *keys, hidden=HIDDEN)
        yield pilot, [row.id for row in source.messages["orders"]]


class Slow(ScriptedSource):
    """Gives each page only when the test says so, in whichever order, even to those who do not wait any more."""

    def __init__(self) -> None:
        super().__init__()
        self.gates: list[asyncio.Event] = []
        self.stubborn = False

    async def peek(self, request: PageRequest) -> Page:
        page = await super().peek(request)
        if not self.stubborn:
            return page
        gate = asyncio.Event()
        self.gates.append(gate)
        await gate.wait()
        return page


async def test_all_and_ready_are_pages_and_other_tabs_are_searched(source: ScriptedSource) -> None:
    async with _paged(source, size=(120, 36)) as (pilot, ids):
        rows = table_of(pilot).visible_rows
        assert tabs_of(pilot) == "[ all 100 ] ready 70 in flight – delayed – poison – 1 of 100"
        assert names_in(pilot) == ids[:rows]
        await press(pilot, "l")
        assert tabs_of(pilot) == "all 100 [ ready 70 ] in flight – delayed – poison – 1 of 70"
        assert names_in(pilot) == ids[:rows]
        assert source.searches == []
        await press(pilot, "right")
        assert tabs_of(pilot) == "all 100 ready 70 [ in flight 30 ] delayed – poison –"
        assert names_in(pilot) == ids[70:]
        await press(pilot, "l", "l")
        assert tabs_of(pilot) == "all 100 ready 70 in flight ~30 delayed ~0 [ poison 0 ]"
        await press(pilot, "l")
        assert tabs_of(pilot).startswith("[ all 100 ]")
        await press(pilot, "h", "h", "left", "h", "h")
        assert tabs_of(pilot).startswith("[ all 100 ]")
        assert [str(wanted) for wanted in source.searches] == ["state:inflight", "state:delayed", "state:poison"]


async def test_a_form_that_is_closed_before_its_answer_is_read_goes_nowhere(
    source: ScriptedSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, read = threading.Event(), threading.Event()

    def read_slowly(typed: str, now_ms: int) -> Number:
        begun.set()
        read.wait(SECONDS_MAX)
        if typed == "wrong":
            raise PositionError(typed)
        return Number(50)

    monkeypatch.setattr("rsmq_tui.tui.queue.screen.read_position", read_slowly)
    async with _paged(source, size=(120, 36)) as (pilot, ids):
        app, shown = app_of(pilot), names_in(pilot)
        for typed in ("wrong", "50"):
            read.clear()
            begun.clear()
            await pilot.press("number_sign")
            await until(pilot, lambda: isinstance(app.screen, FormScreen) and app.screen.is_mounted, "the form opens")
            await pilot.press(*typed, "enter")
            await until(pilot, begun.is_set, "the answer is being read")
            app.screen.dismiss()
            read.set()
            await until(pilot, lambda: isinstance(app.screen, QueueScreen), "the form closes")
            await settled(pilot)
            assert names_in(pilot) == shown == ids[: len(shown)]


async def test_brackets_turn_pages_to_both_ends(source: ScriptedSource) -> None:
    async with _paged(source, size=(120, 36)) as (pilot, ids):
        rows = table_of(pilot).visible_rows
        await press(pilot, "left_square_bracket")
        assert names_in(pilot) == ids[:rows]
        seen = names_in(pilot)
        while names_in(pilot)[-1] != ids[-1]:
            await press(pilot, "right_square_bracket")
            assert table_of(pilot).cursor_key == names_in(pilot)[0]
            seen += names_in(pilot)
        assert seen == ids
        await press(pilot, "right_square_bracket")
        assert names_in(pilot)[-1] == ids[-1]
        while names_in(pilot)[0] != ids[0]:
            await press(pilot, "left_square_bracket")
            assert table_of(pilot).cursor_key == names_in(pilot)[-1]
        assert tabs_of(pilot).endswith(f" {rows} of 100")


async def test_keys_lead_anywhere_in_the_part_and_the_line_says_where(source: ScriptedSource) -> None:
    async with _paged(source, size=(120, 24)) as (pilot, ids):
        rows = table_of(pilot).visible_rows

        def is_at(place: int, of: int = READY + HIDDEN) -> bool:
            return table_of(pilot).cursor_key == ids[place - 1] and tabs_of(pilot).endswith(f" {place} of {of}")

        for keys, place in (
            (["G"], 100),
            (["j"], 100),
            (["pagedown"], 100),
            (["g", "k"], 1),
            (["j"] * rows, rows + 1),
            (["k"], rows),
            (["g", "j", "j", "pagedown"], rows + 3),
            (["pageup"], 3),
            (["pageup"], 1),
            (["end", "home"], 1),
            (["number_sign", *"57", "enter"], 57),
            (["number_sign", *"99", "enter"], 99),
            (["number_sign", *"1,000", "enter"], 100),
            (["number_sign", *"25%", "enter"], 26),
            (["number_sign", *ids[41], "enter"], 42),
            (["number_sign", *ids[82][:-1], "enter"], 81),
        ):
            await press(pilot, *keys)
            assert is_at(place), (keys, place, tabs_of(pilot))
        # A part ends before what is hidden; an id that is hidden is shown among all.
        await press(pilot, "l", "G")
        assert is_at(READY, READY)
        await press(pilot, "number_sign", *ids[-1], "enter")
        assert is_at(100)
        assert tabs_of(pilot).startswith("[ all 100 ]")
        await press(pilot, "number_sign", *"nope", "enter")
        assert is_at(100)
        await press(pilot, "number_sign", *"22:10:99", "enter")
        assert "'22:10:99' is not a position: write 31, 50%, 22:10," in " ".join(text_of(app_of(pilot)).split())
        await press(pilot, "escape")
        # Among the results of a search, they move the cursor.
        await press(pilot, "slash", *"state:ready", "enter", "number_sign", *"50%", "enter")
        assert table_of(pilot).cursor_key == ids[35]
        assert "36 of 70 matches" in text_of(app_of(pilot))


async def test_what_is_looked_for_in_one_tab_does_not_appear_in_another(source: ScriptedSource) -> None:
    async with _paged(source, size=(120, 24)) as (pilot, ids):
        source.search_gate = asyncio.Semaphore(0)
        await pilot.press("number_sign", *ids[-1][:-1], "enter")
        await until(pilot, lambda: bool(source.searches), "the id is looked for")
        await pilot.press("l")
        await until(pilot, lambda: f"1 of {READY}" in tabs_of(pilot), "the other tab is shown")
        for _ in ids:
            source.search_gate.release()
        await settled(pilot)
        assert f"[ ready {READY} ]" in tabs_of(pilot)
        assert f"1 of {READY}" in tabs_of(pilot)
        assert names_in(pilot)[0] == ids[0]


async def test_keys_that_are_held_down_lose_no_page() -> None:
    source = Slow()
    async with _paged(source, size=(120, 24)) as (pilot, ids):
        rows = table_of(pilot).visible_rows
        source.stubborn = True

        async def arrive(first: int) -> None:
            """Let all pages that were asked for arrive, of which the last one begins there."""
            for gate in source.gates:
                gate.set()
            await settled(pilot)
            assert names_in(pilot) == ids[first : first + rows]

        await pilot.press(*["right_square_bracket"] * 3)
        await arrive(3 * rows)
        await pilot.press("left_square_bracket", "left_square_bracket", "right_square_bracket", "pageup")
        await arrive(rows)
        await pilot.press("pagedown", "pagedown", "G", *["pageup"] * 2, "pagedown")
        await arrive(100 - 2 * rows)
        # Beyond an end they stay there: the next key in the other direction leads away from it.
        await pilot.press(*["left_square_bracket"] * 20, "right_square_bracket")
        await arrive(rows)
        # A range is not left out by what is held down.
        source.stubborn = False
        await press(pilot, "g")
        source.stubborn = True
        await pilot.press("v", *["right_square_bracket"] * 2)
        source.stubborn = False
        for gate in source.gates:
            gate.set()
        await settled(pilot)
        await press(pilot, "v")
        assert names_in(pilot) == ids[2 * rows : 3 * rows]
        assert f"{2 * rows + 1} marked" in tabs_of(pilot)


async def test_other_orders_are_read_once_and_only_a_long_queue_asks_before(source: ScriptedSource) -> None:
    async with opened(source, size=(120, 36)) as pilot:
        bodies = [b"x" * (number * 7 % 50) for number in range(40)]
        await play_orders(pilot, source, bodies, "enter")
        rows = source.messages["orders"]
        by_size = [row.id for row in sorted(rows, key=lambda row: (-row.size, row.id))]
        by_receives = [row.id for row in sorted(rows, key=lambda row: (-(row.rc or 0), row.id))]
        await press(pilot, "s")
        assert "1 of 40 messages, oldest first · as of now" in text_of(app_of(pilot))
        assert names_in(pilot) == [row.id for row in rows]
        await press(pilot, "s")
        assert names_in(pilot) == by_receives
        await press(pilot, "s", "j")
        assert names_in(pilot) == by_size
        assert "2 of 40 messages, largest first" in text_of(app_of(pilot))
        assert "↓SIZE" in text_of(app_of(pilot))
        await press(pilot, "S")
        sizes = [row.size for row in table_of(pilot).rows]
        assert sizes == sorted(sizes)
        # It is a list as of that moment, which r reads again.
        source.messages["orders"] = rows[1:]
        await poll_again(pilot)
        assert len(names_in(pilot)) == 40
        await press(pilot, "r")
        assert "of 39 messages, smallest first" in text_of(app_of(pilot))
        await press(pilot, "slash", *"size>40", "enter")
        assert [row.size for row in table_of(pilot).rows] == sorted(size for size in sizes if size > 40)
        await press(pilot, "escape", "escape")
        assert names_in(pilot)[:15] == [row.id for row in rows[1:16]]
        searches = len(source.searches)
        # The poll says how long the queue is.
        await play(pilot, source, poll_of(source, [queue_of("orders", ready=25_000)], source.last.at_ms + 1000))
        await press(pilot, "s", "s")
        shown = "r reads 25,000 messages, most received first · s next order · esc cancels"
        assert shown in text_of(app_of(pilot))
        # The end of a change repeats searches, but does not answer the question.
        pilot.app.screen.query_one(MessageList).search_again()
        await pilot.pause()
        assert shown in text_of(app_of(pilot))
        assert len(source.searches) == searches
        await press(pilot, "r")
        assert names_in(pilot) == [id for id in by_receives if id != rows[0].id]
        await press(pilot, "s", "escape")
        assert names_in(pilot)[:15] == [row.id for row in rows[1:16]]


async def test_pages_of_a_part_end_with_the_part(source: ScriptedSource) -> None:
    async with _paged(source, "l", size=(120, 36)) as (pilot, ids):
        for _ in range(20):
            await press(pilot, "right_square_bracket")
        assert names_in(pilot)[-1] == ids[READY - 1]
        for _ in range(20):
            await press(pilot, "left_square_bracket")
        assert names_in(pilot)[0] == ids[0]


async def test_a_page_stays_while_messages_before_it_disappear(source: ScriptedSource) -> None:
    async with _paged(source, "right_square_bracket", size=(120, 36)) as (pilot, ids):
        rows = table_of(pilot).visible_rows
        await press(pilot, "j", "j")
        assert names_in(pilot) == ids[rows : 2 * rows]
        for gone in (1, 5, rows - 1):
            source.messages["orders"] = [row for row in source.messages["orders"] if row.id not in ids[:gone]]
            await poll_again(pilot)
            assert names_in(pilot) == ids[rows : 2 * rows]
            assert tabs_of(pilot).endswith(f" {rows - gone + 3} of {100 - gone}")
            assert table_of(pilot).cursor_key == ids[rows + 2]
        # Its own first messages go: it begins with the next one that is left.
        source.messages["orders"] = source.messages["orders"][4:]
        await poll_again(pilot)
        assert names_in(pilot) == ids[rows + 3 : 2 * rows + 3]
        assert tabs_of(pilot).endswith(f" 3 of {97 - rows}")


async def test_the_first_page_follows_the_head_of_the_queue(source: ScriptedSource) -> None:
    async with _paged(source, size=(120, 36)) as (pilot, ids):
        source.messages["orders"] = source.messages["orders"][10:]
        await poll_again(pilot)
        assert names_in(pilot)[0] == ids[10]
        assert table_of(pilot).cursor_key == ids[10]


async def test_a_page_of_which_all_is_consumed_gives_way_to_what_is_left(source: ScriptedSource) -> None:
    async with _paged(source, "right_square_bracket", "right_square_bracket", size=(120, 36)) as (pilot, ids):
        source.messages["orders"] = source.messages["orders"][:5]
        await poll_again(pilot)
        await poll_again(pilot)
        assert names_in(pilot)[-1] == ids[4]
        source.messages["orders"] = []
        await poll_again(pilot)
        assert "There are no messages in this queue." in text_of(app_of(pilot))


async def test_an_older_reply_never_covers_a_newer_page() -> None:
    source = Slow()
    async with _paged(source, size=(120, 36)) as (pilot, ids):
        source.stubborn = True
        await pilot.press("l")
        await until(pilot, lambda: len(source.gates) == 1, "the ready ones are asked for")
        await pilot.press("h")
        await until(pilot, lambda: len(source.gates) == 2, "all are asked for")
        source.messages["orders"] = source.messages["orders"][5:]
        await pilot.press("l")
        await until(pilot, lambda: len(source.gates) == 3, "the ready ones are asked for again")
        source.gates[2].set()
        await until(pilot, lambda: names_in(pilot)[:1] == [ids[5]], "the newest page is shown")
        for gate in source.gates[:2]:
            gate.set()
        await settled(pilot)
        assert names_in(pilot)[0] == ids[5]
        assert "[ ready 65 ]" in tabs_of(pilot)


async def test_polls_do_not_starve_a_slow_reply_nor_forget_which_page_was_asked_for() -> None:
    source = Slow()
    async with _paged(source, size=(120, 36)) as (pilot, ids):
        rows = table_of(pilot).visible_rows
        source.stubborn = True
        await pilot.press("right_square_bracket")
        await until(pilot, lambda: source.gates, "the next page is asked for")
        for second in range(3):
            source.play(poll_of(source, [queue_of("orders", ready=READY)], source.last.at_ms + second * 1000 + 1))
            await until(pilot, lambda: app_of(pilot).dashboard.snapshot is source.last, "the poll arrives")
            await pilot.pause()
        assert len(source.gates) == 1
        source.stubborn = False
        source.gates[0].set()
        await settled(pilot)
        assert names_in(pilot) == ids[rows : 2 * rows]


async def test_leaving_while_a_reply_is_under_way_is_harmless(source: ScriptedSource) -> None:
    async with opened(source) as pilot:
        source.hold = asyncio.Event()
        await play_orders(pilot, source, [b"x"])
        await pilot.press("enter")
        await until(pilot, lambda: source.requests, "the page is asked for")
        assert "Reading …" in text_of(app_of(pilot))
        await pilot.press("escape")
        source.hold.set()
        await settled(pilot)
        assert names_in(pilot) == ["orders"]


@pytest.mark.parametrize("key", ["x", "W", "e"])
async def test_before_the_messages_were_read_a_change_says_so(
    source: ScriptedSource, triage: ScriptedTriage, key: str
) -> None:
    async with opened(source, triage=triage, notifications=True) as pilot:
        source.hold = asyncio.Event()
        await play_orders(pilot, source, [b"x"])
        await pilot.press("enter")
        await until(pilot, lambda: source.requests, "the page is asked for")
        await pilot.press(key)
        await says(pilot, "the messages are still being read")
        source.hold.set()


@pytest.mark.parametrize("key", ["x", "W", "e"])
async def test_if_the_messages_could_not_be_read_a_change_says_so(
    source: ScriptedSource, triage: ScriptedTriage, key: str
) -> None:
    async with opened(source, triage=triage, notifications=True) as pilot:
        source.peek_error = "the server is loading"
        await play_orders(pilot, source, [b"x"], "enter")
        await says(pilot, "the server is loading")
        await pilot.press(key)
        await says(pilot, "the messages could not be read")


async def test_each_poll_reads_the_page_once(source: ScriptedSource) -> None:
    async with _paged(source, size=(120, 36)) as (pilot, _):
        asked = len(source.requests)
        assert asked == 1
        assert source.requests[0].count == table_of(pilot).visible_rows
        for number in range(3):
            await poll_again(pilot)
            assert len(source.requests) == asked + number + 1


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ({"ready": 5, "hidden": 3}, "in flight – delayed – poison –"),
        ({"ready": 5, "hidden": 0}, "in flight 0 delayed 0 poison –"),
        ({"ready": 5, "hidden": 3, "poison": 2, "highest_rc": 9}, "in flight – delayed – poison 2+"),
        (
            {"ready": 5, "hidden": 3, "poison": 2, "highest_rc": 9, "looked": 8, "looked_all_ms": START_MS},
            "in flight – delayed – poison 2",
        ),
        ({"ready": 0, "hidden": 0}, "in flight 0 delayed 0 poison 0"),
    ],
)
async def test_what_a_poll_knows_is_not_unknown_in_a_tab(
    source: ScriptedSource, values: dict[str, int], shown: str
) -> None:
    async with opened(source, size=(120, 30)) as pilot:
        source.depths["orders"] = values["ready"] + values["hidden"], values["ready"]
        await play(pilot, source, poll_of(source, [queue_of("orders", **values)]))
        await press(pilot, "enter")
        assert shown in tabs_of(pilot)
        assert (f"{shown}+" in tabs_of(pilot)) is False


async def test_a_page_of_the_whole_queue_tells_what_all_tabs_hold(source: ScriptedSource) -> None:
    rows = messages_of([b"{}"] * 9, hidden=6)
    rows = [replace(row, rc=9) if number < 2 else row for number, row in enumerate(rows)]
    rows[-1] = replace(rows[-1], rc=None, state=MessageState.DELAYED)
    source.messages["orders"] = rows
    async with opened(source, [queue_of("orders", ready=3, hidden=6, poison=1, highest_rc=9)], size=(120, 30)) as pilot:
        await press(pilot, "enter")
        assert tabs_of(pilot) == "[ all 9 ] ready 3 in flight 5 delayed 1 poison 2 1 of 9"


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (100, "[ all 306 ] ready 300 in flight 5 delayed 1 poison 33 1 of 306"),
        (72, "[ all 306 ] ready in flight delayed poison 1 of 306"),
        (30, "[ all 306 ] 1/5 1 of 306"),
    ],
)
def test_the_position_stays_when_the_numbers_of_other_tabs_do_not_fit(width: int, shown: str) -> None:
    numbers = {"all": "306", "ready": "300", "in flight": "5", "delayed": "1", "poison": "33"}
    pieces = Tabs(kind_named("rsmq").tabs).pieces(numbers, width, position="1 of 306")
    assert " ".join("".join(text for text, _ in pieces).split()) == shown
