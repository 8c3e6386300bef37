"""One message whole: what is known of it, and its body in three views."""

import asyncio
import gc
import json
import weakref
from collections.abc import Callable
from dataclasses import replace

import pytest
from rich.cells import cell_len
from textual.events import MouseScrollDown, MouseScrollUp
from textual.pilot import Pilot

from rsmq_tui.monitor import MessageState, MessageView
from rsmq_tui.tui.queue.message import MessageScreen
from rsmq_tui.tui.queue.screen import QueueScreen
from rsmq_tui.tui.widgets import body_lines
from rsmq_tui.tui.widgets.body_view import BodyView
from rsmq_tui.tui.widgets.lines import KeyHints, TextLine
from rsmq_tui.tui.widgets.text_view import LineView
from tests.tui.driving import opened, play, play_orders, poll_again, press, resized, says, settled, until
from tests.tui.reading import app_of, facts_of, lines_of, notes_of, text_of
from tests.tui.scripted import START_MS, ScriptedSource, messages_of
from tests.tui.scripted_triage import ScriptedTriage
from tests.tui.states import poll_of, queue_of

pytestmark = pytest.mark.slow


async def _open(pilot: Pilot[None], source: ScriptedSource, body: bytes | None, **values: object) -> MessageScreen:
    (row,) = messages_of([body])
    source.messages["orders"] = [replace(row, **values)]  # type: ignore[arg-type]
    if body is not None:
        source.bodies[row.id] = body
    await play(pilot, source, poll_of(source, [queue_of("orders", ready=1)]))
    await press(pilot, "enter", "enter")
    assert isinstance(pilot.app.screen, MessageScreen)
    return pilot.app.screen


def _body(pilot: Pilot[None]) -> list[str]:
    return [line.rstrip() for line in lines_of(pilot.app.screen.query_one(LineView))]


def _title(pilot: Pilot[None]) -> str:
    """What the frame of the body says."""
    return next(line for line in text_of(app_of(pilot)).splitlines() if line.startswith(("╭", "+-")))


async def test_json_is_set_out_with_every_value_as_it_was_sent(source: ScriptedSource) -> None:
    body = b'{"n":1.10,"big":1e400,"id":12345678901234567890123,"k":1,"k":2,"s":"\\u00e9\\/","e":[],"o":{"t":true}}'
    async with opened(source) as pilot:
        await _open(pilot, source, body)
        assert "[pretty] · raw · hex" in _title(pilot)
        assert [line for line in _body(pilot) if line] == [
            "{",
            '  "n": 1.10,',
            '  "big": 1e400,',
            '  "id": 12345678901234567890123,',
            '  "k": 1,',
            '  "k": 2,',
            '  "s": "é\\/",',
            '  "e": [],',
            '  "o": {',
            '    "t": true',
            "  }",
            "}",
        ]
        assert "1–12 of 12 lines" in text_of(app_of(pilot))


async def test_l_and_h_go_through_the_views(source: ScriptedSource) -> None:
    async with opened(source) as pilot:
        await _open(pilot, source, b'{"a":1}')
        in_hex = "00000000  7b 22 61 22 3a 31 7d" + " " * 30 + '{"a":1}'
        for key, view, first in (
            ("l", "[raw]", '{"a":1}'),
            ("right", "[hex]", in_hex),
            ("l", "[pretty]", "{"),
            ("h", "[hex]", in_hex),
            ("left", "[raw]", '{"a":1}'),
        ):
            await press(pilot, key)
            assert view in _title(pilot)
            assert _body(pilot)[0] == first


@pytest.mark.parametrize(
    ("body", "view", "first"),
    [
        (b"plain [/text] [red]not red", "[raw]", "plain [/text] [red]not red"),
        (b"\xff\x00\x1b[2J", "[hex]", "00000000  ff 00 1b 5b 32 4a" + " " * 33 + "···[2J"),
        (b"", "[raw]", ""),
    ],
)
async def test_the_first_view_suits_the_body(source: ScriptedSource, body: bytes, view: str, first: str) -> None:
    async with opened(source) as pilot:
        await _open(pilot, source, body)
        assert view in _title(pilot)
        assert _body(pilot)[0] == first
        assert f"{len(body)} B" in facts_of(pilot)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "ready · visible for 1m 0s · sent 2026-11-18 11:05:40.000 · never received · 1 B"),
        (
            {"state": MessageState.IN_FLIGHT, "due_ms": START_MS + 20_000, "rc": 3, "fr_ms": START_MS - 9000},
            "in flight · visible in 20 s · sent 2026-11-18 11:05:40.000 · "
            "received 3 times, first 2026-11-18 11:06:31.000 · 1 B",
        ),
        (
            {"state": MessageState.DELAYED, "due_ms": None, "sent_ms": None},
            "delayed · never visible · sent at an unknown time · never received · 1 B",
        ),
        ({"rc": 1, "fr_ms": None}, "received 1 time, first –"),
    ],
)
async def test_facts(source: ScriptedSource, values: dict[str, object], words: str) -> None:
    async with opened(source) as pilot:
        await _open(pilot, source, b"x", **values)
        assert words in facts_of(pilot)
        assert lines_of(pilot.app.screen.query_one("#title", TextLine))[0].strip() == "◀ orders hocx8qopw" + "0" * 23


