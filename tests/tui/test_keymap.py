"""The registry of keys: unique, complete, and in step with what the screens can do."""

import ast
import re
from collections import Counter

import pytest
from textual.app import App
from textual.dom import DOMNode

from rsmq_tui.docs import page
from rsmq_tui.protocol.kinds import LIST, RSMQ
from rsmq_tui.tui.app import RsmqApp
from rsmq_tui.tui.changes.confirm import ConfirmScreen
from rsmq_tui.tui.changes.forms import FormScreen
from rsmq_tui.tui.changes.journal import JournalScreen
from rsmq_tui.tui.changes.messages import ChangeMessagesScreen
from rsmq_tui.tui.dialogs.demo import ControlsScreen
from rsmq_tui.tui.dialogs.palette import PaletteScreen
from rsmq_tui.tui.dialogs.screens import ColumnsScreen, HelpScreen, NamespaceScreen, SavedFiltersScreen
from rsmq_tui.tui.history.screen import HistoryScreen, RangeScreen
from rsmq_tui.tui.keys import KEYS, NO_CHANGES, Key, Usable, Where, bindings_of, can_be_used, keys_of
from rsmq_tui.tui.overview.audit import AuditScreen
from rsmq_tui.tui.overview.events import EventsScreen
from rsmq_tui.tui.overview.screen import OverviewScreen
from rsmq_tui.tui.overview.search import SearchScreen
from rsmq_tui.tui.overview.server import ServerScreen
from rsmq_tui.tui.queue.life import LifeScreen
from rsmq_tui.tui.queue.message import MessageScreen
from rsmq_tui.tui.queue.screen import QueueScreen
from rsmq_tui.tui.replay.screens import DiffScreen
from rsmq_tui.tui.screen import DashboardScreen
from rsmq_tui.tui.widgets.controls import ChoiceInput, ChoiceList
from rsmq_tui.tui.widgets.row_table import RowTable
from rsmq_tui.tui.widgets.text_view import LineView
from rsmq_tui.tui.widgets.word_filter import FilterInput
from tests.tui.changing import Orders
from tests.tui.driving import press, says, settled, type_at_once, until, wait_for_screen
from tests.tui.reading import app_of

OWNERS: dict[Where, tuple[type[DOMNode], ...]] = {
    "app": (RsmqApp,),
    "table": (RowTable,),
    "lines": (LineView,),
    "overview": (OverviewScreen,),
    "queue": (QueueScreen,),
    "message": (MessageScreen,),
    "audit": (AuditScreen,),
    "events": (EventsScreen,),
    "journal": (JournalScreen,),
    "recorded": (ChangeMessagesScreen,),
    "history": (HistoryScreen,),
    "search": (SearchScreen,),
    "server": (ServerScreen,),
    "modal": (HelpScreen, NamespaceScreen, ConfirmScreen, FormScreen, RangeScreen),
    "dialog": (ConfirmScreen,),
    "confirm": (ConfirmScreen,),
    "form": (FormScreen,),
    "choice": (ChoiceInput,),
    "list": (ChoiceList,),
    "columns": (ColumnsScreen,),
    "filter": (FilterInput,),
    "filters": (SavedFiltersScreen,),
    "palette": (PaletteScreen,),
    "change": (RsmqApp,),
    "replay": (RsmqApp,),
    "diff": (DiffScreen,),
    "controls": (ControlsScreen,),
    "life": (LifeScreen,),
}

