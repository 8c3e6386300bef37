"""The registry of keys: unique, complete, and in step with what the screens can do."""

from collections import Counter

import pytest
from textual.app import App
from textual.dom import DOMNode

from rsmq_tui.tui.app import RsmqApp
from rsmq_tui.tui.keymap import KEYS, Key, Where, bindings_of, keys_of
from rsmq_tui.tui.screens.help import HelpScreen
from rsmq_tui.tui.screens.message import MessageScreen
from rsmq_tui.tui.screens.namespaces import NamespaceScreen
from rsmq_tui.tui.screens.overview import OverviewScreen
from rsmq_tui.tui.screens.queue import QueueScreen
from rsmq_tui.tui.widgets.line_view import LineView
from rsmq_tui.tui.widgets.row_table import RowTable

OWNERS: dict[Where, tuple[type[DOMNode], ...]] = {
    "app": (RsmqApp,),
    "table": (RowTable,),
    "lines": (LineView,),
    "overview": (OverviewScreen,),
    "queue": (QueueScreen,),
    "message": (MessageScreen,),
    "modal": (HelpScreen, NamespaceScreen),
}

# What dashboards.md, section 4, gives a meaning that no screen may change: key -> ids that may have it.
RESERVED = {
    "j": {"table.down", "lines.down"},
    "down": {"table.down", "lines.down"},
    "k": {"table.up", "lines.up"},
    "up": {"table.up", "lines.up"},
    "g": {"table.top", "lines.top"},
    "G": {"table.bottom", "lines.bottom"},
    "h": {"queue.previous_part", "message.previous_view"},
    "l": {"queue.next_part", "message.next_view"},
    "left": {"queue.previous_part", "message.previous_view"},
    "right": {"queue.next_part", "message.next_view"},
    "enter": {"table.open"},
    "escape": {"overview.clear", "queue.back", "message.back", "modal.close"},
    "q": {"app.back", "modal.close"},
    "ctrl+c": {"app.quit"},
    "question_mark": {"app.help"},
    "colon": {"app.palette"},
    "ctrl+p": {"app.palette"},
    "slash": {"overview.filter"},
    "left_square_bracket": {"queue.previous_page"},
    "right_square_bracket": {"queue.next_page"},
    "y": {"queue.copy_body", "message.copy_body"},
    "Y": {"queue.copy_id", "message.copy_id"},
    "s": {"overview.sort"},
    "S": {"overview.reverse"},
    "p": {"app.pause"},
    "r": {"app.refresh"},
    "ctrl+r": {"app.refresh"},
    "t": {"app.time"},
}
# Reserved for what comes later: mark, range, mark all, describe, delete, send, edit, visibility, redrive, move, undo,
# export, wide, panels, panes, server, alerts.
LATER = (
    "space", "v", "asterisk", "A", "d", "x", "a", "e", "plus", "minus", "0", "R", "M", "u", "E", "w", "i",
    "exclamation_mark", "tab", "shift+tab", *"123456789",
)  # fmt: skip


def _pressed(key: Key) -> list[str]:
    return key.keys.split(",")


def test_every_id_is_unique() -> None:
    assert [id for id, times in Counter(key.id for key in KEYS).items() if times > 1] == []


def test_every_id_begins_with_its_place() -> None:
    assert [key.id for key in KEYS if not key.id.startswith(f"{key.where}.")] == []


def test_every_place_has_an_owner_that_binds_its_keys() -> None:
    assert {key.where for key in KEYS} == OWNERS.keys()
    for where, owners in OWNERS.items():
        for owner in owners:
            bound = {binding.id for binding in owner.BINDINGS}  # type: ignore[attr-defined]
            assert {key.id for key in keys_of(where)} <= bound


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.id)
def test_every_action_exists_where_it_is_looked_for(key: Key) -> None:
    name, _, arguments = key.action.partition("(")
    owners: tuple[type[DOMNode], ...] = OWNERS[key.where]
    if name.startswith("app."):
        owners, name = (RsmqApp,), name.removeprefix("app.")
    for owner in owners:
        assert callable(getattr(owner, f"action_{name}", None)), f"{owner.__name__} has no action_{name}"
    assert arguments in ("", "1)", "-1)")


@pytest.mark.parametrize("screen", [OverviewScreen, QueueScreen, MessageScreen])
def test_no_two_keys_of_a_screen_clash(screen: type[OverviewScreen]) -> None:
    pressed = Counter(name for key in keys_of("app", *screen.WHERE) for name in _pressed(key))
    assert [name for name, times in pressed.items() if times > 1] == []


def test_no_two_keys_of_a_dialog_clash() -> None:
    pressed = Counter(name for key in keys_of("modal", "lines") for name in _pressed(key))
    assert [name for name, times in pressed.items() if times > 1] == []


@pytest.mark.parametrize("name", RESERVED)
def test_keys_of_reserved_meaning_have_it(name: str) -> None:
    assert {key.id for key in KEYS if name in _pressed(key)} == RESERVED[name]


def test_keys_of_a_meaning_to_come_are_free() -> None:
    assert [key.id for key in KEYS if set(_pressed(key)) & set(LATER)] == []


def test_no_key_is_one_that_terminals_and_shells_use() -> None:
    taken = {f"ctrl+{letter}" for letter in "dkaszqw"} | {"ctrl+space", "ctrl+at"}
    assert [key.id for key in KEYS if set(_pressed(key)) & taken] == []


def test_nothing_is_destructive() -> None:
    words = ("delete", "remove", "purge", "drop", "receive", "pop", "move to", "send")
    assert [key.id for key in KEYS if any(word in f"{key.action} {key.help}".lower() for word in words)] == []


def test_every_key_says_what_it_does_in_one_line() -> None:
    for key in KEYS:
        assert key.help[0].isupper()
        assert not key.help.endswith(".")
        assert len(key.help) <= 66


def test_bindings_carry_the_id_and_the_help_of_their_key() -> None:
    for where in OWNERS:
        for key, binding in zip(keys_of(where), bindings_of(where), strict=True):
            assert (binding.id, binding.key, binding.tooltip) == (key.id, key.keys, key.help)  # type: ignore[union-attr]


def test_textual_itself_knows_no_other_action_for_our_keys() -> None:
    inherited = {name for binding in App.BINDINGS for name in binding.key.split(",")}  # type: ignore[union-attr]
    ours = {name for key in KEYS for name in _pressed(key)}
    assert inherited & ours == {"ctrl+c"}