async def test_facts_that_are_longer_than_a_line_are_shown_in_full(source: ScriptedSource) -> None:
    async with opened(source, size=(80, 24)) as pilot:
        await _open(pilot, source, b"x", rc=24, fr_ms=START_MS + 1_000)
        await settled(pilot)
        shown = " ".join(text_of(app_of(pilot)).split())
        assert "received 24 times, first 2026-11-18 11:06:41.000 · 1 B" in shown


async def test_the_state_is_told_as_of_now(source: ScriptedSource) -> None:
    async with opened(source) as pilot:
        await _open(pilot, source, b"x")
        await poll_again(pilot, 60_000)
        assert "visible for 2m 0s" in facts_of(pilot)


async def test_a_message_without_a_body(source: ScriptedSource) -> None:
    async with opened(source) as pilot:
        await _open(pilot, source, None)
        assert "it has no body" in _title(pilot)
        await press(pilot, "l", "l", "j", "G", "y")
        assert "it has no body" in _title(pilot)


async def test_a_message_that_has_left_the_queue(source: ScriptedSource) -> None:
    class Gone(ScriptedSource):
        async def read(self, queue: str, id: str) -> MessageView:
            return MessageView(START_MS, id, None, None, 0)

    source = Gone()
    async with opened(source) as pilot:
        await _open(pilot, source, b"x")
        assert "this message is no longer in the queue orders" in _title(pilot)
        assert facts_of(pilot) == "no longer in the queue"
        await press(pilot, "l", "j", "G", "y", "escape")
        assert isinstance(pilot.app.screen, QueueScreen)


async def test_a_body_too_long_to_show_tells_its_size(source: ScriptedSource) -> None:
    class Long(ScriptedSource):
        async def read(self, queue: str, id: str) -> MessageView:
            return replace(await super().read(queue, id), body=None, size=500 * 1024 * 1024)

    source = Long()
    async with opened(source) as pilot:
        await _open(pilot, source, b"x")
        assert "its body of 500.0 MiB is too long to show" in _title(pilot)


class LongBodies(ScriptedSource):
    """Its bodies are read only on request; while ``gate`` is set to an event, until half of one has arrived."""

    def __init__(self) -> None:
        super().__init__()
        self.gate: asyncio.Event | None = None
        self.size = 500 * 1024 * 1024

    async def read(self, queue: str, id: str) -> MessageView:
        return replace(await super().read(queue, id), body=None, size=self.size)

    async def read_again(self, queue: str, known: MessageView) -> MessageView:
        return replace(await super().read_again(queue, known), body=known.body, size=known.size)

    async def read_long(self, queue: str, known: MessageView, arrived: Callable[[int], None]) -> MessageView:
        arrived(self.size // 2)
        if self.gate is not None:
            await self.gate.wait()
        return replace(await super().read(queue, known.id), size=self.size)


async def test_a_long_body_is_read_on_request_and_freed_when_it_is_left() -> None:
    source = LongBodies()
    source.gate = asyncio.Event()
    async with opened(source, notifications=True) as pilot:
        await _open(pilot, source, b'{"a": 1}')
        assert "its body of 500.0 MiB is long: space or Enter reads it" in _title(pilot)
        assert " space read it " in lines_of(pilot.app.screen.query_one(KeyHints))[0]
        await press(pilot, "y")
        await pilot.press("enter")
        await until(pilot, lambda: "reading 500.0 MiB: 50%" in _title(pilot), "it says how far it is")
        # Neither a dialog above nor a poll ends it.
        await pilot.press("question_mark")
        await until(pilot, lambda: not isinstance(pilot.app.screen, MessageScreen), "a dialog is open")
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(pilot.app.screen, MessageScreen), "it is closed")
        source.play(replace(source.last, at_ms=source.last.at_ms + 1000))
        await pilot.press("enter")
        assert "reading 500.0 MiB: 50%" in _title(pilot)
        source.gate.set()
        await until(pilot, lambda: _body(pilot)[:3] == ["{", '  "a": 1', "}"], "it is shown")
        # To read the state again does not take it away.
        await press(pilot, "r", "j")
        assert _body(pilot)[:3] == ["{", '  "a": 1', "}"]
        shown = weakref.ref(pilot.app.screen.query_one(BodyView)._document)
        gc.disable()
        try:
            await press(pilot, "escape")
            await until(pilot, lambda: shown() is None, "its lines are freed, without a search for garbage")
        finally:
            gc.enable()


