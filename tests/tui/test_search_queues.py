"""The search over queues: what is found in which queue, what is marked, and changes of several queues at once."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from redis import Redis
from textual.pilot import Pilot

from rsmq_tui.monitor import PeekError, RsmqPoller, SearchProgress
from rsmq_tui.monitor.list_poller import ListPoller
from rsmq_tui.protocol import Rsmq, RsmqReader
from rsmq_tui.protocol.kinds import LIST
from rsmq_tui.protocol.lists.naming import ListNames
from rsmq_tui.protocol.lists.reader import ListReader
from rsmq_tui.triage.rsmq.backend import RsmqBackend
from rsmq_tui.triage.service import ChangeService
from rsmq_tui.tui.app import RsmqApp
from rsmq_tui.tui.changes.confirm import ConfirmScreen
from rsmq_tui.tui.changes.controller import Aim, ChangeStatus
from rsmq_tui.tui.overview import search
from rsmq_tui.tui.overview.screen import OverviewScreen
from rsmq_tui.tui.overview.search import SearchScreen
from rsmq_tui.tui.queue.message import MessagePane, MessageScreen
from rsmq_tui.tui.queue.screen import QueueScreen
from rsmq_tui.tui.servers import WatchedServer
from rsmq_tui.tui.widgets.pane import fitting
from rsmq_tui.tui.widgets.row_table import RowTable
from tests.triage.list_doing import list_changes
from tests.tui.changing import fill
from tests.tui.driving import opened, play, press, says, settled, until, wait_for_screen
from tests.tui.reading import app_of, table_of, text_of
from tests.tui.scripted import ScriptedSource, messages_of
from tests.tui.scripted_triage import ScriptedTriage
from tests.tui.states import poll_of, queue_of

pytestmark = pytest.mark.slow

LISTED = "queue:push"
HOSTILE = "queue:[/red]\x1b[2J"


@asynccontextmanager
async def on_server(url: str, folder: Path) -> AsyncIterator[Pilot[None]]:
    """The dashboard on the RSMQ queues and the lists of a server, with its search open."""
    lists = ListPoller(ListReader(url, ListNames(), ["queue:*"]), interval_s=0.05, place="lists")
    servers = [
        WatchedServer(
            RsmqPoller(RsmqReader(url), interval_s=0.05, place="rsmq"),
            place="rsmq",
            make_triage=partial(ChangeService, RsmqBackend(url, "rsmq"), folder),
        ),
        WatchedServer(lists, place="lists", ns=LIST.ns, make_triage=partial(list_changes, url, ListNames(), folder)),
    ]
    async with RsmqApp(servers).run_test(size=(150, 40), notifications=True) as pilot:
        await until(pilot, lambda: len(table_of(pilot).rows) == 6, "the queues are shown")
        await pilot.press("f")
        await wait_for_screen(pilot, SearchScreen)
        yield pilot


async def confirmed(pilot: Pilot[None]) -> str:
    """Wait for the preview, say yes, and return what it said."""
    await wait_for_screen(pilot, ConfirmScreen)
    await until(pilot, lambda: pilot.app.screen.query("#yes:enabled"), "it can be confirmed")
    words = " ".join(text_of(app_of(pilot)).split())
    pilot.app.screen.query_one("#yes").focus()
    await pilot.press("enter")
    await wait_for_screen(pilot, SearchScreen)
    return words


def lines_of_queues(pilot: Pilot[None]) -> dict[str, int]:
    """How many messages are listed of each queue."""
    counts: dict[str, int] = {}
    for line in table_of(pilot).rows:
        counts[line.found.queue] = counts.get(line.found.queue, 0) + (line.row is not None)
    return counts


async def test_messages_of_all_queues_are_found_and_changed_and_put_back(
    client: Redis, redis_url: str, tmp_path: Path
) -> None:
    rsmq = Rsmq(client)
    for name, number in (("orders", 8), ("orders-us", 6), ("mail", 4), ("empty", 0)):
        rsmq.create_queue(name, vt=600)
        for start in range(number):
            rsmq.send_message(name, json.dumps({"customer": start % 2}))
    for key in (LISTED, HOSTILE):
        client.lpush(key, *(json.dumps({"customer": number % 2}) for number in range(4)))
    untouched = {name: client.zrange(f"rsmq:{name}", 0, -1, withscores=True) for name in ("orders-us", "mail")}
    items = {key: sorted(client.lrange(key, 0, -1)) for key in (LISTED, HOSTILE)}
    async with on_server(redis_url, tmp_path / "state") as pilot:
        await pilot.press(*"json.customer=1", "enter")
        await says(pilot, "13 matches in 5 queues · 5 of 5 queues, 26 read")
        assert lines_of_queues(pilot) == {"orders": 4, "orders-us": 3, "mail": 2, LISTED: 2, HOSTILE: 2}
        assert "\x1b" not in text_of(app_of(pilot))
        # A message and a queue open, and the way back is the search.
        await pilot.press("g", "enter")
        assert (await wait_for_screen(pilot, QueueScreen)).messages.typed.text == "json.customer=1"
        await until(pilot, lambda: len(table_of(pilot).rows) in (2, 3, 4), "its matches are shown")
        # While it is searched, escape would stop that first.
        await says(pilot, "matches · as of")
        await pilot.press("escape", "escape", "j", "enter")
        await wait_for_screen(pilot, MessageScreen)
        await pilot.press("escape")
        await wait_for_screen(pilot, SearchScreen)
        # All of RSMQ and of lists are deleted together; a message that is received meanwhile stays.
        await pilot.press("A")
        await says(pilot, "13 marked in 5 queues")
        await pilot.press("x")
        await wait_for_screen(pilot, ConfirmScreen)
        await until(pilot, lambda: pilot.app.screen.query("#yes:enabled"), "it can be confirmed")
        rsmq.receive_messages("orders", 2)
        words = await confirmed(pilot)
        assert "Delete 13 messages in 5 queues" in words
        assert f"on {redis_url}, ns rsmq" in words
        assert "orders: 4, now 4 ready" in words
        assert "list:queue:push: 2" in words
        await says(pilot, "deleted 12, skipped 1 (received or changed meanwhile)")
        await says(pilot, "orders 3")
        await says(pilot, "1 match in 1 queue")
        assert [client.zcard(f"rsmq:{name}") for name in ("orders", "orders-us", "mail")] == [5, 3, 2]
        assert client.llen(LISTED) == 2
        # The bottom line says what u takes back: in all queues.
        await says(pilot, "undo delete 12 in 5 queues")
        await pilot.press("u")
        assert "Undo 5 changes" in await confirmed(pilot)
        await says(pilot, "put back 12")
        assert [client.zcard(f"rsmq:{name}") for name in ("orders", "orders-us", "mail")] == [8, 6, 4]
        assert client.llen(LISTED) == 4
        # A pattern leaves out the others; a form is asked once for all, and each queue is a change.
        await pilot.press("slash")
        await pilot.press(*["backspace"] * 30, *"queue:orders* json.customer=1", "enter")
        await says(pilot, "7 matches in 2 queues")
        await pilot.press("A", "M")
        await fill(pilot, target="mail")
        # A command for each queue is copied, and can be read where the terminal lets no program copy.
        await wait_for_screen(pilot, ConfirmScreen)
        await until(pilot, lambda: pilot.app.screen.query("#yes:enabled"), "it can be confirmed")
        await pilot.press("y")
        await says(pilot, "copied 2 commands, one for each queue")
        assert pilot.app.clipboard.count("\n") == 1
        for name in ("orders", "orders-us"):
            assert f"rsmq-tui messages move {name} --to mail" in text_of(app_of(pilot))
        assert "Move 7 messages in 2 queues" in await confirmed(pilot)
        await says(pilot, "moved 7")
        assert client.zcard("rsmq:mail") == 11
        await pilot.press("u")
        await confirmed(pilot)
        await says(pilot, "moved back 7")
        # One file holds them all, with their queues.
        await says(pilot, "7 matches in 2 queues")
        await pilot.press("E")
        await fill(pilot, file=str(tmp_path / "found.jsonl"))
        await says(pilot, "exported 7 messages")
        found = [json.loads(line)["queue"] for line in (tmp_path / "found.jsonl").read_text().splitlines()]
        assert sorted(found) == ["orders"] * 4 + ["orders-us"] * 3
    # An undo puts items back at the end of a list that consumers take from.
    assert {name: client.zrange(f"rsmq:{name}", 0, -1, withscores=True) for name in untouched} == untouched
    assert {key: sorted(client.lrange(key, 0, -1)) for key in (LISTED, HOSTILE)} == items


class Counted(ScriptedSource):
    """Answers searches one step at a time, fails for one queue, and cannot search a message of another."""

    async def search(self, queue: str, wanted: object) -> AsyncIterator[SearchProgress]:  # type: ignore[override]
        if queue == "secret":
            raise PeekError("NOPERM [/red]")
        async for progress in super().search(queue, wanted):  # type: ignore[arg-type]
            yield replace(progress, not_searched=1) if queue == "long" else progress


async def test_what_was_not_searched_and_the_counts_are_shown_on_a_small_terminal() -> None:
    source = Counted()
    names = ["long", *(f"orders-{number}" for number in range(32))]
    for name in names:
        source.messages[name] = messages_of([b"word"] * 3 + [b"other"] * 303)
    source.messages["long"] = messages_of([b"other"])
    async with opened(source, [queue_of(name, ready=306) for name in names], size=(80, 24)) as pilot:
        await press(pilot, "f", *'body:"word"', "enter")
        await says(pilot, "96 matches in 32 queues · 1 too long to search")
        text = text_of(app_of(pilot))
        (line,) = (line for line in text.splitlines() if "◀" in line)
        assert "96 matches in 32 queues · 1 too long to search" in line
        assert re.search(r" long +1 too long", text)
        assert "3 of 306 " in text
        await press(pilot, "slash", *["backspace"] * 20, *'queue:orders-* body:"word"', "enter")
        await says(pilot, "32 of 32 queues, 9,792 read")
        assert "too long" not in text_of(app_of(pilot))
        await settled(pilot)


async def test_progress_marks_bounds_and_what_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch, triage: ScriptedTriage
) -> None:
    monkeypatch.setattr(search, "LISTED_MAX", 150)
    source = Counted()
    async with opened(source, size=(150, 30), notifications=True, triage=triage) as pilot:
        names = [f"q{number}" for number in range(4)]
        for name in (*names, "secret"):
            source.messages[name] = messages_of([b"word %d" % number for number in range(130)])
        states = [queue_of(name, ready=130) for name in (*names, "secret")]
        await play(pilot, source, poll_of(source, [*states, queue_of("empty", ready=0, depth=0)]))
        await press(pilot, "f", *"rc>oops", "enter")
        assert isinstance(pilot.app.screen, SearchScreen)
        assert "^" in text_of(app_of(pilot))
        source.search_gate = asyncio.Semaphore(0)
        await pilot.press(*["backspace"] * 7, *"word", "enter")
        await says(pilot, "0 of 5 queues, 0 read · esc stops")
        await pilot.press("x")
        await says(pilot, "nothing was found yet: the search is still running")
        source.search_gate.release()
        await says(pilot, "100 matches in 1 queue")
        await pilot.press("A")
        await says(pilot, "still running")
        await pilot.press("escape")
        await says(pilot, "stopped: 0 of 5 queues, 100 read · r searches again")
        assert source.searches_closed == 4
        source.search_gate = None
        await press(pilot, "r")
        await says(pilot, "520 matches in 4 queues · ✗ 1 queue not read · 5 of 5 queues, 520 read")
        assert "200 listed, others only counted" in text_of(app_of(pilot))
        assert lines_of_queues(pilot) == {"q0": 100, "q1": 100, "q2": 0, "q3": 0, "secret": 0}
        # A queue's line marks all that match there, a message's line that one.
        await press(pilot, "g", "space", *"j" * 102, "space")
        assert "131 marked in 2 queues" in text_of(app_of(pilot))
        # In another namespace, queues of the same names are other queues.
        for ns in ("mail", "rsmq"):
            await play(pilot, source, poll_of(source, states, ns=ns))
            await says(pilot, "520 matches in 4 queues · ✗ 1 queue not read · 5 of 5 queues")
            assert "marked" not in text_of(app_of(pilot)).split("QUEUE")[0]
        await press(pilot, "g", "space", *"j" * 102, "space")
        assert "131 marked in 2 queues" in text_of(app_of(pilot))
        await press(pilot, "g", "space")
        assert "1 marked in 1 queue" in text_of(app_of(pilot))
        await press(pilot, "escape")
        assert "marked" not in text_of(app_of(pilot)).split("QUEUE")[0]
        await press(pilot, "escape")
        assert isinstance(pilot.app.screen, OverviewScreen)
        await settled(pilot)


async def test_a_queue_that_was_changed_is_searched_again_once_the_search_has_ended() -> None:
    source = ScriptedSource()
    async with opened(source, size=(150, 30)) as pilot:
        for name in ("q0", "q1"):
            source.messages[name] = messages_of([b"word"])
        await play(pilot, source, poll_of(source, [queue_of(name, ready=1) for name in ("q0", "q1")]))
        source.search_gate = asyncio.Semaphore(0)
        await pilot.press("f", *"word", "enter")
        await says(pilot, "0 of 2 queues")
        screen = await wait_for_screen(pilot, SearchScreen)
        changed = ChangeStatus("deleted 1", aims=(Aim(app_of(pilot).dashboard.server(""), "q0"),))
        screen.receive_change(changed)
        assert len(source.searches) == 2
        source.search_gate.release()
        source.search_gate.release()
        await until(pilot, lambda: len(source.searches) == 3, "one is searched again")
        source.search_gate.release()
        await says(pilot, "2 matches in 2 queues · 2 of 2 queues, 2 read")
        # One that was stopped is not complete afterwards either.
        source.search_gate = asyncio.Semaphore(0)
        await pilot.press("r")
        await says(pilot, "esc stops")
        await pilot.press("escape")
        await says(pilot, "stopped: 0 of 2 queues")
        source.search_gate = None
        screen.receive_change(changed)
        await says(pilot, "1 match in 1 queue · stopped: ")
        await settled(pilot)


async def test_results_are_sorted_over_all_queues_with_the_message_in_a_pane(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of all in an order are listed, also if only a part of them was; what is not listed is searched."""
    monkeypatch.setattr(search, "LISTED_MAX", 150)
    monkeypatch.setattr("rsmq_tui.tui.widgets.pane.fitting", fitting)
    source = Counted()
    sizes = {
        "q0": [size * 7 % 131 for size in range(230)],
        "q1": [size * 5 % 127 for size in range(226)],
        "q2": [3] * 2,
    }
    for name, lengths in sizes.items():
        source.messages[name] = messages_of([b"x" * length for length in lengths])
    source.messages["secret"] = messages_of([b"x"])
    async with opened(source, size=(150, 30)) as pilot:
        polled = poll_of(source, [queue_of(name, ready=9) for name in source.messages])
        await play(pilot, source, polled)
        await press(pilot, "f", "enter")
        await says(pilot, "4 of 4 queues, 458 read")
        # Grouped, the line of a queue shows its first message.
        assert pilot.app.screen.query_one(MessagePane).position == "beside"
        assert f" {source.messages['q0'][0].id}  ready" in text_of(app_of(pilot))
        assert len(source.searches) == 3
        # By due time, age, receive count, then size.
        await press(pilot, "s", "s", "s", "s")
        await says(pilot, "458 matches in 3 queues, largest first · ✗ 1 queue not read · 4 of 4 queues, 458 read")
        assert "150 listed, others only counted" in text_of(app_of(pilot))
        longest = sorted((size for lengths in sizes.values() for size in lengths), reverse=True)
        *lines, unread = table_of(pilot).rows
        assert [line.row.size for line in lines] == longest[:150]
        assert (unread.found.queue, unread.row) == ("secret", None)
        await says(pilot, "x" * 40)
        await press(pilot, "S")
        await says(pilot, "smallest first · ✗ 1 queue not read · 4 of 4 queues, 458 read")
        assert [line.row.size for line in table_of(pilot).rows[:-1]] == longest[::-1][:150]
        # A mark is for the message, in whichever order it is shown.
        await press(pilot, "space", "escape", "escape")
        await says(pilot, "458 matches in 3 queues · ✗ 1 queue not read · 4 of 4 queues, 458 read")
        assert lines_of_queues(pilot) == {"q0": 100, "q1": 100, "q2": 0, "secret": 0}
        # If all that match are listed, another order reads nothing.
        await press(pilot, "slash", *"queue:q2", "enter")
        await says(pilot, "2 matches in 1 queue · 1 of 1 queue, 2 read")
        searches = len(source.searches)
        await press(pilot, "s", "S")
        await says(pilot, "2 matches in 1 queue, last due first")
        assert [line.row.id for line in table_of(pilot).rows] == [row.id for row in source.messages["q2"][::-1]]
        await pilot.click(RowTable, offset=(4, 0))
        await says(pilot, "2 matches in 1 queue · 1 of 1 queue")
        assert [line.row is None for line in table_of(pilot).rows] == [True, False, False]
        assert len(source.searches) == searches
        await settled(pilot)


async def test_if_all_that_match_are_listed_none_is_said_to_be_only_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "LISTED_MAX", 5)
    source = ScriptedSource()
    async with opened(source, size=(150, 30)) as pilot:
        for name in ("q0", "q1"):
            source.messages[name] = messages_of([b"word"] * 4)
        await play(pilot, source, poll_of(source, [queue_of(name, ready=4) for name in source.messages]))
        await press(pilot, "f", "enter", "s")
        await says(pilot, "8 matches in 2 queues, next due first")
        assert "5 listed, others only counted" in text_of(app_of(pilot))
        assert len(table_of(pilot).rows) == 5
        # Those beyond are kept until they are twice as many: by queue, all are shown.
        await press(pilot, "escape")
        await says(pilot, "8 matches in 2 queues · 2 of 2 queues")
        assert "only counted" not in text_of(app_of(pilot))
        assert lines_of_queues(pilot) == {"q0": 4, "q1": 4}
        await settled(pilot)
