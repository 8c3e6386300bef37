"""An open message is told as it is now, poll by poll, and a copy is made of what is shown."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
import redis
from textual.pilot import Pilot

from rsmq_tui.monitor import MessageState, MessageView, PeekError
from rsmq_tui.protocol import Rsmq
from rsmq_tui.tui.changes.controller import ChangeStatus
from rsmq_tui.tui.changes.forms import FormScreen
from rsmq_tui.tui.queue.message import MessageScreen
from rsmq_tui.tui.widgets.lines import KeyHints, TextLine
from rsmq_tui.tui.widgets.text_view import LineView
from tests.tui.changing import changing, confirm, in_queue
from tests.tui.driving import opened, play, play_orders, poll_again, press, resized, says, settled, until
from tests.tui.reading import app_of, facts_of, lines_of, text_of
from tests.tui.scripted import ScriptedSource
from tests.tui.scripted_triage import ScriptedTriage

pytestmark = pytest.mark.slow

GONE = "this message is no longer in the queue"


class Counting(ScriptedSource):
    """Keeps how often a message was read again, and waits where it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.again = 0
        self.gate: asyncio.Event | None = None
        self.again_error: str | None = None

    async def read_again(self, queue: str, known: MessageView) -> MessageView:
        self.again += 1
        if self.gate is not None:
            await self.gate.wait()
        if self.again_error is not None:
            raise PeekError(self.again_error)
        return await super().read_again(queue, known)


@pytest.fixture
def queues(client: redis.Redis) -> Rsmq:
    rsmq = Rsmq(client)
    rsmq.create_queue("orders", vt=600)
    rsmq.send_messages("orders", [f'{{"order": {number}}}' for number in range(3)])
    return rsmq


async def _open(pilot: Pilot[None]) -> MessageScreen:
    await in_queue(pilot, "orders", 3)
    await pilot.press("j", "enter")
    await until(pilot, lambda: '"order": 1' in text_of(app_of(pilot)), "the message opens")
    return _screen(pilot)


async def _scripted(pilot: Pilot[None], source: ScriptedSource, body: bytes = b'{"a": 1}') -> MessageScreen:
    await play_orders(pilot, source, [body], "enter", "enter")
    return _screen(pilot)


def _screen(pilot: Pilot[None]) -> MessageScreen:
    assert isinstance(pilot.app.screen, MessageScreen)
    return pilot.app.screen


def _form_body(pilot: Pilot[None]) -> str:
    return pilot.app.screen.query_one("#body").text  # type: ignore[attr-defined, no-any-return]


async def test_what_consumers_do_with_it_is_told_by_itself(redis_url: str, queues: Rsmq, tmp_path: Path) -> None:
    async with changing(redis_url, tmp_path) as pilot:
        screen = await _open(pilot)
        assert "ready · visible for " in facts_of(pilot)
        queues.receive_messages("orders", 3, vt=500)
        await until(pilot, lambda: facts_of(pilot).startswith("in flight · visible in 8m "), "it was received")
        assert "received 1 time, first " in facts_of(pilot)
        queues.delete_message("orders", screen.message_id)
        await until(pilot, lambda: facts_of(pilot).startswith("no longer in the queue"), "it was deleted")
        assert facts_of(pilot) == "no longer in the queue · this was its body · e sends a copy"
        assert f"[pretty] · raw · hex · {GONE}" in text_of(app_of(pilot))
        assert '"order": 1' in text_of(app_of(pilot))
        # Neither looking on nor what lies over it for a while takes it away.
        await pilot.press("l", "question_mark", "escape")
        before = app_of(pilot).dashboard.snapshot
        await until(pilot, lambda: app_of(pilot).dashboard.snapshot is not before, "another poll")
        assert '"order": 1' in text_of(app_of(pilot))


async def test_a_change_is_for_what_it_is_now(redis_url: str, queues: Rsmq, tmp_path: Path) -> None:
    async with changing(redis_url, tmp_path) as pilot:
        await _open(pilot)
        queues.receive_messages("orders", 3, vt=500)
        await until(pilot, lambda: facts_of(pilot).startswith("in flight"), "it was received")
        await pilot.press("x")
        await confirm(pilot, "deleted 1,")


async def test_keys_that_only_say_why_nothing_happens_are_not_offered(
    redis_url: str, queues: Rsmq, tmp_path: Path
) -> None:
    def hints() -> str:
        return lines_of(pilot.app.screen.query_one(KeyHints))[0]

    async with changing(redis_url, tmp_path, size=(200, 36)) as pilot:
        screen = await _open(pilot)
        offered = " x delete   0 release   + hide   M move   e edit   R redrive   C copy   h l pretty/raw/hex   "
        await until(
            pilot,
            lambda: hints().startswith(offered + "W life   / find   y copy body   I copy id   esc back"),
            "all are offered",
        )
        queues.delete_message("orders", screen.message_id)
        # Its body is still there to be looked at and sent again.
        left = " e edit   h l pretty/raw/hex   / find   y copy body   I copy id   esc back"
        await until(pilot, lambda: hints().startswith(left), "those for a message that is there are gone")
        await pilot.press("r")
        await until(pilot, lambda: hints().startswith(" I copy id   esc back"), "those for its body are gone")