async def test_a_body_too_long_to_be_sent_is_not_edited(
    source: ScriptedSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rsmq_tui.tui.queue.marks.BODY_BYTES_MAX", 10)
    async with opened(source, notifications=True, triage=ScriptedTriage()) as pilot:
        await _open(pilot, source, b"x" * 11)
        await press(pilot, "e", "V")
        shown = [notification.message for notification in notes_of(pilot.app)]
        assert set(shown) == {"a body of 11 B cannot be sent from here, at most 10 B"}


async def test_a_message_that_cannot_be_read_says_why(source: ScriptedSource) -> None:
    source.read_error = "the server is [/loading] \x1b[2J"
    async with opened(source) as pilot:
        await _open(pilot, source, b"x")
        assert "the server is [/loading] ␛[2J" in _title(pilot)
        await press(pilot, "l", "y", "q")
        assert isinstance(pilot.app.screen, QueueScreen)


async def test_while_it_is_read_it_says_so_and_can_be_left(triage: ScriptedTriage) -> None:
    gate = asyncio.Event()

    class Slow(ScriptedSource):
        async def read(self, queue: str, id: str) -> MessageView:
            await gate.wait()
            return await super().read(queue, id)

    source = Slow()
    async with opened(source, notifications=True, triage=triage) as pilot:
        await play_orders(pilot, source, [b"x"], "enter")
        await pilot.press("enter")
        await says(pilot, "reading …")
        await pilot.press("x")
        await says(pilot, "this message is still being read")
        await pilot.press("l", "j", "y", "escape")
        await until(pilot, lambda: isinstance(pilot.app.screen, QueueScreen), "it is left")
        gate.set()
        await settled(pilot)
        assert isinstance(pilot.app.screen, QueueScreen)


async def test_scrolling_by_keys_and_wheel(source: ScriptedSource) -> None:
    body = b"\n".join(b"line %d" % number for number in range(200))
    async with opened(source, size=(100, 30)) as pilot:
        await _open(pilot, source, body)
        view = pilot.app.screen.query_one(LineView)
        height = view.size.height
        last = 200 - height
        for key, top in (
            *(("j", 1), ("down", 2), ("k", 1), ("up", 0), ("up", 0), ("pagedown", height - 1), ("pageup", 0)),
            *(("G", last), ("j", last), ("end", last), ("g", 0)),
        ):
            await press(pilot, key)
            assert _body(pilot)[0] == f"line {top}", key
        assert _body(pilot)[-1] == f"line {height - 1}"
        await pilot._post_mouse_events([MouseScrollDown], LineView)
        await settled(pilot)
        assert _body(pilot)[0] == "line 3"
        await pilot._post_mouse_events([MouseScrollUp], LineView)
        await settled(pilot)
        assert _body(pilot)[0] == "line 0"
        assert f"1–{height} of 200 lines" in text_of(app_of(pilot))


async def test_long_lines_are_wrapped_anew_when_the_terminal_changes(source: ScriptedSource) -> None:
    body = json.dumps({"text": "x" * 300, "wide": "世界" * 100}, ensure_ascii=False).encode()
    async with opened(source, size=(120, 30)) as pilot:
        await _open(pilot, source, body)
        for width in (120, 50, 80, 120):
            await resized(pilot, width, 30)
            text = "".join(line for line in _body(pilot))
            assert text.count("x") == 301
            assert text.count("世界") == 100
            assert max(cell_len(line) for line in _body(pilot)) in (width - 2, width - 3)


async def test_a_resize_does_not_lose_the_place(source: ScriptedSource) -> None:
    body = b"\n".join(b"line %d" % number for number in range(500))
    async with opened(source, size=(100, 30)) as pilot:
        await _open(pilot, source, body)
        await press(pilot, "pagedown", "pagedown", "pagedown")
        top = _body(pilot)[0]
        await pilot.resize_terminal(60, 30)
        view = pilot.app.screen.query_one(LineView)
        await until(pilot, lambda: view.size.width == 58, "the new size")
        await settled(pilot)
        assert _body(pilot)[0] == top


async def test_a_megabyte_of_json_is_looked_through_without_making_all_its_lines(
    source: ScriptedSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = json.dumps([{"id": number, "name": "x" * 20} for number in range(21_000)]).encode()
    assert 930_000 < len(body) <= 1_000_000
    made = []
    async with opened(source) as pilot:
        honest = body_lines._token_of

        def counted(token: str, following: str) -> str:
            made.append(token)
            return honest(token, following)

        monkeypatch.setattr(body_lines, "_token_of", counted)
        await _open(pilot, source, body)
        assert "of 84,002 lines" in text_of(app_of(pilot))
        await press(pilot, "G")
        assert _body(pilot)[-2:] == ["  }", "]"]
        await press(pilot, "pageup", "g", "l", "h", "j")
        assert _body(pilot)[:2] == ["[", "  {"]
        assert len(made) < 2000