REPLAY_ACTIONS = ("play", "step", "verdict", "jump", "speed", "seek", "mark", "diff")
# A retry and a fix are asked for by actions of their own.
ACTIONS = (RSMQ.actions | LIST.actions) - {"retry", "fix"}
_HIDING = {f"{screen}.{action}" for screen in ("queue", "message", "search") for action in ("hide", "extend")}
# What dashboards.md, section 4, gives a meaning that no screen may change: key -> ids that may have it.
RESERVED = {
    "j": {"table.down", "lines.down", "list.down"},
    "down": {
        "table.down",
        "lines.down",
        "list.down",
        "choice.next_suggestion",
        "filter.choose_saved",
        "palette.next_command",
    },
    "k": {"table.up", "lines.up", "list.up"},
    "up": {"table.up", "lines.up", "list.up", "choice.previous_suggestion", "palette.previous_command"},
    "g": {"table.top", "lines.top"},
    "G": {"table.bottom", "lines.bottom"},
    "h": {
        "queue.previous_part",
        "history.previous_table",
        "message.previous_view",
        "dialog.previous_button",
        "server.previous_server",
        "overview.fold",
        "controls.previous",
    },
    "l": {
        *(
            "queue.next_part",
            "history.next_table",
            "message.next_view",
            "dialog.next_button",
            "server.next_server",
            "overview.unfold",
        ),
        "controls.next",
    },
    "left": {
        "queue.previous_part",
        "history.earlier",
        "message.previous_view",
        "dialog.previous_button",
        "server.previous_server",
        "overview.fold",
        "controls.previous",
    },
    "right": {
        *(
            "queue.next_part",
            "history.later",
            "message.next_view",
            "dialog.next_button",
            "server.next_server",
            "overview.unfold",
        ),
        "controls.next",
    },
    "enter": {"table.open", "message.fold_object"},
    "escape": {
        "overview.clear",
        "queue.clear",
        "message.back",
        "audit.back",
        "events.clear",
        "journal.clear",
        "recorded.clear",
        "search.clear",
        "server.back",
        "history.clear",
        "modal.close",
        "diff.back",
        "life.back",
        "change.stop",
    },
    "q": {"app.leave", "modal.close"},
    "ctrl+c": {"app.quit"},
    "?": {"app.help"},
    ":": {"app.palette"},
    "ctrl+p": {"app.palette"},
    "/": {
        "overview.filter",
        "queue.filter",
        "events.filter",
        "history.filter",
        "journal.filter",
        "recorded.filter",
        "search.filter",
        "message.find",
    },
    "[": {"queue.previous_page", "replay.previous_poll"},
    "]": {"queue.next_page", "replay.next_poll"},
    "y": {"queue.copy_body", "message.copy_body", "confirm.copy_command"},
    "I": {"overview.import", "queue.copy_id", "message.copy_id", "search.copy_id", "recorded.copy_id"},
    "Y": {"app.link"},
    "s": {"overview.sort", "queue.sort", "search.sort", "message.save"},
    "S": {"overview.reverse", "queue.reverse", "search.reverse"},
    "p": {"app.pause", "replay.play"},
    "r": {"app.refresh", "columns.reset"},
    "ctrl+r": {"app.refresh"},
    "t": {"app.time"},
    "space": {"queue.mark", "history.mark", "search.mark", "recorded.mark", "columns.show", "message.fold_object"},
    "v": {"queue.range", "recorded.range"},
    "w": {"queue.clients"},
    "*": {"queue.mark_page", "recorded.mark_page", "overview.favourite"},
    "A": {"queue.mark_all", "history.mark_all", "search.mark_all", "recorded.mark_all"},
    "x": {"overview.delete", "queue.delete", "message.delete", "search.delete", "filters.forget"},
    "a": {"overview.send", "queue.send"},
    "e": {"queue.edit", "message.edit"},
    "+": {*_HIDING, "history.closer"},
    "-": {*_HIDING, "history.wider"},
    "0": {f"{screen}.{action}" for screen in ("queue", "message", "search") for action in ("release", "requeue")},
    "R": {"overview.redrive", "overview.requeue_all", "queue.redrive", "message.redrive", "search.redrive"},
    "M": {"queue.move", "message.move", "search.move"},
    "u": {"overview.undo", "queue.undo", "message.undo", "audit.undo", "journal.undo", "search.undo", "recorded.undo"},
    "E": {"overview.export", "queue.export", "search.export"},
}
# Reserved for what comes later: panels, panes.
LATER = ("!", "tab", "shift+tab", *"123456789")


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
            bound = {
                getattr(binding, "id", None) for base in owner.__mro__ for binding in vars(base).get("BINDINGS", ())
            }
            assert {key.id for key in keys_of(where)} <= bound


