"""One queue: why it has its verdict, its facts, its past, and when its messages become visible."""

from dataclasses import replace

import pytest
from textual.pilot import Pilot

from rsmq_tui.monitor import Verdict
from rsmq_tui.monitor.text import clock
from rsmq_tui.monitor.tracking.forecast import Limit
from rsmq_tui.tui.overview.screen import OverviewScreen
from rsmq_tui.tui.queue.message import MessageScreen
from rsmq_tui.tui.queue.screen import QueueScreen
from rsmq_tui.tui.widgets.charts import BarPanel, ChartPanel
from rsmq_tui.tui.widgets.lines import TextLine
from tests.monitor.rows import Flow
from tests.tui.driving import opened, play, play_rows, poll_again, press, settled, shown, until
from tests.tui.reading import app_of, lines_of, names_in, table_of, text_of
from tests.tui.scripted import START_MS, ScriptedSource, messages_of, row_of
from tests.tui.states import one_of_each, poll_of, queue_of

TITLES = {
    "cache": "✗ broken: its messages key is not a sorted set",
    "emails": "■ stalled: 3,020 messages ready, never received for 41m since the first send",
    "orders": "▲ growing: arrivals have exceeded deletes for 34m, now by 210.7/s; the first has waited 2h 14m",
    "invoices": "☣ poisoned: 3 messages received 5 times or more (up to 9)",
    "billing": "◷ aged: the first ready message has waited 22m",
    "audit": "● ok: nothing is wrong",
}


def _line(pilot: Pilot[None], name: str) -> str:
    return lines_of(pilot.app.screen.query_one(f"#{name}", TextLine))[0]


async def _open(pilot: Pilot[None], source: ScriptedSource, **values: object) -> None:
    """Open the one queue there is."""
    await play(pilot, source, poll_of(source, [queue_of("orders", **{"ready": 1, **values})]))
    await press(pilot, "enter")
    assert isinstance(pilot.app.screen, QueueScreen)


async def test_the_title_says_the_verdict_and_why(source: ScriptedSource) -> None:
    async with opened(source, one_of_each()) as pilot:
        for name in names_in(pilot):
            await press(pilot, "enter")
            assert _line(pilot, "title").strip() == f"◀ {name}   {TITLES[name]}"
            await press(pilot, "escape", "j")


async def test_the_title_follows_the_polls(source: ScriptedSource) -> None:
    async with opened(source) as pilot:
        await _open(pilot, source)
        assert "● ok" in _line(pilot, "title")
        now = queue_of("orders", ready=9, verdict=Verdict.STALLED, since_ms=START_MS)
        await play(pilot, source, poll_of(source, [now], START_MS + 61_000))
        assert "■ stalled: 9 messages ready, never received for 1m 1s since the first was due" in _line(pilot, "title")


async def _play_two_minutes(pilot: Pilot[None], source: ScriptedSource, *, received: int, deleted: int) -> None:
    """Show a queue to which six messages are sent each second."""
    flow, at_ms = Flow(sent=900, head_ms=START_MS), START_MS
    for _ in range(130):
        flow.move(sent=6, received=received, deleted=deleted)
        at_ms += 1_000
        source.snapshot_of({"orders": flow.row()}, at_ms)
    await play(pilot, source, source.last)


async def test_the_title_says_how_many_times_the_deletes_would_do(source: ScriptedSource) -> None:
    async with opened(source, size=(200, 36)) as pilot:
        await _play_two_minutes(pilot, source, received=3, deleted=3)
        await press(pilot, "enter")
        assert "; needs 2.0x the deletes to keep up, 2.7x to drain in 10 min, at the rates of 1 min" in _line(
            pilot, "title"
        )


async def test_the_overview_and_the_title_say_how_many_messages_came_back(source: ScriptedSource) -> None:
    async with opened(source, size=(240, 36)) as pilot:
        await _play_two_minutes(pilot, source, received=9, deleted=6)
        words = "came back: consumers fail, or need longer than the vt of 30 s"
        assert words in _line(pilot, "why")
        await press(pilot, "enter")
        assert words in _line(pilot, "title")


async def test_facts_are_the_attributes_and_counters(source: ScriptedSource) -> None:
    async with opened(source, size=(160, 36)) as pilot:
        await _open(pilot, source, vt_s=15.5, delay_s=3, totalsent=88_121, totalrecv=90_000)
        assert _line(pilot, "facts").strip() == (
            "vt 15.5 s · delay 3 s · max 65,536 · sent 88,121 · received 90,000 · created 2026-11-17 11:06"
        )
        now = queue_of("orders", maxsize=-1, vt_s=None, totalsent=None, problems=("vt is odd", "no created date"))
        await play(pilot, source, poll_of(source, [now], START_MS + 1000))
        assert _line(pilot, "facts").strip() == (
            "vt – · delay 0 s · max unlimited · sent – · received 0 · created 2026-11-17 11:06"
            "   ! vt is odd; no created date"
        )


