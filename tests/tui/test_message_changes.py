"""Changes of the one message that is shown whole: the keys of its list, on it alone."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from textual.pilot import Pilot

from rsmq_tui.monitor import MessageView
from rsmq_tui.triage.actions import Delete
from rsmq_tui.triage.scope import Marked, Shown
from rsmq_tui.tui.changes.confirm import ConfirmScreen
from rsmq_tui.tui.changes.forms import FormScreen
from rsmq_tui.tui.dialogs.palette import commands_of
from rsmq_tui.tui.keys import Usable, keys_of
from rsmq_tui.tui.queue.message import MessageScreen
from rsmq_tui.tui.queue.screen import QueueScreen
from rsmq_tui.tui.widgets.lines import KeyHints
from rsmq_tui.tui.widgets.text_view import LineView
from tests.history.replayed import NOON_MS
from tests.tui.changing import Orders, ask_change, asked, confirm, fill, in_queue, made, past_of_undo, say_yes
from tests.tui.driving import opened, play, play_orders, poll_again, press, says, settled, until, wait_for_screen
from tests.tui.reading import app_of, facts_of, lines_of, names_in, text_of
from tests.tui.scripted import ScriptedSource, messages_of
from tests.tui.scripted_triage import Gate, ScriptedTriage
from tests.tui.states import poll_of, queue_of
from tests.tui.test_replay import replayed, taped

pytestmark = pytest.mark.slow

GONE = "this message is no longer in the queue"


async def _open(pilot: Pilot[None], queue: str, messages: int, body: str) -> MessageScreen:
    """Open the second message of a queue."""
    await in_queue(pilot, queue, messages)
    await pilot.press("j", "enter")
    screen = await wait_for_screen(pilot, MessageScreen)
    await says(pilot, body)
    return screen


KEYS: Sequence[tuple[str, str, dict[str, str | bool], str, tuple[int, int, int], str]] = (
    ("x", "orders", {}, "deleted 1,", (4, 3, 0), "no longer in the queue"),
    ("plus", "orders", {"seconds": "3600"}, "hidden 1,", (5, 3, 0), "delayed · visible in "),
    ("minus", "orders", {"seconds": "30"}, "hidden 1,", (5, 3, 0), "delayed · visible in "),
    ("0", "orders", {}, "released 1,", (5, 3, 0), "ready · visible for "),
    ("M", "orders", {"target": "other"}, "moved 1,", (4, 3, 1), "no longer in the queue"),
    ("C", "orders", {"target": "other"}, "copied 1,", (5, 3, 1), "ready · visible for "),
    ("R", "orders-dlq", {}, "redriven 1,", (6, 2, 0), "no longer in the queue"),
)


@pytest.mark.parametrize(("key", "queue", "values", "shown", "depths", "facts"), KEYS, ids=[key for key, *_ in KEYS])
async def test_a_change_and_back(
    orders: Orders,
    key: str,
    queue: str,
    values: dict[str, str | bool],
    shown: str,
    depths: tuple[int, int, int],
    facts: str,
) -> None:
    before = orders.everything()
    numbers = {"orders": (5, '"order": 1'), "orders-dlq": (3, "dead 1")}
    messages, body = numbers[queue]
    async with orders.dashboard() as pilot:
        screen = await _open(pilot, queue, messages, body)
        await pilot.press(key)
        if values or key == "R":
            await fill(pilot, **values)
        await asked(pilot, f"the message {screen.message_id}")
        await confirm(pilot, shown)
        assert orders.everything() != before
        assert tuple(orders.depth(name) for name in ("orders", "orders-dlq", "other")) == depths
        await until(pilot, lambda: facts_of(pilot).startswith(facts), "what it is now is told")
        assert pilot.app.screen is screen
        is_gone = facts.startswith("no longer")
        assert (GONE in text_of(app_of(pilot))) == is_gone
        assert (body in text_of(app_of(pilot))) != is_gone
        await pilot.press("u")
        await confirm(pilot, past_of_undo(shown))
        assert orders.everything() == before
        await until(pilot, lambda: facts_of(pilot).startswith("ready · visible for "), "it is as it was")
        assert body in text_of(app_of(pilot))


async def test_a_copy_is_edited_and_sent(orders: Orders) -> None:
    async with orders.dashboard() as pilot:
        await _open(pilot, "orders", 5, '"order": 1')
        await pilot.press("e")
        await wait_for_screen(pilot, FormScreen)
        await until(pilot, lambda: '{"order": 1}' in text_of(app_of(pilot)), "it has the body as it was sent")
        await pilot.press("delete", "left_square_bracket")
        await fill(pilot)
        await confirm(pilot, "sent 1,")
        assert isinstance(pilot.app.screen, MessageScreen)
    assert orders.bodies() == sorted([b'["order": 1}', *(b'{"order": %d}' % number for number in range(5))])


async def test_what_was_received_meanwhile_is_left_alone_and_then_shown_as_it_is(orders: Orders) -> None:
    # A second poll would show what became of it.
    async with orders.dashboard(interval_s=3600) as pilot:
        await _open(pilot, "orders", 5, '"order": 1')
        orders.queues.receive_messages("orders", 5)
        before = orders.everything()
        await pilot.press("x")
        await asked(pilot)
        await says(pilot, "There is nothing to do: the message was received or changed")
        await pilot.press("escape", "r")
        await until(pilot, lambda: facts_of(pilot).startswith("in flight"), "what became of it is shown")
        assert orders.everything() == before
        # Now that it was seen, it is meant.
        await pilot.press("x")
        await confirm(pilot, "deleted 1,")
    assert orders.depth("orders") == 4


async def test_what_left_the_queue_is_not_changed(orders: Orders) -> None:
    async with orders.dashboard(notifications=True) as pilot:
        screen = await _open(pilot, "orders", 5, '"order": 1')
        orders.queues.delete_message("orders", screen.message_id)
        await pilot.press("r")
        await until(pilot, lambda: GONE in text_of(app_of(pilot)), "it says so")
        # A poll may say so before the key has led to anything; then its body is still there.
        await until(pilot, lambda: '"order": 1' not in text_of(app_of(pilot)), "its body goes too")
        await pilot.press("x")
        await until(pilot, lambda: f" {GONE} " in text_of(app_of(pilot)), "a toast says why nothing happens")
        assert pilot.app.screen is screen


async def _scripted(pilot: Pilot[None], source: ScriptedSource) -> None:
    await play_orders(pilot, source, [b'{"a": 1}', b'{"b": 2}'], "enter", "enter")
    assert isinstance(pilot.app.screen, MessageScreen)


async def test_marks_of_the_list_do_not_count_here_and_stay(source: ScriptedSource, triage: ScriptedTriage) -> None:
    triage.count = 1
    async with opened(source, triage=triage) as pilot:
        await play_orders(pilot, source, [b"x"] * 3, "enter", "space", "enter")
        row = source.messages["orders"][1]
        await press(pilot, "x")
        await confirm(pilot)
        assert triage.asked == [(Delete(queue="orders"), Marked((Shown(row.id, row.score, 0),)))]
        await press(pilot, "escape")
        assert "1 marked" in text_of(app_of(pilot))


async def test_only_what_was_asked_for_here_takes_it_away(source: ScriptedSource, triage: ScriptedTriage) -> None:
    async with opened(source, triage=triage) as pilot:
        await _scripted(pilot, source)
        ask_change(app_of(pilot), "delete", "orders", Marked((Shown("another", "1", 0),)))
        await confirm(pilot)
        await settled(pilot)
        assert GONE not in text_of(app_of(pilot))
        assert '"a": 1' in text_of(app_of(pilot))


async def test_a_read_from_before_a_change_does_not_bring_the_body_back(triage: ScriptedTriage) -> None:
    gate: asyncio.Event | None = None

    class Slow(ScriptedSource):
        async def read(self, queue: str, id: str) -> MessageView:
            found = await super().read(queue, id)
            if gate is not None:
                await gate.wait()
            return found

    source = Slow()
    triage.gate, triage.steps = Gate(), 1
    async with opened(source, triage=triage) as pilot:
        await _scripted(pilot, source)
        await press(pilot, "x")
        gate = asyncio.Event()
        # The dialog closes, and the message is read while the change runs.
        await say_yes(pilot)
        triage.gate.release()
        await made(pilot)
        gate.set()
        await settled(pilot)
        assert facts_of(pilot) == "no longer in the queue"
        assert GONE in text_of(app_of(pilot))
        assert '"a": 1' not in text_of(app_of(pilot))


async def test_what_cannot_be_read_again_stays_as_it_was_shown(source: ScriptedSource) -> None:
    async with opened(source) as pilot:
        await _scripted(pilot, source)
        source.read_error = "the server is loading"
        await press(pilot, "r")
        assert '"a": 1' in text_of(app_of(pilot))


async def test_a_message_that_could_not_be_read_is_not_changed(source: ScriptedSource, triage: ScriptedTriage) -> None:
    source.read_error = "the server is loading"
    async with opened(source, triage=triage, notifications=True) as pilot:
        await _scripted(pilot, source)
        await press(pilot, "x")
        assert isinstance(pilot.app.screen, MessageScreen)
        assert "this message could not be read" in text_of(app_of(pilot))
        assert triage.asked == []
        source.read_error = None
        await press(pilot, "r", "x")
        assert isinstance(pilot.app.screen, ConfirmScreen)


async def test_another_namespace_has_another_queue_of_that_name(source: ScriptedSource, triage: ScriptedTriage) -> None:
    async with opened(source, triage=triage) as pilot:
        await _scripted(pilot, source)
        source.messages["orders"] = []
        await play(pilot, source, replace(source.last, ns="mail"))
        assert GONE in text_of(app_of(pilot))
        await press(pilot, "x")
        assert triage.asked == []


async def test_reading_again_keeps_the_place_and_the_view(source: ScriptedSource) -> None:
    async with opened(source) as pilot:
        body = b"\n".join(b"line %d" % number for number in range(200))
        source.messages["orders"] = messages_of([body[:64]])
        source.bodies[source.messages["orders"][0].id] = body
        await play(pilot, source, poll_of(source, [queue_of("orders", ready=1)]))
        await press(pilot, "enter", "enter", "l", "pagedown")
        before = lines_of(pilot.app.screen.query_one(LineView))
        assert "00000000" not in before[0]
        await press(pilot, "r", "question_mark", "escape")
        await poll_again(pilot)
        assert lines_of(pilot.app.screen.query_one(LineView)) == before


async def test_where_nothing_may_be_changed_there_are_no_such_keys(source: ScriptedSource) -> None:
    triage = ScriptedTriage(read_only=True)
    changes = [key for key in keys_of("message") if key.changes]
    assert len(changes) == 13
    async with opened(source, triage=triage, size=(200, 60)) as pilot:
        await _scripted(pilot, source)
        screen = pilot.app.screen
        hints = lines_of(screen.query_one(KeyHints))[0]
        assert not [key.hint for key in changes if key.hint and f" {key.shown.split()[0]} {key.hint} " in hints]
        for key in changes:
            await press(pilot, *key.keys.split(","))
            assert pilot.app.screen is screen
        active = {binding.binding.id for binding in pilot.app.active_bindings.values()}
        assert not active & {key.id for key in changes}
        await press(pilot, "question_mark")
        assert not [key.help for key in changes if key.help in text_of(app_of(pilot))]
        await press(pilot, "escape", "colon", *"the message")
        assert not [key.help for key in changes if key.help in text_of(app_of(pilot))]
        assert triage.asked == []


async def test_in_a_replay_there_are_no_such_keys(tmp_path: Path) -> None:
    changes = [key for key in keys_of("message") if key.changes]
    async with replayed(taped(tmp_path).out, NOON_MS + 90_000) as pilot:
        await press(pilot, "j", "enter") if names_in(pilot)[0] != "orders" else await press(pilot, "enter")
        await until(pilot, lambda: len(names_in(pilot)) > 10, "what was recorded is listed")
        await press(pilot, "enter")
        await until(pilot, lambda: '"n": 0' in text_of(app_of(pilot)), "the message opens")
        screen = pilot.app.screen
        assert isinstance(screen, MessageScreen)
        for key in changes:
            assert not screen.check_action(key.action.partition("(")[0], ()), key
            await press(pilot, key.keys.split(",")[0])
            assert pilot.app.screen is screen
        offered = {command.name for command in commands_of(screen)}
        assert offered.isdisjoint(key.help for key in changes)
        hints = lines_of(screen.query_one(KeyHints))[0]
        assert not [key.hint for key in changes if key.hint and f" {key.shown.split()[0]} {key.hint} " in hints]
        await press(pilot, "question_mark", "escape", "r")
        assert '"n": 0' in text_of(app_of(pilot))


async def test_where_they_may_be_footer_help_and_palette_have_them(
    source: ScriptedSource, triage: ScriptedTriage
) -> None:
    changes = [key for key in keys_of("message", usable=Usable(kinds=frozenset({"rsmq"}))) if key.changes]
    async with opened(source, triage=triage, size=(200, 60)) as pilot:
        await _scripted(pilot, source)
        hints = lines_of(pilot.app.screen.query_one(KeyHints))[0]
        # Nothing was changed that could be undone.
        assert [key.hint for key in changes if key.hint and f" {key.hint} " not in hints] == ["undo"]
        await press(pilot, "question_mark")
        assert [key.help for key in changes if key.help not in text_of(app_of(pilot))] == []
        await press(pilot, "escape", "colon", *"Delete the message")
        await says(pilot, "Commands")
        await pilot.press("enter")
        await wait_for_screen(pilot, ConfirmScreen)
        assert triage.asked[0][0] == Delete(queue="orders")


async def test_back_in_the_list_it_is_gone(orders: Orders) -> None:
    async with orders.dashboard() as pilot:
        await _open(pilot, "orders", 5, '"order": 1')
        await pilot.press("x")
        await confirm(pilot)
        await pilot.press("escape")
        await wait_for_screen(pilot, QueueScreen)
        await until(pilot, lambda: len(pilot.app.screen.messages.table.keys) == 4, "it is not in it")  # type: ignore[attr-defined]