def test_every_action_exists_where_it_is_looked_for() -> None:
    for key in KEYS:
        name, _, arguments = key.action.partition("(")
        owners: tuple[type[DOMNode], ...] = OWNERS[key.where]
        namespace, _, action = name.rpartition(".")
        if namespace:
            owners, name = (RsmqApp if namespace == "app" else DashboardScreen,), action
        for owner in owners:
            assert callable(getattr(owner, f"action_{name}", None)), f"{owner.__name__} has no action_{name}"
        if name == "replay":
            assert arguments.split("'")[1] in REPLAY_ACTIONS
        else:
            assert arguments in ("", "1)", "-1)") or (name == "change" and arguments.strip("')") in ACTIONS), key


@pytest.mark.parametrize(
    "screen", [OverviewScreen, QueueScreen, MessageScreen, AuditScreen, HistoryScreen, SearchScreen, ServerScreen]
)
def test_no_two_keys_of_a_screen_clash(screen: type[OverviewScreen]) -> None:
    for kind in ("rsmq", "list"):
        usable = Usable(kinds=frozenset({kind}))
        pressed = Counter(name for key in keys_of("app", *screen.WHERE, usable=usable) for name in _pressed(key))
        # In a body, n goes to the next match, as in less and vi.
        overridden = ["n"] if "message" in screen.WHERE else []
        assert [name for name, times in pressed.items() if times > 1] == overridden


@pytest.mark.parametrize("other", ["lines", "dialog", "choice", "columns", "filters", "controls"])
def test_no_two_keys_of_a_dialog_clash(other: Where) -> None:
    pressed = Counter(name for key in keys_of("modal", other) for name in _pressed(key))
    assert [name for name, times in pressed.items() if times > 1] == []


def test_the_keys_that_change_messages_are_the_same_in_their_list_and_on_one_of_them() -> None:
    def changes(where: Where) -> dict[str, tuple[str, str, str]]:
        keys = (key for key in keys_of(where) if key.changes)
        return {key.id.partition(".")[2]: (key.keys, key.action, key.needs) for key in keys}

    of_queues = {"send", "set", "trim", "pop", "purge"}
    listed = changes("queue")
    assert changes("message") == {name: listed[name] for name in listed.keys() - of_queues}


@pytest.mark.parametrize("name", RESERVED)
def test_keys_of_reserved_meaning_have_it(name: str) -> None:
    assert {key.id for key in KEYS if name in _pressed(key)} == RESERVED[name]


def test_keys_of_a_meaning_to_come_are_free() -> None:
    assert [key.id for key in KEYS if set(_pressed(key)) & set(LATER)] == []


def test_no_key_is_one_that_terminals_and_shells_use() -> None:
    taken = {f"ctrl+{letter}" for letter in "dkaszqw"} | {"ctrl+space", "ctrl+at"}
    # Ctrl+S stops the output of a terminal only where the program leaves flow control on.
    assert [key.id for key in KEYS if set(_pressed(key)) & taken] == [
        "confirm.submit",
        "form.submit",
        "filter.save_filter",
    ]


CHANGING = (
    "delete",
    "remove",
    "purge",
    "drop",
    "move",
    "send",
    "hide",
    "extend",
    "create",
    "change",
    "undo",
    "retry",
    "release",
    "import",
)