async def test_facts_take_a_second_line_where_they_need_it_and_keep_it_until_the_width_changes(
    source: ScriptedSource,
) -> None:
    async with opened(source, size=(80, 24)) as pilot:
        await _open(pilot, source, totalsent=123_456_789, totalrecv=123_456_000)
        facts = pilot.app.screen.query_one("#facts", TextLine)
        created = f"created {clock(source.last.queues[0].created_ms, date=True)[:16]}"
        assert created in " ".join(line.strip() for line in lines_of(facts))
        assert len(lines_of(facts)) == 2
        shorter = queue_of("orders", ready=1, totalsent=1, totalrecv=0)
        await play(pilot, source, poll_of(source, [shorter], START_MS + 1_000))
        assert len(lines_of(facts)) == 2
        await pilot.resize_terminal(100, 24)
        await until(pilot, lambda: len(lines_of(facts)) == 1, "one line has room for them")
        assert created in lines_of(facts)[0]


async def test_charts_and_bars(source: ScriptedSource) -> None:
    source.due_counts = (("now", 12), ("< 10 s", 3), ("< 1 min", 0))
    async with opened(source, size=(150, 36)) as pilot:
        await play_rows(pilot, {"orders": row_of(depth=0)})
        await press(pilot, "enter")
        depth, rates = (pilot.app.screen.query_one(f"#{name}", ChartPanel) for name in ("depth", "rates"))
        assert "collecting …" in "".join(lines_of(rates))
        for minute in range(1, 6):
            rows = {"orders": row_of(depth=100 * minute, hidden=minute, sent=120 * minute, received=60 * minute)}
            await play_rows(pilot, rows, START_MS + minute * 60_000)
        for chart, labels in ((depth, ("ready", "hidden")), (rates, ("arrivals", "deletes", "receives"))):
            drawn = "".join(lines_of(chart))
            assert all(label in drawn for label in labels)
            assert any(character in drawn for character in map(chr, range(0x2801, 0x2900)))
        bars = lines_of(pilot.app.screen.query_one(BarPanel))
        assert [line.replace("━", " ").split()[-2:-1] for line in bars[:1]] == [["now"]]
        assert [any(mark in line for mark in "━╸") for line in bars[:3]] == [True, True, False]
        assert bars[0].count("━") > bars[1].count("━")


async def test_messages_show_state_due_age_rc_size_and_first_line(source: ScriptedSource) -> None:
    source.messages["orders"] = messages_of(
        [b'{"a": 1}', b"  line one\nline two", b"", None, b"x" * 500], hidden=1, rc=6
    )
    async with opened(source, size=(120, 36)) as pilot:
        await _open(pilot, source)
        head, *rows = lines_of(table_of(pilot))
        assert head.split() == ["ID", "STATE", "DUE", "AGE", "RC", "SIZE", "BODY"]
        assert [" ".join(row.split()) for row in rows[:4]] == [
            'hocx8qopw000000… ready 1m 0s ago 1m 0s 6 8 B {"a": 1}',
            "hocx8qopw000000… ready 59 s ago 59 s 6 19 B line one",
            "hocx8qopw000000… ready 59 s ago 59 s 6 0 B",
            "hocx8qopw000000… ready 59 s ago 59 s 6 0 B no body: consumers receive only an id",
        ]
        assert "in flight in 20 s" in " ".join(rows[4].split())
        assert rows[4].rstrip().endswith("x…")
        assert len(names_in(pilot)) == 5


async def test_a_body_too_long_for_a_page_says_that_enter_shows_it(source: ScriptedSource) -> None:
    source.messages["orders"] = [replace(row, size=5_000_000) for row in messages_of([b""])]
    async with opened(source) as pilot:
        await _open(pilot, source)
        assert "4.8 MiB: enter shows it" in lines_of(table_of(pilot))[1]


@pytest.mark.parametrize(("keys", "words"), [
    ((), "There are no messages in this queue."),
    (("l",), "There are no ready messages in this queue."),
    (("l", "l"), "There are no in flight messages in this queue."),
    (("h",), "There are no poison messages in this queue."),
])  # fmt: skip
async def test_no_messages_are_said_to_be_none(source: ScriptedSource, keys: tuple[str, ...], words: str) -> None:
    async with opened(source) as pilot:
        await _open(pilot, source, ready=0)
        await press(pilot, *keys)
        assert words in text_of(app_of(pilot))
        await press(pilot, "enter", "left_square_bracket", "right_square_bracket", "j", "k", "y", "I")
        assert isinstance(pilot.app.screen, QueueScreen)


async def test_a_deleted_queue_says_so_and_keeps_the_screen(source: ScriptedSource) -> None:
    source.messages["orders"] = messages_of([b"x"] * 3)
    async with opened(source) as pilot:
        await _open(pilot, source)
        source.messages.clear()
        await play(pilot, source, poll_of(source, [queue_of("other")], START_MS + 1000))
        assert "this queue is gone: it was deleted or lost, or another namespace is shown" in _line(pilot, "title")
        assert not _line(pilot, "facts").strip()
        assert "There are no messages in this queue." in text_of(app_of(pilot))
        # And created again.
        source.messages["orders"] = messages_of([b"y"])
        await play(pilot, source, poll_of(source, [queue_of("orders", ready=1)], START_MS + 2000))
        assert "● ok" in _line(pilot, "title")
        assert len(names_in(pilot)) == 1
        await press(pilot, "q")
        assert isinstance(pilot.app.screen, OverviewScreen)


