"""Every change from its key to the server, and back by u."""

import asyncio
import gc
import shlex
from collections.abc import Callable, Sequence
from contextlib import aclosing
from pathlib import Path

import pytest
from textual import events
from textual.pilot import Pilot
from textual.widgets import Button, Input, Static

from rsmq_tui.protocol import Rsmq
from rsmq_tui.triage.actions import Send, SetAttributes
from rsmq_tui.triage.journal.journal import Journal
from rsmq_tui.triage.rsmq.backend import RsmqBackend
from rsmq_tui.triage.scope import Preview
from rsmq_tui.triage.service import ChangeService
from rsmq_tui.tui.changes.confirm import ConfirmScreen
from rsmq_tui.tui.changes.forms import FormScreen
from rsmq_tui.tui.widgets.lines import KeyHints
from tests.cli.running import run
from tests.triage.consuming import consuming
from tests.tui.changing import Orders, asked, confirm, fill, in_queue, made, on_queue, past_of_undo, say_yes
from tests.tui.driving import press, says, until
from tests.tui.reading import app_of, lines_of, names_in, notes_of, table_of, text_of

pytestmark = pytest.mark.slow


async def _type_name(pilot: Pilot[None], name: str) -> None:
    await asked(pilot)
    await until(pilot, lambda: pilot.app.screen.query_one("#typed").display, "the name is asked for")
    await pilot.press(*name)


async def _undone(pilot: Pilot[None], orders: Orders, before: dict[bytes, object], shown: str = "deleted") -> None:
    """Undo by its key, and see that everything is as it was."""
    await pilot.press("u")
    await confirm(pilot, past_of_undo(shown))
    assert orders.everything() == before


OF_A_MESSAGE = {
    "x": ({}, "deleted 1,", lambda: (4, 3, 0)),
    "plus": ({"seconds": "300"}, "hidden 1,", lambda: (5, 3, 0)),
    "M": ({"target": "other"}, "moved 1,", lambda: (4, 3, 1)),
}


@pytest.mark.parametrize("key", OF_A_MESSAGE)
async def test_the_message_under_the_cursor(orders: Orders, key: str) -> None:
    values, shown, depths = OF_A_MESSAGE[key]
    before = orders.everything()
    async with orders.opened() as pilot:
        await pilot.press(key)
        if values:
            await fill(pilot, **values)
        await confirm(pilot, shown)
        assert orders.everything() != before
        assert tuple(orders.depth(name) for name in ("orders", "orders-dlq", "other")) == depths()
        await until(pilot, lambda: " · u undoes" in text_of(app_of(pilot)), "the end is told")
        await _undone(pilot, orders, before, shown)


def _hints(pilot: Pilot[None]) -> str:
    return " ".join(lines_of(pilot.app.screen.query_one(KeyHints))[0].split())


async def test_the_bottom_line_says_what_an_undo_takes_back_as_long_as_it_does(orders: Orders, redis_url: str) -> None:
    async with orders.opened() as pilot:
        assert " undo" not in _hints(pilot)
        await pilot.press("asterisk", "x")
        await confirm(pilot, "deleted 5,")
        await until(pilot, lambda: "u undo delete 5 " in _hints(pilot), "the hint")
        assert "deleted 5, skipped 0, failed 0 · u undoes" in text_of(app_of(pilot))
        # Another process undoes it.
        async with aclosing(ChangeService(RsmqBackend(redis_url, "rsmq"), orders.folder)) as other:
            preview = await other.preview_undo()
            assert [tally.done async for tally in other.run(preview)][-1] == 5
        await until(pilot, lambda: " undo" not in _hints(pilot), "the hint is gone")
        await until(pilot, lambda: "u undoes" not in text_of(app_of(pilot)), "nor is it told at the end of the change")
        assert "deleted 5, skipped 0, failed 0" in text_of(app_of(pilot))


async def test_the_undo_of_another_queue_is_not_offered(orders: Orders) -> None:
    async with orders.opened() as pilot:
        await pilot.press("x")
        await confirm(pilot)
        await until(pilot, lambda: "u undo delete 1 " in _hints(pilot), "the hint")
        await press(pilot, "escape")
        await until(pilot, lambda: "u undo delete 1 " in _hints(pilot), "the last change of the namespace")
        await on_queue(pilot, "other")
        await press(pilot, "enter")
        await until(pilot, lambda: "u undoes" not in text_of(app_of(pilot)), "another queue")
        assert " undo" not in _hints(pilot)
        # Nor is the outcome taken for one of this queue.
        await says(pilot, "orders: deleted 1, skipped 0")


