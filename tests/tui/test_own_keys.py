"""Keys that the user chose: what they do, where they are named, and which are refused."""

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from textual.dom import DOMNode

from rsmq_tui import tui
from rsmq_tui.tui.app import RsmqApp
from rsmq_tui.tui.changes.confirm import ConfirmScreen
from rsmq_tui.tui.dialogs.palette import commands_of
from rsmq_tui.tui.dialogs.screens import HelpScreen
from rsmq_tui.tui.keys import _TOGETHER, COMMANDS, FIXED, KEYS, Keymap
from rsmq_tui.tui.overview.screen import OverviewScreen
from rsmq_tui.tui.queue.screen import QueueScreen
from rsmq_tui.tui.screen import DashboardScreen
from rsmq_tui.tui.widgets.lines import KeyHints
from rsmq_tui.tui.widgets.text_view import LineView
from tests.tui.driving import opened, play, play_orders, press, says, wait_for_screen
from tests.tui.reading import lines_of
from tests.tui.scripted import ScriptedSource
from tests.tui.scripted_triage import ScriptedTriage
from tests.tui.states import poll_of, queue_of
from tests.tui.test_keymap import OWNERS


def _screens(of: type[DOMNode]) -> list[type[DashboardScreen]]:
    found = [of] if issubclass(of, DashboardScreen) and of.WHERE else []
    return found + [each for kind in of.__subclasses__() for each in _screens(kind)]


async def test_a_key_of_the_user_replaces_the_default(source: ScriptedSource, triage: ScriptedTriage) -> None:
    keys = {"undo": ["ctrl+u"], "delete": ["d"], "decoded": ["f6"], "down": ["ctrl+j", "down"]}
    keys["next_part"] = ["f9"]
    async with opened(source, triage=triage, size=(300, 40), keys=keys) as pilot:
        await play_orders(pilot, source, [b"1", b"2"], "enter")
        screen = await wait_for_screen(pilot, QueueScreen)
        hints = lines_of(screen.query_one(KeyHints))[0]
        assert "d delete" in hints
        assert "x delete" not in hints
        assert "h f9 tabs" in hints
        first = screen.chosen_id
        await press(pilot, "j")
        assert screen.chosen_id == first
        await press(pilot, "ctrl+j")
        assert screen.chosen_id != first
        await press(pilot, "x")
        assert pilot.app.screen is screen
        assert {command.id: command.key for command in commands_of(screen)}["queue.delete"] == "d"
        await press(pilot, "question_mark")
        help_screen = await wait_for_screen(pilot, HelpScreen)
        shown = "\n".join(lines_of(help_screen.query_one(LineView)))
        assert "   d               Delete the marked messages, or this one" in shown
        await press(pilot, "escape", "d")
        await wait_for_screen(pilot, ConfirmScreen)
        await says(pilot, "(ctrl+u, or rsmq-tui undo)")


async def test_keys_that_share_one_with_a_replaced_key_stay(source: ScriptedSource, triage: ScriptedTriage) -> None:
    async with opened(source, [queue_of("orders")], triage=triage, keys={"overview.requeue_all": ["Q"]}) as pilot:
        screen = await wait_for_screen(pilot, OverviewScreen)
        found = {key: {each.binding.id} for key, each in screen.active_bindings.items()}
        assert found["R"] == {"overview.redrive"}


async def test_a_sentence_names_the_key_of_the_user(source: ScriptedSource) -> None:
    async with opened(source, size=(120, 30), keys={"namespace": ["f7"]}) as pilot:
        await play(pilot, source, poll_of(source, [], namespaces=("rsmq", "jobs")))
        await says(pilot, "Press f7 to switch")


def test_no_sentence_names_a_key_that_may_be_another() -> None:
    written = {key for name in COMMANDS.keys() - FIXED for key in COMMANDS[name][0].written}
    # These are words and punctuation too.
    written -= {"a", "right", "left", ":", ","}
    keys = "|".join(map(re.escape, written))
    naming = re.compile(rf"(?:^|[ (;,·])(?:{keys}) [a-z]+(?<!i)s\b|[Pp]ress (?:{keys})(?!\w)|\((?:{keys})[,)]")
    found = [
        f"{path.name}: {words}"
        for path in Path(tui.__file__ or "").parent.rglob("*.py")
        # A demo has the default keys.
        if path.name not in ("tour.py", "demo.py")
        for words in _shown_words(ast.parse(path.read_text()))
        if naming.search(words)
    ]
    assert found == []


def _shown_words(tree: ast.AST) -> Iterator[str]:
    """Yield the texts of a module, without docstrings."""
    for node in ast.walk(tree):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Constant) and isinstance(child.value, str) and not isinstance(node, ast.Expr):
                yield child.value


async def test_mistakes_are_shown_and_the_default_stays(source: ScriptedSource, triage: ScriptedTriage) -> None:
    async with opened(source, triage=triage, keys={"delete": ["y"], "pause": ["f9"]}, notifications=True) as pilot:
        await play_orders(pilot, source, [b"1"], "enter")
        await says(pilot, "delete: y is already the key of copy_body")
        bindings = (await wait_for_screen(pilot, QueueScreen)).active_bindings
        assert bindings["x"].binding.id == "queue.delete"
        assert bindings["f9"].binding.id == "app.pause"


