"""Copying ids and bodies to the terminal's clipboard."""

import pytest
from textual.pilot import Pilot

from rsmq_tui.monitor import MessageView
from tests.tui.driving import opened, play, press
from tests.tui.reading import app_of, text_of
from tests.tui.scripted import ScriptedSource, messages_of
from tests.tui.states import poll_of, queue_of

pytestmark = pytest.mark.slow

BODY = '{"text": "Grüße [/x] \x1b[2J"}'.encode()


async def _open(pilot: Pilot[None], source: ScriptedSource, *keys: str, body: bytes | None = BODY) -> str:
    source.messages["orders"] = messages_of([b"first", body])
    if body:
        source.bodies[source.messages["orders"][1].id] = body
    await play(pilot, source, poll_of(source, [queue_of("orders", ready=2)]))
    await press(pilot, "enter", "j", *keys)
    return source.messages["orders"][1].id


@pytest.mark.parametrize("keys", [(), ("enter",)], ids=["queue", "message"])
async def test_y_copies_the_body_and_capital_i_the_id(source: ScriptedSource, keys: tuple[str, ...]) -> None:
    async with opened(source, notifications=True) as pilot:
        id = await _open(pilot, source, *keys)
        await press(pilot, "y")
        assert app_of(pilot).clipboard == BODY.decode()
        assert "copied the body" in text_of(app_of(pilot))
        await press(pilot, "I")
        assert app_of(pilot).clipboard == id
        assert "copied the id" in text_of(app_of(pilot))


@pytest.mark.parametrize("keys", [(), ("enter",)], ids=["queue", "message"])
async def test_what_is_no_text_is_copied_as_far_as_it_is(source: ScriptedSource, keys: tuple[str, ...]) -> None:
    async with opened(source) as pilot:
        await _open(pilot, source, *keys, body=b"a\xffb")
        await press(pilot, "y")
        assert app_of(pilot).clipboard == "a\N{REPLACEMENT CHARACTER}b"


@pytest.mark.parametrize("keys", [(), ("enter",)], ids=["queue", "message"])
async def test_a_body_beyond_a_terminals_clipboard_is_refused(source: ScriptedSource, keys: tuple[str, ...]) -> None:
    async with opened(source, notifications=True) as pilot:
        await _open(pilot, source, *keys, body=b"x" * 75_000)
        await press(pilot, "y")
        assert app_of(pilot).clipboard == ""
        assert "the body is too long for the terminal's clipboard" in text_of(app_of(pilot))


async def test_a_body_that_is_not_there_is_not_copied(source: ScriptedSource) -> None:
    async with opened(source, notifications=True) as pilot:
        await _open(pilot, source, body=None)
        await press(pilot, "y")
        assert app_of(pilot).clipboard == ""
        assert "that message no longer has a body" in text_of(app_of(pilot))
        await press(pilot, "enter", "y")
        assert app_of(pilot).clipboard == ""


async def test_a_body_that_cannot_be_read_says_why(source: ScriptedSource) -> None:
    async with opened(source, notifications=True) as pilot:
        await _open(pilot, source)
        source.read_error = "the server is [/busy]"
        await press(pilot, "y")
        assert "the server is [/busy]" in text_of(app_of(pilot))


async def test_an_odd_id_is_copied_as_it_is(source: ScriptedSource) -> None:
    odd = "id-\udcff-\x1b[2J"

    class Odd(ScriptedSource):
        async def read(self, queue: str, id: str) -> MessageView:
            assert id == odd
            return await super().read(queue, id)

    source = Odd()
    async with opened(source) as pilot:
        source.messages["orders"] = [row.__class__(odd, *[getattr(row, name) for name in row.__slots__[1:]])
                                     for row in messages_of([b"x"])]  # fmt: skip
        await play(pilot, source, poll_of(source, [queue_of("orders", ready=1)]))
        await press(pilot, "enter", "enter")
        assert "id-\\xff-␛[2J" in text_of(app_of(pilot))
        await press(pilot, "I")
        assert app_of(pilot).clipboard == "id-?-\x1b[2J"