async def test_the_hint_of_an_undo_never_names_another_change(orders: Orders, redis_url: str) -> None:
    async with (
        orders.dashboard() as pilot,
        aclosing(ChangeService(RsmqBackend(redis_url, "rsmq"), orders.folder)) as other,
    ):

        async def run(preview: Preview) -> None:
            assert [tally.done async for tally in other.run(preview)][-1] == 1

        await on_queue(pilot, "orders")
        changes, (server,) = app_of(pilot).dashboard.changes, app_of(pilot).dashboard.servers
        assert await server.triage.last_undoable() is None
        await run(await other.preview(SetAttributes(queue="orders", vt=31)))
        await until(pilot, lambda: "u undo set 1 " in _hints(pilot), "the hint")
        for queue in ("orders", "other"):
            await run(await other.preview(Send(queue=queue, bodies=(b"new",))))
            # Nothing is named until a poll has looked it up.
            assert changes.undo_words(server, None) in ("", "undo send 1")
        await until(pilot, lambda: "u undo send 1 " in _hints(pilot), "the hint")
        await run(await other.preview_undo(queue="other"))
        await run(await other.preview_undo(queue="orders"))
        assert changes.undo_words(server, None) in ("", "undo set 1")
        await until(pilot, lambda: "u undo set 1 " in _hints(pilot), "the older change again")


async def test_hiding_is_for_as_long_as_was_said(orders: Orders) -> None:
    async with orders.opened() as pilot:
        await pilot.press("plus")
        assert "how long (30, 10m) 30" in text_of(app_of(pilot))
        await fill(pilot, seconds="60m")
        await asked(pilot, "1h from now")
        await confirm(pilot)
        seconds, _ = orders.client.time()
        assert orders.client.zcount("rsmq:orders", (seconds + 3500) * 1000, (seconds + 3700) * 1000) == 1


async def test_undo_says_that_the_queue_that_was_made_is_removed(orders: Orders) -> None:
    async with orders.opened() as pilot:
        await pilot.press("M")
        await fill(pilot, target="fresh", create=True)
        await confirm(pilot, "moved 1,")
        await pilot.press("u")
        await asked(pilot)
        shown = "Queue fresh, which the change created, is removed if it is empty"
        await says(pilot, shown)
        assert (await confirm(pilot)).endswith("; queue fresh, which the change created, was removed")
        assert "fresh" not in orders.queues.list_queues()


ON_THE_OVERVIEW: Sequence[tuple[str, str, dict[str, str | bool], str]] = (
    ("a", "other", {"body": "hello\nworld"}, "sent 1,"),
    ("c", "other", {"name": "fresh", "vt": "5"}, "created the queue,"),
    ("equals_sign", "other", {"vt": "77", "maxsize": "-1"}, "changed the queue,"),
    ("R", "orders-dlq", {}, "redriven 3,"),
    ("R", "orders-dlq", {"target": "other"}, "redriven 3,"),
)


@pytest.mark.parametrize(("key", "queue", "values", "shown"), ON_THE_OVERVIEW)
async def test_the_queue_under_the_cursor(
    orders: Orders,
    key: str,
    queue: str,
    values: dict[str, str | bool],
    shown: str,
) -> None:
    before = orders.everything()
    async with orders.dashboard() as pilot:
        await on_queue(pilot, queue)
        await pilot.press(key)
        await fill(pilot, **values)
        await confirm(pilot, shown)
        assert orders.everything() != before
        await _undone(pilot, orders, before, shown)


@pytest.mark.parametrize(("key", "shown"), [("P", "deleted 5,"), ("x", "deleted 5 and the queue,")])
async def test_what_ends_a_queue_and_back(orders: Orders, key: str, shown: str) -> None:
    before = orders.everything()
    async with orders.dashboard() as pilot:
        await on_queue(pilot, "orders")
        await pilot.press(key)
        await _type_name(pilot, "order")
        await pilot.press("enter")
        assert orders.everything() == before
        await pilot.press("s")
        await confirm(pilot, shown)
        assert orders.client.exists("rsmq:orders") == 0
        await _undone(pilot, orders, before)


