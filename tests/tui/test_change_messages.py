"""The messages of a change in the journal: marks, a filter, and the undo of some of them."""

import sqlite3
from contextlib import closing

import pytest
from textual.pilot import Pilot

from rsmq_tui.triage.journal.database import outcome_checksum
from rsmq_tui.triage.rsmq.backend import RsmqBackend
from rsmq_tui.triage.scope import Named
from rsmq_tui.triage.service import ChangeService
from rsmq_tui.tui.changes import messages
from rsmq_tui.tui.changes.confirm import ConfirmScreen
from rsmq_tui.tui.changes.journal import JournalScreen
from rsmq_tui.tui.changes.messages import ChangeMessagesScreen
from rsmq_tui.tui.queue.screen import QueueScreen
from rsmq_tui.tui.widgets.lines import KeyHints
from tests.tui.changing import Orders, asked, changing, confirm, fill, in_queue
from tests.tui.driving import says, until, wait_for_screen
from tests.tui.reading import app_of, lines_of, text_of


async def _deleted(pilot: Pilot[None], count: int = 5) -> None:
    await pilot.press("A", "x")
    await confirm(pilot, f"deleted {count},")


async def _opened(pilot: Pilot[None], changes: int, rows: int, place: int = 0) -> ChangeMessagesScreen:
    """Open the journal, and the messages of a change there."""
    await pilot.press("J")
    journal = await wait_for_screen(pilot, JournalScreen)
    await until(pilot, lambda: len(journal.table.rows) == changes, "the changes are shown")
    journal.table.place_cursor(place)
    return await _entered(pilot, rows)


async def _entered(pilot: Pilot[None], rows: int) -> ChangeMessagesScreen:
    await pilot.press("enter")
    screen = await wait_for_screen(pilot, ChangeMessagesScreen)
    await until(pilot, lambda: len(screen.table.rows) == rows, "the messages are shown")
    return screen


def _left(screen: ChangeMessagesScreen) -> int:
    return sum(message.is_left for message in screen.table.rows)


async def test_marked_messages_come_back_then_the_one_under_the_cursor_then_the_rest(orders: Orders) -> None:
    ids, before = orders.ids("orders"), orders.everything()
    async with orders.opened() as pilot:
        await _deleted(pilot)
        screen = await _opened(pilot, 1, 5)
        await says(pilot, "change 1: deleted 5 of 5 none undone")
        await says(pilot, '{"order": 0}')
        await pilot.press("j", "space", "space")
        await says(pilot, "2 marked")
        await pilot.press("u")
        await asked(pilot, "Undo 2 of 5 messages of change 1: deleted, every message of the queue")
        await asked(pilot, "put back 2 messages that were deleted")
        await asked(pilot, '{"order": 2}')
        await confirm(pilot, "put back 2,")
        assert orders.ids("orders") == ids[1:3]
        await until(pilot, lambda: _left(screen) == 3, "the list says which came back")
        await says(pilot, "undone in part: 2 of 5")
        assert [message.undone for message in screen.table.rows] == [False, True, True, False, False]
        # The cursor stays; what has come back cannot be marked.
        assert screen.table.cursor_index == 3
        await pilot.press("k", "space")
        assert not screen.query(".toast")
        await until(pilot, lambda: "marked" not in lines_of(screen.query_one("#title"))[0], "nothing is marked")
        await pilot.press("u")
        await asked(pilot, "Undo 1 of 5 messages of change 1")
        await confirm(pilot, "put back 1,")
        await says(pilot, "undone in part: 3 of 5")

        # The journal says the same, and undoes the rest.
        await pilot.press("escape")
        journal = await wait_for_screen(pilot, JournalScreen)
        await until(pilot, lambda: len(journal.table.rows) == 3, "the undos are listed")
        await pilot.press("G")
        await says(pilot, "undone in part: 3 of 5; applies to 2, all as the change left them")
        assert "part undone" in text_of(app_of(pilot))
        assert "undo of 1, in part" in text_of(app_of(pilot))
        await pilot.press("u")
        await asked(pilot, "3 of 5 were undone before.")
        await confirm(pilot, "put back 2,")
        assert orders.everything() == before
        await says(pilot, "undone by 4; U makes it again")


async def test_a_part_is_made_again(orders: Orders) -> None:
    async with orders.opened() as pilot:
        await _deleted(pilot)
        await _opened(pilot, 1, 5)
        await pilot.press("space", "u")
        await confirm(pilot)
        await pilot.press("escape")
        journal = await wait_for_screen(pilot, JournalScreen)
        await until(pilot, lambda: len(journal.table.rows) == 2, "the undo is listed")
        await pilot.press("G", "U")
        await asked(pilot, "Redo 1 of 5 messages of change 1: deleted, every message of the queue")
        await confirm(pilot, "deleted 1,")
        assert orders.depth("orders") == 0