async def test_a_failed_look_says_why_and_recovers(source: ScriptedSource) -> None:
    source.messages["orders"] = messages_of([b"x"] * 3)
    source.peek_error = "NOPERM this user may not [/read]\x1b[2J"
    async with opened(source) as pilot:
        await _open(pilot, source)
        assert "NOPERM this user may not [/read]␛[2J" in text_of(app_of(pilot))
        assert names_in(pilot) == []
        source.peek_error = None
        await poll_again(pilot)
        assert "NOPERM" not in text_of(app_of(pilot))
        assert len(names_in(pilot)) == 3


@pytest.mark.parametrize("size", [(132, 36), (60, 20)], ids=str)
async def test_a_page_that_cannot_be_read_again_stays_and_says_why(
    source: ScriptedSource, size: tuple[int, int]
) -> None:
    source.messages["orders"] = messages_of([b"x"] * 3)
    async with opened(source, size=size) as pilot:
        await _open(pilot, source)
        await press(pilot, "j", "j")
        table, rows = table_of(pilot), lines_of(table_of(pilot))
        key = table.cursor_key
        assert key == source.messages["orders"][2].id
        source.peek_error = "the server [/went] away\x1b[2J"
        for _ in range(2):
            await poll_again(pilot, 12_000)
        assert _line(pilot, "tabs").split()[:4] == ["[", "all", "3", "]"]
        assert "✗ stale 24 s: the server [/went] away␛[2J" in _line(pilot, "tabs")
        assert [line.split()[-1] for line in lines_of(table)[:4]] == [line.split()[-1] for line in rows[:4]]
        assert table.cursor_key == key
        assert table.styles.opacity < 1
        source.peek_error = None
        source.messages["orders"] = messages_of([b"x"] * 4)
        await poll_again(pilot)
        assert "stale" not in text_of(app_of(pilot))
        assert len(names_in(pilot)) == 4
        assert table.cursor_key == key
        assert table.styles.opacity == 1


@pytest.mark.parametrize("key", ["l", "right_square_bracket"])
async def test_a_page_that_was_asked_for_in_vain_leaves_the_one_before(source: ScriptedSource, key: str) -> None:
    source.messages["orders"] = messages_of([b"x"] * 100, hidden=90)
    async with opened(source) as pilot:
        await _open(pilot, source)
        await press(pilot, "j")
        before, cursor, asked = names_in(pilot), table_of(pilot).cursor_key, source.requests[-1]
        source.peek_error = "not now"
        await press(pilot, key)
        assert "[ all 100 ]" in _line(pilot, "tabs")
        assert "✗ stale 0 s: not now" in _line(pilot, "tabs")
        assert names_in(pilot) == before
        source.peek_error = None
        await poll_again(pilot)
        assert source.requests[-1] == asked
        assert names_in(pilot) == before
        assert table_of(pilot).cursor_key == cursor
        await press(pilot, key)
        assert names_in(pilot) != before


async def test_enter_opens_the_message_and_a_click_on_the_row_under_the_cursor_too(source: ScriptedSource) -> None:
    source.messages["orders"] = messages_of([b"x"] * 3)
    async with opened(source) as pilot:
        await _open(pilot, source)
        await press(pilot, "j", "enter")
        assert isinstance(pilot.app.screen, MessageScreen)
        assert pilot.app.screen.message_id == source.messages["orders"][1].id
        await press(pilot, "escape")
        await pilot.click("#messages", offset=(5, 3))
        await settled(pilot)
        assert isinstance(pilot.app.screen, QueueScreen)
        await pilot.click("#messages", offset=(5, 3))
        await press(pilot, "ctrl+r")
        assert isinstance(pilot.app.screen, MessageScreen)
        assert pilot.app.screen.message_id == source.messages["orders"][2].id


async def test_a_queue_opened_while_paused_shows_its_messages(source: ScriptedSource) -> None:
    source.messages["orders"] = messages_of([b"x"] * 3)
    async with opened(source, [queue_of("orders", ready=3)]) as pilot:
        await press(pilot, "p")
        await shown(pilot, source)
        await press(pilot, "enter")
        assert len(names_in(pilot)) == 3
        # Then nothing is asked until the user does, and r asks once.
        asked = len(source.requests)
        await press(pilot, "t", "j", "k")
        assert len(source.requests) == asked
        source.messages["orders"] = messages_of([b"x"] * 5)
        await poll_again(pilot)
        assert len(names_in(pilot)) == 5


async def test_the_facts_say_when_a_limit_is_reached(source: ScriptedSource) -> None:
    async with opened(source) as pilot:
        await _open(pilot, source, limit=Limit("age", START_MS + 540_000, None))
        assert _line(pilot, "facts").strip().startswith("limit: age ≥ 9m 0s at the rates of 10 min   vt 30 s")