@pytest.mark.parametrize("keys", [("plus",), ("x",), ("space", "k", "plus")])
async def test_after_a_change_the_cursor_is_on_the_next_message(orders: Orders, keys: tuple[str, ...]) -> None:
    async with orders.opened() as pilot:
        ids, table = orders.ids("orders"), table_of(pilot)
        await pilot.press("j", *keys)
        index = table.cursor_index
        if "plus" in keys:
            await fill(pilot, seconds="10m")
        await confirm(pilot)
        await until(
            pilot, lambda: names_in(pilot) == orders.ids("orders") != ids, "the messages are listed as they are"
        )
        assert table.cursor_index == index
        # It follows that message if somebody else moves it.
        chosen = table.cursor_key
        orders.queues.change_message_visibility("orders", str(chosen), 6_000)
        await until(pilot, lambda: names_in(pilot)[-1] == chosen, "it is the last one")
        assert table.cursor_key == chosen


async def test_the_next_snapshot_shows_the_effect(orders: Orders) -> None:
    async with orders.dashboard() as pilot:
        await pilot.press("p")
        await until(pilot, lambda: app_of(pilot).dashboard.snapshot.paused, "it is paused")
        await on_queue(pilot, "orders")
        await pilot.press("P")
        await _type_name(pilot, "orders")
        await confirm(pilot)
        await says(pilot, "3 queues · 3 messages")


async def test_a_file_is_sent_byte_for_byte(orders: Orders) -> None:
    body = b"\xff\x00\x1b[2J\r\n"
    (orders.folder / "body.bin").write_bytes(body)
    async with orders.dashboard() as pilot:
        await on_queue(pilot, "other")
        await pilot.press("a")
        await fill(pilot, file=str(orders.folder / "body.bin"), delay="60")
        await confirm(pilot)
    ((id, score),) = orders.client.zrange("rsmq:other", 0, -1, withscores=True)
    assert orders.client.hget("rsmq:other:Q", id) == body
    assert score > (orders.client.time()[0] + 50) * 1000


async def test_a_copy_is_edited_and_sent(orders: Orders) -> None:
    async with orders.opened() as pilot:
        await pilot.press("e")
        await until(pilot, lambda: '{"order": 0}' in text_of(app_of(pilot)), "the form has the body")
        await until(pilot, lambda: isinstance(pilot.app.screen, FormScreen), "the form opens")
        await pilot.press("delete", "left_square_bracket")
        await fill(pilot)
        await confirm(pilot)
    assert orders.bodies() == sorted([b'["order": 0}', *(b'{"order": %d}' % number for number in range(5))])


async def test_what_is_exported_can_be_imported(orders: Orders) -> None:
    orders.client.hset("rsmq:orders:Q", orders.client.zrange("rsmq:orders", 0, 0)[0], b"\xff\x00")
    before, file = orders.everything(), orders.folder / "all.jsonl"
    async with orders.dashboard() as pilot:
        await on_queue(pilot, "orders")
        await pilot.press("E")
        await fill(pilot, file=str(file))
        assert await made(pilot) == f"exported 5 messages to {file}"
        assert orders.everything() == before
        assert file.stat().st_mode & 0o77 == 0
        await pilot.press("P")
        await _type_name(pilot, "orders")
        await confirm(pilot)
        await pilot.press("I")
        await fill(pilot, file=str(file))
        await confirm(pilot, "imported 5,")
        assert orders.everything() == before


async def test_an_export_never_overwrites(orders: Orders) -> None:
    file = orders.folder / "mine"
    file.write_text("precious")
    async with orders.dashboard() as pilot:
        await on_queue(pilot, "orders")
        await pilot.press("E")
        await fill(pilot, file=str(file))
        await says(pilot, "mine already exists")
    assert file.read_text() == "precious"


async def test_a_missing_target_is_refused_and_made_when_asked(orders: Orders) -> None:
    async with orders.opened() as pilot:
        await pilot.press("M")
        await press(pilot, *"nowhere", "tab", "space", "ctrl+s")
        await asked(pilot, "queue nowhere does not exist")
        await pilot.press("escape")
        # Back in the form, with what was typed.
        assert pilot.app.screen.query_one("#target", Input).value == "nowhere"
        await fill(pilot, create=True)
        await confirm(pilot, "moved 1,")
    assert orders.depth("nowhere") == 1


