"""What a change is aimed at is what the screen shows: its messages, and its namespace."""

from dataclasses import replace

import pytest

from rsmq_tui.tui.changes.forms import FormScreen
from tests.tui.driving import opened, play, play_orders, press
from tests.tui.reading import app_of, text_of
from tests.tui.scripted import ScriptedSource
from tests.tui.scripted_triage import ScriptedTriage

pytestmark = pytest.mark.slow

OPEN: tuple[tuple[str, ...], ...] = ((), ("enter",), ("enter", "enter"))


@pytest.mark.parametrize("steps", OPEN, ids=("overview", "queue", "message"))
@pytest.mark.parametrize("key", ["x", "u", "E"])
async def test_nothing_is_changed_before_the_new_namespace_is_shown(
    source: ScriptedSource, triage: ScriptedTriage, steps: tuple[str, ...], key: str
) -> None:
    async with opened(source, triage=triage, notifications=True) as pilot:
        await play_orders(pilot, source, [b"x"], *steps)
        screen = pilot.app.screen
        app_of(pilot).dashboard.servers[0].switch("mail")
        await press(pilot, key)
        assert pilot.app.screen is screen
        assert triage.asked == []
        is_known = key != "E" or len(steps) < 2
        words = "namespace rsmq is still shown"
        assert (words in text_of(app_of(pilot))) == is_known
        await play(pilot, source, replace(source.last, ns="mail"))
        await press(pilot, key)
        assert (pilot.app.screen is not screen) == is_known


FORMS: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (("enter",), "M", "the message {}"),
    (("enter", "enter"), "M", "the message {}"),
    (("enter", "enter"), "C", "the message {}"),
    (("enter", "enter"), "plus", "the message {}"),
    (("enter", "enter"), "R", "the message {}"),
    (("enter", "enter"), "e", "a copy of the message {}"),
    (("enter",), "e", "a copy of the message {}"),
    (("enter", "space", "space"), "M", "the 2 marked messages"),
    (("enter", "A"), "M", "every message of the queue"),
    (("enter", "slash", *"rc<5", "enter", "A"), "M", "all that match rc<5, in the whole queue"),
)


@pytest.mark.parametrize(("steps", "key", "words"), FORMS)
async def test_a_form_says_which_messages_it_is_for(
    source: ScriptedSource, triage: ScriptedTriage, steps: tuple[str, ...], key: str, words: str
) -> None:
    async with opened(source, triage=triage, size=(80, 24)) as pilot:
        await play_orders(pilot, source, [b"x", b"y", b"z"], *steps, key)
        assert isinstance(pilot.app.screen, FormScreen)
        assert words.format(source.messages["orders"][0].id) in text_of(app_of(pilot))