def test_what_changes_something_is_known_to() -> None:
    # Copying to the clipboard, exporting and marking do not change a queue.
    known = {key.id for key in KEYS if key.changes}
    for key in KEYS:
        words = f"{key.action} {key.id}".lower()
        changing = (
            *CHANGING,
            "redrive",
            "queue.copy_to",
            "edit",
            "audit.fix",
            "requeue",
            "trim",
            "'pop'",
            "queue.ack",
        )
        assert (key.id in known) == any(word in words for word in changing), key


@pytest.mark.parametrize("screen", [OverviewScreen, QueueScreen, MessageScreen])
def test_an_action_either_changes_or_does_not(screen: type[OverviewScreen]) -> None:
    for key in keys_of(*screen.WHERE):
        name, _, argument = key.action.rstrip(")").partition("(")
        parameters = (ast.literal_eval(argument),) if argument else ()
        assert can_be_used(screen.WHERE, name, parameters, NO_CHANGES) != key.changes
        assert can_be_used(screen.WHERE, name, ("something else",), NO_CHANGES) != key.changes


@pytest.mark.parametrize("screen", [OverviewScreen, QueueScreen, MessageScreen])
def test_where_nothing_may_be_changed_there_is_no_such_key(screen: type[OverviewScreen]) -> None:
    left = set(keys_of(*screen.WHERE, "app", "change", usable=NO_CHANGES))
    assert left == {key for key in keys_of(*screen.WHERE, "app", "change") if not key.changes}


def test_every_key_says_what_it_does_in_one_line() -> None:
    for key in KEYS:
        assert key.help[0].isupper()
        assert not key.help.endswith(".")
        assert len(key.help) <= 66


def test_bindings_carry_the_id_and_the_help_of_their_key() -> None:
    for where in OWNERS:
        for key, binding in zip(keys_of(where), bindings_of(where), strict=True):
            assert (binding.id, binding.key, binding.tooltip) == (key.id, key.keys, key.help)


def test_textual_itself_knows_no_other_action_for_our_keys() -> None:
    inherited = {name for binding in App.BINDINGS for name in binding.key.split(",")}
    ours = {name for key in KEYS for name in _pressed(key)}
    assert inherited & ours == {"ctrl+c"}


@pytest.mark.parametrize(
    ("topic", "places"),
    [
        (
            "keys",
            ("app", "change", "table", "lines", "overview", "queue", "message", "audit", "server", "journal"),
        ),
        ("recording", ("replay", "diff")),
    ],
)
def test_the_pages_for_users_name_the_keys_that_there_are(topic: str, places: tuple[Where, ...]) -> None:
    text = page(topic)
    table = re.search(r"^\| key \|.*\n\|.*\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert table is not None
    named = {key for row in table[1].splitlines() for key in re.findall(r"`(\S+?)`", row.split(" | ")[0])}
    keys = list(keys_of(*places))
    assert named <= {shown for key in keys for shown in key.shown.split()}
    # Those that move and end are known from elsewhere.
    words = [key for key in keys if key.where not in ("table", "lines", "diff") and key.id != "app.quit"]
    anywhere = set(re.findall(r"`(\S+?)`", text))
    assert [key.id for key in words if not anywhere & set(key.shown.split())] == []


@pytest.mark.parametrize("keys", ["J", "L", "F", "f", "i", "?", ":", "x", "\r", "\r\r", "\rW", "\rJ", "\rL"])
async def test_escape_pressed_in_a_hurry_does_not_quit(orders: Orders, keys: str) -> None:
    """Over a slow line several presses come at once, all for the screen that the first of them closes."""
    async with orders.dashboard() as pilot:
        await until(pilot, lambda: app_of(pilot).dashboard.snapshot is not None, "the queues are shown")
        for key in keys:
            type_at_once(pilot, key)
            await settled(pilot)
        type_at_once(pilot, "\x1b" * 6)
        await settled(pilot)
        await press(pilot, "escape", "escape", "escape")
        await wait_for_screen(pilot, OverviewScreen)
        assert pilot.app.return_code is None
        await pilot.press("question_mark")
        await says(pilot, "Acknowledge the trouble of the queue")