async def test_a_purge_takes_what_was_received_since_the_preview(orders: Orders) -> None:
    async with orders.dashboard() as pilot:
        await on_queue(pilot, "orders")
        await pilot.press("P")
        await _type_name(pilot, "orders")
        await until(pilot, lambda: not pilot.app.screen.query_one("#yes").disabled, "it can be said yes to")
        assert "Messages received since this preview are changed too" in text_of(app_of(pilot))
        orders.queues.receive_messages("orders", 2)
        before = orders.everything()
        assert await confirm(pilot) == "deleted 5, skipped 0, failed 0 · u undoes"
        assert orders.depth("orders") == 0
        await _undone(pilot, orders, before)


async def test_marked_messages_that_were_received_are_skipped_and_offered_again(orders: Orders) -> None:
    async with orders.opened() as pilot:
        await pilot.press("U")
        assert not isinstance(pilot.app.screen, ConfirmScreen)
        await pilot.press("asterisk", "M")
        await fill(pilot, target="other")
        await says(pilot, "Move 5 messages")
        orders.queues.receive_messages("orders", 2)
        await say_yes(pilot)
        shown = "moved 3, skipped 2 (received or changed meanwhile), failed 0"
        assert await made(pilot) == f"{shown} · U retries the 2 received or changed · u undoes"
        await pilot.press("U")
        shown = "2 in flight (a consumer may be working on them)"
        await says(pilot, shown)
        assert "Move 2 messages" in text_of(app_of(pilot))
        before = orders.everything()
        assert await confirm(pilot) == "moved 2, skipped 0, failed 0 · u undoes"
        assert (orders.depth("orders"), orders.depth("other")) == (0, 5)
        await _undone(pilot, orders, before, "moved 2")


async def test_marked_messages_that_were_received_before_the_preview_can_be_included(orders: Orders) -> None:
    async with orders.opened() as pilot:
        await pilot.press("asterisk")
        orders.queues.receive_messages("orders", 5)
        await pilot.press("x")
        await asked(pilot, "There is nothing to do")
        wider = pilot.app.screen.query_one("#wider", Button)
        assert (wider.display, wider.label.plain) == (True, "Include 5 changed")
        assert app_of(pilot).focused is pilot.app.screen.query_one("#cancel")
        await pilot.click("#wider")
        shown = "5 in flight (a consumer may be working on them)"
        await says(pilot, shown)
        assert "Delete 5 messages" in text_of(app_of(pilot))
        assert not wider.display
        assert await confirm(pilot) == "deleted 5, skipped 0, failed 0 · u undoes"


@pytest.mark.parametrize("vt_s", [0, 1])
async def test_a_poison_queue_is_emptied_beside_its_consumer(orders: Orders, vt_s: int) -> None:
    ids = [id.decode() for id in orders.client.zrange("rsmq:orders", 0, -1)]
    orders.queues.send_messages("orders", ["healthy"] * 3, delay=3600)
    async with orders.dashboard() as pilot:
        with consuming(orders.url, "orders", vt_s) as consumer:
            await asyncio.to_thread(consumer.wait_for, ids, 5)
            await in_queue(pilot, "orders", 8)
            await pilot.press("slash", *"rc>=5", "enter")
            await until(pilot, lambda: set(names_in(pilot)) == {id[:32] for id in ids}, "the poison is found")
            await pilot.press("A", "M")
            await fill(pilot, target="other")
            shown = "Each must still match when it is changed"
            await says(pilot, shown)
            assert "Move 5 messages" in text_of(app_of(pilot))
            seen = max(message.rc for message in consumer.last.values())
            await asyncio.to_thread(consumer.wait_for, ids, seen + 2)
            assert await confirm(pilot) == "moved 5, skipped 0, failed 0 · u undoes"
        assert (orders.depth("orders"), orders.depth("other")) == (3, 5)
        await pilot.press("u")
        await confirm(pilot, "moved back 5, skipped 0")
    for id in ids:
        rc, fr = orders.client.hmget("rsmq:orders:Q", f"{id}:rc", f"{id}:fr")
        assert (int(rc), int(fr)) == (consumer.last[id].rc, consumer.last[id].fr_ms)