async def test_what_a_redo_has_made_again_is_not_undone(orders: Orders) -> None:
    async with orders.opened() as pilot:
        await _deleted(pilot)
        await pilot.press("u")
        await confirm(pilot)
        await _opened(pilot, 2, 5)
        await pilot.press("space", "u")
        await confirm(pilot, "deleted 1,")
        await pilot.press("escape")
        journal = await wait_for_screen(pilot, JournalScreen)
        await until(pilot, lambda: len(journal.table.rows) == 3, "the redo is listed")
        await pilot.press("G")
        await says(pilot, "undone by 2, and 1 of 5 made again by 3; U makes the others again")
        assert [change.state_words for change in journal.table.rows] == ["done", "part undone", "part undone"]
        screen = await _entered(pilot, 5)
        await says(pilot, "undone in part: 4 of 5, 1 made again")
        assert [message.made_again for message in screen.table.rows] == [True, False, False, False, False]
        await pilot.press("home")
        await says(pilot, "deleted, undone, and deleted again")
        await pilot.press("u")
        await until(pilot, lambda: pilot.app.screen is screen, "nothing is asked")
        await pilot.press("escape", "U")
        await asked(pilot, "Redo change 1: deleted 5 messages, every message of the queue")
        await asked(pilot, "delete 4 messages again")
        await confirm(pilot, "deleted 4,")
        states = ["done", "done", "undone", "made again"]
        await until(pilot, lambda: [each.state_words for each in journal.table.rows] == states, "it is done")
        assert orders.depth("orders") == 0


async def test_ranges_pages_and_all(orders: Orders) -> None:
    async with orders.opened() as pilot:
        await _deleted(pilot)
        screen = await _opened(pilot, 1, 5)

        def marked() -> str:
            return "".join("●" if line.startswith("●") else "○" if line.startswith("○") else "."
                           for line in lines_of(screen.table)[1:6])  # fmt: skip

        async def shows(marks: str) -> None:
            await until(pilot, lambda: marked() == marks, f"{marks} is marked")

        await pilot.press("j", "v", "j", "j")
        await shows(".○○○.")
        await pilot.press("v")
        await shows(".●●●.")
        await pilot.press("v", "escape")
        await shows(".●●●.")
        await pilot.press("A")
        await shows("●●●●●")
        await pilot.press("A")
        await shows(".....")
        await pilot.press("asterisk")
        await shows("●●●●●")
        await pilot.press("escape")
        await shows(".....")
        await pilot.press("v", "G", "space")
        await shows("...●●")
        await pilot.press("escape", "escape")
        await wait_for_screen(pilot, JournalScreen)


async def test_a_filter_leaves_what_is_left_to_undo_and_all_of_it_is_undone(orders: Orders) -> None:
    ids = orders.ids("orders")
    async with orders.opened() as pilot:
        await _deleted(pilot)
        screen = await _opened(pilot, 1, 5)
        await pilot.press("slash", *"json.order>=3", "enter")
        await until(pilot, lambda: [message.id for message in screen.table.rows] == ids[3:], "two match")
        await says(pilot, "2 left to undo match json.order>=3")
        await pilot.press("A", "u")
        await asked(pilot, "Undo 2 of 5 messages of change 1")
        await confirm(pilot, "put back 2,")
        await says(pilot, "No message that is left to undo matches.")
        await pilot.press("escape")
        await until(pilot, lambda: len(screen.table.rows) == 5, "the filter is cleared")
        assert orders.ids("orders") == ids[3:]


async def test_messages_that_are_on_the_server_are_found_by_their_bodies(orders: Orders) -> None:
    async with orders.opened() as pilot:
        await pilot.press("A", "M")
        await fill(pilot, target="other")
        await confirm(pilot, "moved 5,")
        screen = await _opened(pilot, 1, 5)
        await says(pilot, "the journal has no bodies of messages that stay on the server")
        await pilot.press("slash", *"json.order=4", "enter")
        await until(pilot, lambda: len(screen.table.rows) == 1, "one matches")
        await says(pilot, 'body {"order": 4}')
        await pilot.press("u")
        await asked(pilot, "Undo 1 of 5 messages of change 1: moved to other")
        await confirm(pilot, "moved back 1,")
        assert orders.bodies() == [b'{"order": 4}']