async def test_a_body_that_is_not_shown_is_not_copied(source: ScriptedSource, triage: ScriptedTriage) -> None:
    triage.count = 1
    async with opened(source, triage=triage, notifications=True) as pilot:
        await _scripted(pilot, source)
        await press(pilot, "x")
        await confirm(pilot)
        await until(pilot, lambda: GONE in text_of(app_of(pilot)), "it is gone")
        assert " e edit " not in lines_of(pilot.app.screen.query_one(KeyHints))[0]
        await press(pilot, "y")
        await says(pilot, "nothing to copy: this message is no")


async def test_what_another_one_puts_back_is_there_again(
    redis_url: str, client: redis.Redis, queues: Rsmq, tmp_path: Path
) -> None:
    async with changing(redis_url, tmp_path) as pilot:
        screen = await _open(pilot)
        dumps = {key: client.dump(key) for key in ("rsmq:orders", "rsmq:orders:Q")}
        await pilot.press("x")
        await confirm(pilot)
        await until(pilot, lambda: facts_of(pilot) == "no longer in the queue", "it is gone")
        with client.pipeline(transaction=True) as at_once:
            for key, dump in dumps.items():
                at_once.restore(key, 0, dump, replace=True)
            at_once.execute()
        await until(pilot, lambda: facts_of(pilot).startswith("ready · "), "it is there")
        assert '"order": 1' in text_of(app_of(pilot))
        assert screen.scope is not None


async def test_a_queue_that_is_put_back_by_two_calls_is_followed_to_the_second(
    redis_url: str, client: redis.Redis, queues: Rsmq, tmp_path: Path
) -> None:
    async def poll() -> None:
        before = app_of(pilot).dashboard.snapshot
        await until(pilot, lambda: app_of(pilot).dashboard.snapshot is not before, "a poll between the calls")

    async with changing(redis_url, tmp_path) as pilot:
        await _open(pilot)
        dumps = {key: client.dump(key) for key in ("rsmq:orders:Q", "rsmq:orders")}
        client.delete(*dumps)
        await until(pilot, lambda: facts_of(pilot).startswith("no longer in the queue"), "it is gone")
        for key, dump in dumps.items():
            client.restore(key, 0, dump)
            await poll()
        await until(pilot, lambda: facts_of(pilot).startswith("ready · "), "it is there")


async def test_a_read_that_a_change_ends_before_its_first_step_is_not_waited_for(triage: ScriptedTriage) -> None:
    triage.count = 1
    source = Counting()
    async with opened(source, triage=triage) as pilot:
        screen = await _scripted(pilot, source)
        await press(pilot, "x")
        await confirm(pilot)
        # Both in one step of the event loop: the poll begins a read, which the end of the change cancels.
        screen.receive_snapshot(replace(source.last, at_ms=source.last.at_ms + 500))
        screen.receive_change(ChangeStatus("deleted 1", scope=screen.asked, taken=1))
        assert facts_of(pilot) == "no longer in the queue"
        await poll_again(pilot)
        assert facts_of(pilot).startswith("ready · ")


async def test_a_body_of_another_length_is_read(
    redis_url: str, client: redis.Redis, queues: Rsmq, tmp_path: Path
) -> None:
    async with changing(redis_url, tmp_path) as pilot:
        screen = await _open(pilot)
        client.hset("rsmq:orders:Q", screen.message_id, '{"order": "another"}')
        await until(pilot, lambda: '"order": "another"' in text_of(app_of(pilot)), "the new body is shown")


@pytest.mark.parametrize("is_gone", [False, True])
async def test_a_copy_is_of_the_body_that_is_shown(
    redis_url: str, client: redis.Redis, queues: Rsmq, tmp_path: Path, is_gone: bool
) -> None:
    async with changing(redis_url, tmp_path) as pilot:
        screen = await _open(pilot)
        if is_gone:
            queues.delete_message("orders", screen.message_id)
            await until(pilot, lambda: GONE in text_of(app_of(pilot)), "it is gone")
        else:
            # Of the same length: only who reads the body again sees it.
            client.hset("rsmq:orders:Q", screen.message_id, '{"order": 7}')
        await pilot.press("e")
        await until(pilot, lambda: isinstance(pilot.app.screen, FormScreen), "the form opens")
        await says(pilot, "a copy of the message")
        assert _form_body(pilot) == '{"order": 1}'