async def test_a_name_that_cannot_be_is_refused(orders: Orders) -> None:
    orders.client.sadd("rsmq:QUEUES", b"\x1b[2J[/foo]")
    before = orders.everything()
    async with orders.dashboard() as pilot:
        await on_queue(pilot, "\x1b[2J[/foo]")
        for key in ("P", "x"):
            await pilot.press(key)
            await asked(pilot, "Invalid qname")
            await pilot.press("escape")
        assert orders.everything() == before


async def test_undo_with_nothing_to_undo(orders: Orders) -> None:
    async with orders.dashboard() as pilot:
        await pilot.press("u")
        await asked(pilot, "nothing to undo in namespace rsmq")


async def test_another_namespace_is_changed_after_a_switch(orders: Orders) -> None:
    Rsmq(orders.client, ns="mail").create_queue("letters")
    async with orders.dashboard() as pilot:
        app_of(pilot).dashboard.servers[0].switch("mail")
        await on_queue(pilot, "letters")
        await pilot.press("a")
        await fill(pilot, body="dear")
        await confirm(pilot)
    assert orders.client.zcard("mail:letters") == 1


async def test_a_change_that_only_made_a_queue_is_undone(orders: Orders) -> None:
    async with orders.opened() as pilot:
        await pilot.press("M")
        await fill(pilot, target="fresh", create=True)
        await asked(pilot, "Queue fresh is created")
        orders.queues.receive_messages("orders", 5)
        before = orders.everything()
        await confirm(pilot, "moved 0, skipped 1")
        assert orders.client.exists("rsmq:fresh:Q")
        await pilot.press("u")
        await asked(pilot, "Undo change 1: created queue fresh")
        await _confirmed(pilot)
        assert (await made(pilot)).startswith("removed the queue, skipped 0")
        assert orders.everything() == before


async def _confirmed(pilot: Pilot[None]) -> None:
    app_of(pilot).dashboard.changes._show(None)
    await say_yes(pilot)


async def test_marks_outlive_an_export_after_a_change_that_was_not_made(orders: Orders) -> None:
    async with orders.opened() as pilot:
        await press(pilot, "space", "space", "x")
        await asked(pilot)
        await pilot.press("escape", "E")
        await fill(pilot, file=str(orders.folder / "some.jsonl"))
        assert (await made(pilot)).startswith("exported 2 messages to ")
        assert "2 marked" in text_of(app_of(pilot))
        await pilot.press("x")
        await _confirmed(pilot)
        assert (await made(pilot)).startswith("deleted 2,")
        await until(pilot, lambda: "2 marked" not in text_of(app_of(pilot)), "the marks are gone")


async def _purge_many(pilot: Pilot[None], orders: Orders) -> None:
    await on_queue(pilot, "orders")
    await pilot.press("P")
    await _type_name(pilot, "orders")
    await say_yes(pilot)
    await until(pilot, lambda: orders.depth("orders") < 20_000, "the change is under way")


async def test_a_change_that_is_stopped_can_be_undone(orders: Orders) -> None:
    orders.queues.send_messages("orders", ["x"] * 20_000)
    before = orders.everything()
    async with orders.dashboard() as pilot:
        await _purge_many(pilot, orders)
        await pilot.press("escape")
        shown = await made(pilot)
        assert shown.endswith("; stopped on request · u undoes")
        assert 0 < orders.depth("orders") < 20_005
        await _undone(pilot, orders, before)


# Who does not wait for what is under way leaves its connections to the end of the process.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("keys", [("q",), ("ctrl+c", "ctrl+c")])
async def test_quitting_in_the_middle_loses_nothing(
    orders: Orders,
    monkeypatch: pytest.MonkeyPatch,
    keys: tuple[str, ...],
) -> None:
    orders.queues.send_messages("orders", ["x"] * 20_000)
    before = orders.everything()
    async with orders.dashboard() as pilot:
        app = app_of(pilot)
        await _purge_many(pilot, orders)
        # All at once: the change must not have ended before the second.
        for key in keys:
            event = events.Key(key, None)
            event.set_sender(app)
            app.post_message(event)
        await until(pilot, lambda: not app.is_running, "it quits")
    assert app.return_code == 0
    # The next start is another process, for which this one is gone.
    monkeypatch.setattr("rsmq_tui.triage.journal.journal.is_alive", lambda *_: False)
    async with orders.dashboard(notifications=True) as pilot:
        if len(keys) == 2:
            await says(pilot, "A change was interrupted")
        await _undone(pilot, orders, before)
    # What was left is found here, and not in a later test.
    gc.collect()


