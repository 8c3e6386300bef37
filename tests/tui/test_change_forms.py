"""What changes are asked for, and what becomes of the answers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.events import Key
from textual.pilot import Pilot
from textual.widgets import Input

from rsmq_tui.triage.actions import (
    Copy,
    CreateQueue,
    Hide,
    Import,
    Move,
    Redrive,
    Send,
    SetAttributes,
    action_named,
)
from rsmq_tui.tui.changes.forms import Answers, BodyArea, Form, FormScreen, form_of
from rsmq_tui.tui.overview.screen import OverviewScreen
from rsmq_tui.tui.widgets.controls import TickBox
from tests.tui.changing import ask_change, asked, confirm
from tests.tui.driving import opened, play, press, until
from tests.tui.reading import app_of, text_of
from tests.tui.scripted import ScriptedSource
from tests.tui.scripted_triage import ScriptedTriage
from tests.tui.states import poll_of, queue_of

pytestmark = pytest.mark.slow

HOSTILE = "\x1b[2J[/foo]\u202egnp.exe"


def _form(name: str, source: ScriptedSource, body: bytes | None = None) -> Form[Any]:
    queues = [queue_of("orders", vt_s=30.0, ready=3), queue_of("mail"), queue_of(HOSTILE)]
    form = form_of(name, "orders", poll_of(source, queues), body)
    assert form is not None
    return form


MADE: list[tuple[str, Answers, object]] = [
    ("hide", {"seconds": "300"}, Hide(queue="orders", seconds=300)),
    ("move", {"target": " mail ", "create": ""}, Move(queue="orders", target="mail")),
    ("move", {"target": "new", "create": "yes"}, Move(queue="orders", target="new", create=True)),
    ("copy", {"target": "orders", "create": ""}, Copy(queue="orders", target="orders")),
    ("redrive", {"target": "", "origin": ""}, Redrive(queue="orders")),
    ("redrive", {"target": "mail", "origin": ""}, Redrive(queue="orders", target="mail")),
    ("redrive", {"target": "", "origin": "meta.queue"}, Redrive(queue="orders", origin="meta.queue")),
    ("send", {"body": b"\xff", "file": "", "delay": ""}, Send(queue="orders", bodies=(b"\xff",))),
    ("send", {"body": b"x", "file": "", "delay": "0"}, Send(queue="orders", bodies=(b"x",), delay_s=0)),
    ("create", {"name": "n", "vt": "5", "delay": "1", "maxsize": "-1"},
     CreateQueue(queue="n", vt=5, delay=1, maxsize=-1)),
    ("hide", {"seconds": "2m"}, Hide(queue="orders", seconds=120)),
    ("hide", {"seconds": "10min"}, Hide(queue="orders", seconds=600)),
    ("hide", {"seconds": "1 h"}, Hide(queue="orders", seconds=3600)),
    ("set", {"vt": "31", "delay": "0", "maxsize": "65536"}, SetAttributes(queue="orders", vt=31)),
    ("set", {"vt": "30", "delay": "", "maxsize": "-1"}, SetAttributes(queue="orders", maxsize=-1)),
    ("import", {"file": "/x/y.jsonl"}, Import(queue="orders", path=Path("/x/y.jsonl"))),
]  # fmt: skip
NO_DURATION = "how long: a duration is a number of seconds, or has a unit: 30s, 10m, 1h30m, 2d"
REFUSED: list[tuple[str, Answers, str]] = [
    ("hide", {"seconds": ""}, NO_DURATION),
    ("hide", {"seconds": "10000000"}, "how long: a duration must be a whole number of seconds from 0 to 9,999,999"),
    ("hide", {"seconds": "-1"}, "how long: a duration must be a whole number of seconds from 0 to 9,999,999"),
    ("move", {"target": " ", "create": ""}, "name of a queue"),
    ("redrive", {"target": "mail", "origin": "a"}, "not both"),
    ("send", {"body": b"x", "file": "y", "delay": ""}, "not both"),
    ("send", {"body": b"", "file": "/nowhere/at/all", "delay": ""}, "is not a file"),
    (
        "send",
        {"body": b"x", "file": "", "delay": "soon"},
        "delay: a duration is a number of seconds, or has a unit: 30s, 10m, 1h30m, 2d",
    ),
    ("create", {"name": "", "vt": "5", "delay": "1", "maxsize": "-1"}, "needs a name"),
    ("set", {"vt": "30", "delay": "0", "maxsize": "65536"}, "nothing was changed"),
    ("import", {"file": ""}, "path of a file"),
]


@pytest.mark.parametrize(("name", "answers", "action"), MADE)
def test_answers_become_an_action(source: ScriptedSource, name: str, answers: Answers, action: object) -> None:
    assert _form(name, source).build(answers) == action


@pytest.mark.parametrize(("name", "answers", "why"), REFUSED)
def test_wrong_answers_are_refused(source: ScriptedSource, name: str, answers: Answers, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        _form(name, source).build(answers)


@pytest.mark.parametrize("name", ["delete", "release", "purge", "delete-queue"])
def test_what_needs_nothing_but_a_queue_has_no_form(name: str) -> None:
    assert form_of(name, "orders", None, None) is None
    assert action_named(name)(queue="orders").name == name


@pytest.mark.parametrize("name", ["hide", "move", "copy", "redrive", "send", "create", "set", "import"])
def test_forms_need_no_snapshot(name: str) -> None:
    assert form_of(name, "orders", None, None) is not None


def test_only_what_can_be_a_name_is_suggested(source: ScriptedSource) -> None:
    assert _form("move", source).fields[0].choices == ("mail",)
    assert _form("copy", source).fields[0].choices == ("mail", "orders")
    assert _form("hide", source).fields[0].choices == ("30", "300", "3600")


def test_an_export_goes_to_a_path_that_is_free(tmp_path: Path) -> None:
    from rsmq_tui.tui.changes.forms import export_form

    form = export_form("../\x1b[2Jorders")
    assert form.fields[0].value == "-----2Jorders.jsonl"
    assert form.build({"file": str(tmp_path / "new")}) == tmp_path / "new"
    with pytest.raises(ValueError, match="already exists"):
        form.build({"file": str(tmp_path)})


@asynccontextmanager
async def _asking(
    source: ScriptedSource, triage: ScriptedTriage, name: str, body: bytes | None = None, **options: Any
) -> AsyncIterator[Pilot[None]]:
    """Run the app, and open the form of a change of ``orders``."""
    async with opened(source, triage=triage, **options) as pilot:
        queues = [queue_of("orders", ready=3), queue_of("mail"), queue_of("maps"), queue_of("other")]
        await play(pilot, source, poll_of(source, queues))
        ask_change(app_of(pilot), name, "orders", body=body)
        await until(
            pilot, lambda: isinstance(pilot.app.screen, FormScreen) and pilot.app.screen.is_mounted, "the form opens"
        )
        yield pilot


async def test_a_wrong_answer_is_told_and_can_be_put_right(source: ScriptedSource, triage: ScriptedTriage) -> None:
    async with _asking(source, triage, "move") as pilot:
        await press(pilot, "enter")
        shown = "enter the name of a queue; ↓ shows suggestions"
        assert shown in text_of(app_of(pilot))
        await press(pilot, "down")
        assert shown not in text_of(app_of(pilot))
        await press(pilot, "enter")
        await asked(pilot)
        await confirm(pilot)
        assert triage.asked == [(Move(queue="orders", target="mail"), None)]


async def test_arrows_walk_through_the_suggestions_that_hold_what_was_typed(
    source: ScriptedSource, triage: ScriptedTriage
) -> None:
    async with _asking(source, triage, "move") as pilot:
        entry = pilot.app.screen.query_one("#target", Input)
        await press(pilot, "m", "a")
        seen = []
        for key in ("down", "down", "down", "up"):
            await press(pilot, key)
            seen.append(entry.value)
        assert seen == ["mail", "maps", "mail", "maps"]
        await press(pilot, "z", "down")
        assert entry.value == "mapsz"


async def test_cancelling_a_preview_leads_back_to_the_form(source: ScriptedSource, triage: ScriptedTriage) -> None:
    async with _asking(source, triage, "hide") as pilot:
        await press(pilot, "down", "enter")
        await asked(pilot)
        await press(pilot, "escape")
        assert isinstance(pilot.app.screen, FormScreen)
        assert pilot.app.screen.query_one("#seconds", Input).value == "300"
        await press(pilot, "escape")
        assert isinstance(pilot.app.screen, OverviewScreen)
        assert triage.runs == []


async def test_what_was_written_is_not_lost_by_one_escape(source: ScriptedSource, triage: ScriptedTriage) -> None:
    async with _asking(source, triage, "send") as pilot:
        await press(pilot, "q", "escape")
        assert "discard the text" in text_of(app_of(pilot))
        assert pilot.app.screen.query_one(BodyArea).text == "q"
        await press(pilot, "escape")
        assert isinstance(pilot.app.screen, OverviewScreen)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"plain",
        b'{"a": 1}\n',
        b"a\r\nb\n",
        b"\xff\xfe\x00",
        b"x\x0bb\x1cc\x85d",
        b"tab\t\x1b[31mred",
        b"z" * 300_000,
    ],
    ids=["empty", "plain", "json", "mixed-ends", "binary", "odd-ends", "escape", "long"],
)
async def test_a_body_that_is_not_touched_keeps_its_every_byte(
    source: ScriptedSource, triage: ScriptedTriage, body: bytes
) -> None:
    async with _asking(source, triage, "send", body) as pilot:
        assert "\x1b" not in text_of(app_of(pilot))
        pilot.app.screen.query_one("#yes").focus()
        await press(pilot, "enter")
        await asked(pilot)
        assert triage.asked == [(Send(queue="orders", bodies=(body,)), None)]


async def test_a_body_that_is_edited_is_sent_as_it_reads(source: ScriptedSource, triage: ScriptedTriage) -> None:
    async with _asking(source, triage, "send", b"\x1b[2Jhello\nw\xc3\xb6rld") as pilot:
        assert "␛[2Jhello" in text_of(app_of(pilot))
        await press(pilot, "X")
        assert pilot.app.screen.query_one(BodyArea).body == b"X\x1b[2Jhello\nw\xc3\xb6rld"


@pytest.mark.parametrize("size", [(40, 10), (80, 24)])
@pytest.mark.parametrize("name", ["hide", "move", "copy", "redrive", "send", "create", "set", "import"])
async def test_forms_fit_any_screen(
    source: ScriptedSource, triage: ScriptedTriage, size: tuple[int, int], name: str
) -> None:
    async with _asking(source, triage, name, size=size) as pilot:
        await pilot.pause()
        screen = pilot.app.screen
        assert screen.region.contains_region(screen.query_one("#yes").region)
        assert pilot.app.focused is not None
        assert screen.region.overlaps(pilot.app.focused.region)
        assert "Preview" in text_of(app_of(pilot))


async def test_a_target_that_does_not_exist_is_created_unless_the_user_says_no(
    source: ScriptedSource, triage: ScriptedTriage
) -> None:
    async with _asking(source, triage, "move") as pilot:
        create = pilot.app.screen.query_one("#create", TickBox)
        assert not create.value
        await press(pilot, *"mai")
        assert create.value
        await press(pilot, "l")
        assert not create.value
        await press(pilot, "s", "tab", "space")
        assert not create.value
        await press(pilot, "shift+tab", "end", "x")
        assert not create.value
        await press(pilot, "tab", "space", "ctrl+s")
        await asked(pilot)
        assert triage.asked == [(Move(queue="orders", target="mailsx", create=True), None)]


@pytest.mark.parametrize("body", [b'{"a": 1}', b"42"], ids=["object", "number"])
async def test_a_body_that_is_json_no_longer_is_warned_of_and_can_be_sent(
    source: ScriptedSource, triage: ScriptedTriage, body: bytes
) -> None:
    async with _asking(source, triage, "send", body) as pilot:
        assert "was JSON" not in text_of(app_of(pilot))
        await press(pilot, "X")
        assert "The body was JSON; now it is not JSON: Expecting value: line 1 column 1" in text_of(app_of(pilot))
        await press(pilot, "backspace")
        assert "was JSON" not in text_of(app_of(pilot))
        await press(pilot, "X", "ctrl+s")
        await asked(pilot)
        assert triage.asked == [(Send(queue="orders", bodies=(b"X" + body,)), None)]


async def test_ctrl_s_does_not_overtake_what_was_typed_before(source: ScriptedSource, triage: ScriptedTriage) -> None:
    async with _asking(source, triage, "send") as pilot:
        # As from a terminal that sends them all at once.
        for key in "x" * 300:
            pilot.app.post_message(Key(key, key))
        pilot.app.post_message(Key("ctrl+s", None))
        await until(pilot, lambda: triage.asked, "the preview is asked for")
        assert triage.asked == [(Send(queue="orders", bodies=(b"x" * 300,)), None)]