async def test_where_no_body_is_shown_there_is_no_copy(source: ScriptedSource, triage: ScriptedTriage) -> None:
    class Long(ScriptedSource):
        async def read(self, queue: str, id: str) -> MessageView:
            return replace(await super().read(queue, id), body=None, size=500 * 1024 * 1024)

    source = Long()
    async with opened(source, triage=triage, notifications=True) as pilot:
        screen = await _scripted(pilot, source)
        await press(pilot, "e")
        assert pilot.app.screen is screen
        assert "nothing to copy: its" in text_of(app_of(pilot))


async def test_it_is_followed_behind_a_dialog_and_not_while_paused(triage: ScriptedTriage) -> None:
    source = Counting()
    async with opened(source, triage=triage) as pilot:
        await _scripted(pilot, source)
        source.again = 0
        await poll_again(pilot)
        await poll_again(pilot)
        assert source.again == 2
        await play(pilot, source, replace(source.last, paused=True))
        await poll_again(pilot)
        assert source.again == 2
        await play(pilot, source, replace(source.last, paused=False))
        await press(pilot, "x")
        source.messages["orders"] = [replace(source.messages["orders"][0], rc=4, state=MessageState.IN_FLIGHT)]
        await poll_again(pilot)
        assert source.again == 3
        behind = pilot.app.screen_stack[-2].query_one("#facts", TextLine)
        assert "received 4 times" in lines_of(behind)[0]
        # It is read once more when it is in front again.
        await press(pilot, "escape")
        assert source.again == 4


async def test_no_question_while_one_is_under_way() -> None:
    source = Counting()
    async with opened(source) as pilot:
        await _scripted(pilot, source)
        source.again, source.gate = 0, asyncio.Event()
        for _ in range(3):
            source.play(replace(source.last, at_ms=source.last.at_ms + 1000))
            await until(pilot, lambda: app_of(pilot).dashboard.snapshot is source.last, "the snapshot arrives")
        assert source.again == 1
        source.messages["orders"] = [replace(source.messages["orders"][0], rc=4, state=MessageState.IN_FLIGHT)]
        source.gate.set()
        await settled(pilot)
        assert "received 4 times" in facts_of(pilot)


async def test_what_cannot_be_read_again_is_told_as_of_then() -> None:
    source = Counting()
    async with opened(source) as pilot:
        await _scripted(pilot, source)
        source.again_error = "a key holds [/another] \x1b[2J type"
        await poll_again(pilot, 60_000)
        shown = facts_of(pilot)
        assert shown.startswith("as of 11:06:40.000: a key holds [/another] ␛[2J type · ready · visible for 1m 0s")
        source.again_error = None
        await poll_again(pilot)
        assert facts_of(pilot).startswith("ready · visible for 2m 1s")


async def test_reading_again_keeps_the_place_when_it_goes() -> None:
    source = Counting()
    async with opened(source) as pilot:
        await _scripted(pilot, source, b"\n".join(b"line %d" % number for number in range(200)))
        await press(pilot, "pagedown")
        before = lines_of(pilot.app.screen.query_one(LineView))
        source.messages["orders"] = []
        await poll_again(pilot)
        assert GONE in text_of(app_of(pilot))
        assert lines_of(pilot.app.screen.query_one(LineView)) == before


@pytest.mark.parametrize(
    ("width", "hints"),
    [
        (80, "x delete  0 release  + hide  M move  e edit  R redrive  C copy  ? help"),
        (60, "x delete  0 release  + hide  M move  e edit  ? help"),
    ],
)
async def test_in_a_narrow_terminal_the_hints_are_of_what_changes_it(
    source: ScriptedSource, triage: ScriptedTriage, width: int, hints: str
) -> None:
    async with opened(source, triage=triage) as pilot:
        await _scripted(pilot, source)
        await resized(pilot, width, 24)
        assert hints in lines_of(pilot.app.screen.query_one(KeyHints))[0]


async def test_a_toast_does_not_lie_over_what_is_told_of_a_change(
    source: ScriptedSource, triage: ScriptedTriage
) -> None:
    triage.count = 1
    async with opened(source, triage=triage, size=(80, 24), notifications=True) as pilot:
        await _scripted(pilot, source)
        await press(pilot, "x")
        await confirm(pilot)
        await press(pilot, "x")
        toast = "this message is no longer in the "
        await until(pilot, lambda: text_of(app_of(pilot)).count(toast) == 2, "the toast says why nothing happens")
        shown, hints = text_of(app_of(pilot)).splitlines()[-2:]
        assert shown.strip() == "deleted 1, skipped 0, failed 0 · u undoes"
        assert hints.strip().endswith("? help")