_NOT_KNOWN = "Interrupted changes could not be read"


def _cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:3000])


def _text(path: Path) -> None:
    path.write_text("no journal " * 1000)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("spoil", [_cut_short, _text, _folder])
async def test_a_journal_that_cannot_be_used_is_told_and_nothing_else_stops(
    orders: Orders, spoil: Callable[[Path], None]
) -> None:
    path = orders.folder / "journal.sqlite"
    Journal(path).close()
    spoil(path)
    before = orders.everything()
    async with orders.dashboard(notifications=True, size=(160, 40)) as pilot:
        app = app_of(pilot)
        await until(pilot, lambda: any(note.title == _NOT_KNOWN for note in notes_of(app)), "it is told")
        (note,) = [note for note in notes_of(app) if note.title == _NOT_KNOWN]
        assert f"the journal {path} cannot be used" in note.message
        await on_queue(pilot, "orders")
        await pilot.press("u")
        await until(pilot, lambda: "cannot be used" in text_of(app), "an undo is refused")
        await pilot.press("escape")
        await in_queue(pilot, "orders", 5)
    assert orders.everything() == before


async def test_a_missing_target_is_made_on_the_spot(orders: Orders) -> None:
    async with orders.opened() as pilot:
        await pilot.press("M")
        await press(pilot, *"fresh", "tab", "space", "ctrl+s")
        await says(pilot, "queue fresh does not exist")
        assert app_of(pilot).focused is pilot.app.screen.query_one("#wider")
        await pilot.press("enter")
        await says(pilot, "Queue fresh is created with the attributes of orders.")
        await confirm(pilot, "moved 1,")
        assert orders.depth("fresh") == 1


async def test_delete_shows_bodies_and_its_command(orders: Orders, tmp_path: Path) -> None:
    async with orders.opened() as pilot:
        await pilot.press("asterisk", "x")
        await says(pilot, "Delete 5")
        await says(pilot, 'bodies {"order": 0}')
        await says(pilot, '{"order": 2}')
        await says(pilot, "and 2 more messages")
        assert pilot.app.screen.query_one(".dialog").has_class("-danger")
        await pilot.press("y")
        command = shlex.split(pilot.app.clipboard)
        await pilot.press("escape")
        assert orders.depth("orders") == 5
    done = await asyncio.to_thread(run, *command[1:], "--yes", env={"XDG_STATE_HOME": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    assert orders.depth("orders") == 0


async def test_a_form_says_whether_a_body_is_json_and_goes_on_from_any_field(orders: Orders) -> None:
    async with orders.opened() as pilot:
        await pilot.press("a")
        await until(pilot, lambda: pilot.app.screen.query("#body"), "the form opens")
        await pilot.press(*'{"a" 1}')
        await says(pilot, "not JSON: Expecting ':' delimiter, line 1, column 6")
        await pilot.press("home", "right", "right", "right", "right", "colon")
        await until(pilot, lambda: str(pilot.app.screen.query_one("#syntax", Static).content) == "JSON", "it is JSON")
        await pilot.press("ctrl+s")
        await confirm(pilot, "sent 1,")
        assert b'{"a": 1}' in orders.bodies()


async def test_the_overview_undoes_an_action_on_several_queues_in_all_of_them(orders: Orders) -> None:
    before = orders.everything()
    async with orders.dashboard() as pilot:
        await on_queue(pilot, "orders")
        await pilot.press("f", "enter")
        await says(pilot, "8 matches in 2 queues")
        await pilot.press("A", "x")
        await asked(pilot, "Delete 8 messages in 2 queues")
        await confirm(pilot, "deleted 8,")
        await pilot.press("escape", "escape")
        await on_queue(pilot, "orders")
        hints = pilot.app.screen.query_one(KeyHints)
        await until(pilot, lambda: "u undo delete 8 in 2 queues" in "".join(lines_of(hints)), "the hint names all")
        await pilot.press("u")
        await asked(pilot, "Undo 2 changes")
        await confirm(pilot, "put back 8,")
        await until(pilot, lambda: "undo" not in "".join(lines_of(hints)), "nothing is left to undo")
    assert orders.everything() == before