@pytest.mark.parametrize(
    ("name", "keys", "problem"),
    [
        ("delet", ["d"], "delet: there is no command of this name; did you mean delete?"),
        ("\x1b[31m", ["d"], "␛[31m: there is no command of this name; `rsmq-tui keys` lists them"),
        ("queue.delete", ["d"], "queue.delete: there is no command of this name; did you mean delete?"),
        ("delete", ["F25"], "delete: F25 is no key, write a character, or a name such as f5, ctrl+x"),
        ("delete", ["ctrl+"], "delete: ctrl+ is no key"),
        ("delete", ["<any>"], "delete: <any> is no key"),
        ("delete", ["\x1b"], "delete: ␛ is no key"),
        ("delete", ["d", ""], "delete: a key is empty"),
        ("delete", [], "delete: it needs a key"),
        ("delete", ["y"], "delete: y is already the key of copy_body"),
        ("delete", ["j"], "delete: j is already the key of down"),
        ("down", ["p"], "down: p is already the key of pause"),
        ("mark_time", ["p"], "mark_time: p is already the key of pause"),
        ("submit", ["s"], "submit: s could no longer be typed, write a name such as f5 or ctrl+x"),
        ("save_filter", ["space"], "save_filter: space could no longer be typed"),
        ("quit", ["Q"], "quit: Q could no longer be typed"),
        ("submit", ["-"], "submit: - could no longer be typed"),
        ("delete", ["/"], "delete: / is already the key of filter"),
        ("delete", ["shift+a"], "delete: shift+a is no key"),
        ("delete", ["ctrl+X"], "delete: ctrl+X is no key"),
        ("delete", ["shift+ctrl+left"], "delete: shift+ctrl+left is no key"),
        ("delete", ["ctrl+/"], "delete: ctrl+/ is no key"),
        ("mark_time", ["enter"], "mark_time: enter cannot be chosen, it means the same everywhere"),
        ("submit", ["escape"], "submit: escape cannot be chosen"),
        ("delete", ["ctrl+q"], "delete: ctrl+q cannot be chosen"),
        ("clear", ["f3"], "clear: its key cannot be changed"),
        ("open", ["o"], "open: its key cannot be changed"),
    ],
)
def test_a_key_that_cannot_be_used_is_refused(name: str, keys: list[str], problem: str) -> None:
    keymap = Keymap({name: keys})
    assert problem in " ".join(keymap.problems)
    assert [*keymap] == [*KEYS]
    assert keymap.overrides == {}
    assert not keymap.chosen


def test_a_comma_is_a_key() -> None:
    keymap = Keymap({"minute_back": ["."], "minute_on": [","]})
    assert keymap.problems == []
    assert (keymap.first_key("minute_back"), keymap.first_key("minute_on")) == (".", ",")


def test_two_keys_may_be_swapped() -> None:
    keymap = Keymap({"copy_body": ["x"], "delete": ["y"]})
    assert keymap.problems == []
    assert (keymap.first_key("copy_body"), keymap.first_key("delete")) == ("x", "y")


def test_of_two_commands_with_the_same_new_key_one_stays_as_it_is() -> None:
    keymap = Keymap({"delete": ["f8"], "send": ["f8"]})
    assert keymap.problems == ["delete: f8 is already the key of send"]
    assert keymap.chosen == {"send"}


def test_commands_for_different_kinds_of_queues_may_share_a_new_key() -> None:
    assert Keymap({"set": ["f8"], "trim": ["f8"]}).problems == []


@pytest.mark.parametrize("key", ["~", "é", "f12", "ctrl+x", "alt+x", "ctrl+shift+left", "insert", "tab"])
def test_a_key_is_a_character_or_a_name(key: str) -> None:
    keymap = Keymap({"theme": [key]})
    assert keymap.problems == []
    assert keymap["app.theme"].written == [key]


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - FIXED))
def test_the_default_keys_can_be_written_as_they_are_listed(name: str) -> None:
    keymap = Keymap({name: COMMANDS[name][0].written})
    assert keymap.problems == []
    assert [*keymap] == [replace(key, keys=",".join(key.pressed)) if key.name == name else key for key in KEYS]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_its_own_key_if_that_is_free(name: str) -> None:
    keymap = Keymap({name: ["f24"]})
    assert (keymap.chosen == {name}) is (name not in FIXED)
    assert (len(keymap.overrides) > 0) is (name not in FIXED)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_the_same_keys_in_all_groups(name: str) -> None:
    assert len({key.keys for key in COMMANDS[name]}) == 1


def test_the_names_in_configuration_files_stay() -> None:
    names = (
        "help palette pause refresh time filter sort reverse send delete undo redrive purge set export audit journal"
    )
    more = "known mark_all release hide move edit copy_to copy_body copy_id life decoded pane search events quit submit"
    assert {*names.split(), *more.split(), "leave", "down", "mark", "mark_time"} <= COMMANDS.keys()


def test_what_is_available_together_is_known() -> None:
    together = [set(groups) for groups in _TOGETHER]
    for screen in _screens(DashboardScreen):
        assert any({*screen.WHERE, "app"} <= groups for groups in together), screen
    for owner in {kind for kinds in OWNERS.values() for kind in kinds} - {RsmqApp}:
        bound = {key.where for key in KEYS for binding in owner._merged_bindings or () if binding[1].id == key.id}
        assert any(bound <= groups for groups in together), owner