async def test_a_filter_that_cannot_be_applied_says_what_to_do_and_no_number(
    orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rsmq_tui.triage.lists.batches._SEARCHED_BYTES", 100)
    async with orders.opened() as pilot:
        await pilot.press("A", "M")
        await fill(pilot, target="list:jobs")
        await confirm(pilot, "moved 5,")
        await _opened(pilot, 1, 5)
        await pilot.press("slash", *"json.order=4", "enter")
        await says(pilot, "Find their ids in list:jobs, where they are now, and select them by these (undo 1 --id …)")
        assert "left to undo" not in text_of(app_of(pilot))
        monkeypatch.undo()
        await pilot.press("r")
        await says(pilot, "1 left to undo match json.order=4")


async def test_the_command_of_its_preview_is_copied(orders: Orders, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = orders.ids("orders")
    copied: list[str] = []
    async with orders.opened() as pilot:
        monkeypatch.setattr(app_of(pilot), "copy_to_clipboard", copied.append)
        await _deleted(pilot)
        await _opened(pilot, 1, 5)
        await pilot.press("space", "space", "u")
        await asked(pilot, "Undo 2 of 5")
        await pilot.press("y")
        await until(pilot, lambda: copied, "it is copied")
        assert copied[0].startswith(f"rsmq-tui undo 1 --id {ids[0]} {ids[1]} -r redis://")
        await pilot.press("escape")


async def test_of_a_change_elsewhere_its_messages_are_listed(orders: Orders) -> None:
    async with orders.opened() as pilot:
        await _deleted(pilot)
    async with changing(orders.url.replace("127.0.0.1", "localhost"), orders.folder, notifications=True) as pilot:
        await _opened(pilot, 1, 5)
        assert "undo" not in "".join(lines_of(pilot.app.screen.query_one(KeyHints)))
        await pilot.press("o")
        await until(pilot, lambda: isinstance(pilot.app.screen, ChangeMessagesScreen), "the queue is not shown here")
        await says(pilot, "is not among those that are shown")


async def test_a_change_of_a_queue_has_none(orders: Orders) -> None:
    async with orders.opened() as pilot:
        await pilot.press("equals_sign")
        await fill(pilot, vt="9")
        await confirm(pilot)
        await _opened(pilot, 1, 0)
        await says(pilot, "This change has no messages: it is of the queue.")
        await pilot.press("A", "u")
        assert not isinstance(pilot.app.screen, ConfirmScreen)
        await pilot.press("o")
        await wait_for_screen(pilot, QueueScreen)


async def test_beyond_the_limit_messages_are_counted(orders: Orders, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "LISTED_MAX", 3)
    async with orders.opened() as pilot:
        await _deleted(pilot)
        await _opened(pilot, 1, 3)
        await says(pilot, "none undone · first 3 of 5 listed")


async def test_hostile_bodies_and_ids_are_shown_as_they_are(orders: Orders) -> None:
    odd = b"[/foo] \x1b[2J \xff"
    orders.client.zadd("rsmq:orders", {odd: 1})
    orders.client.hset("rsmq:orders:Q", odd, odd)
    async with orders.dashboard() as pilot:
        await in_queue(pilot, "orders", 6)
        await _deleted(pilot, 6)
        screen = await _opened(pilot, 1, 6)
        await pilot.press("g")
        await says(pilot, "message [/foo] ␛[2J")
        await pilot.press("space", "u")
        await asked(pilot, "Undo 1 of 6 messages of change 1")
        await confirm(pilot, "put back 1,")
        await until(pilot, lambda: _left(screen) == 5, "it is back")
        assert orders.client.hget("rsmq:orders:Q", odd) == odd


async def test_what_another_process_has_undone_is_no_longer_marked(orders: Orders) -> None:
    ids = orders.ids("orders")
    other = ChangeService(RsmqBackend(orders.url, "rsmq"), orders.folder)
    async with orders.opened() as pilot:
        await _deleted(pilot)
        screen = await _opened(pilot, 1, 5)
        await pilot.press("space", "space")
        await says(pilot, "2 marked")
        await other.run(await other.preview_undo(1, scope=Named((ids[0],)))).to_end()
        await pilot.press("r")
        await until(pilot, lambda: _left(screen) == 4, "the list says which came back")
        await says(pilot, "undone in part: 1 of 5 · 1 marked")
        await pilot.press("escape", "escape")
        journal = await wait_for_screen(pilot, JournalScreen)
        await pilot.press("slash", *"part", "enter")
        await until(pilot, lambda: len(journal.table.rows) == 1, "the words of its state find the change")
    await other.aclose()


async def test_of_a_batch_that_was_never_carried_out_the_messages_are_not_done(
    orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The screen of the journal would settle it when it looks again.
    monkeypatch.setattr("rsmq_tui.tui.changes.journal._NEWS_S", 1_000.0)
    async with orders.opened() as pilot:
        await _deleted(pilot)
        # As a program leaves it that ends before the call, and that is settled later.
        with closing(sqlite3.connect(orders.folder / "journal.sqlite")) as db, db:
            (sealed,) = db.execute("SELECT checksum FROM batches WHERE change = 1").fetchone()
            db.execute("UPDATE changes SET state = 'running', done = 0 WHERE change = 1")
            db.execute("UPDATE batches SET outcome = NULL, outcome_checksum = ?", (outcome_checksum(sealed, None, 0),))
        await _opened(pilot, 1, 5)
        await says(pilot, "not known yet")
        with closing(sqlite3.connect(orders.folder / "journal.sqlite")) as db, db:
            db.execute("UPDATE changes SET state = 'interrupted' WHERE change = 1")
            db.execute("UPDATE batches SET outcome = '', outcome_checksum = ?", (outcome_checksum(sealed, "", 0),))
        await pilot.press("r")
        await says(pilot, "not done: the change ended before")
        with closing(sqlite3.connect(orders.folder / "journal.sqlite")) as db, db:
            db.execute("DELETE FROM batches")
            db.execute("DELETE FROM changes")
        await pilot.press("r")
        await says(pilot, "change 1 is no longer in the journal")
