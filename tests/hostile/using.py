"""All actions of a queue's screen, each done and reverted: tabs, filter, marks, groups, changes."""

from collections.abc import Callable, Sequence
from typing import cast

from textual import events
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from rsmq_tui.protocol.kinds import RSMQ
from rsmq_tui.tui.changes.confirm import ConfirmScreen
from rsmq_tui.tui.changes.forms import BodyArea, FormScreen
from rsmq_tui.tui.queue.groups import GroupScreen
from rsmq_tui.tui.queue.screen import QueueScreen
from rsmq_tui.tui.widgets.message_filter import FilterProblem
from tests.hostile.payloads import ESCAPES, MARKUP, UNREADABLE
from tests.hostile.watching import Dashboard, press, text_of, until, until_changed
from tests.tui.reading import notes_of

# The keys of all changes, and what is typed into the form that some of them open.
CHANGES = {
    "x": "", "0": "", "P": "", "u": "", "e": "", "E": "",
    "+": "7", "=": "7", "R": "nowhere", "M": "nowhere", "C": "nowhere", "a": "[/foo]",
}  # fmt: skip
FILTERS = (ESCAPES, MARKUP, UNREADABLE, b"!json.a=1 rc>=0", b'body:"[/foo]', b"body~(a+)+", b"state:[/foo]", b"rc>x")
_ESCAPES_MAX = 6


async def use_everything(pilot: Dashboard) -> None:
    """Do everything on the open queue, and restore its state."""
    await walk_tabs(pilot)
    await use_filters(pilot)
    await use_marks(pilot)
    await use_groups(pilot)
    await look_at_changes(pilot)


async def walk_tabs(pilot: Dashboard) -> None:
    """Show each tab, then the first one again."""
    for tab in (*RSMQ.tabs[1:], RSMQ.tabs[0]):
        await press(pilot, "l")
        await until(pilot, f"[ {tab.name} ", _has_found(pilot))
        await press(pilot, "G", "g")


async def choose_tab(pilot: Dashboard, name: str = RSMQ.tabs[0].name) -> None:
    """Go to a tab, from wherever a server that refused has left the screen."""
    messages = queue_screen(pilot).messages
    while messages.tabs.chosen.name != name:
        before = messages.tabs.chosen
        await press(pilot, "l")
        await until_changed(pilot, lambda: messages.tabs.chosen, before)
    await until(pilot, f"[ {name} ", _has_found(pilot))


async def use_filters(pilot: Dashboard, filters: Sequence[bytes] = FILTERS) -> None:
    """Paste filters; those that are none are pointed at."""
    line = queue_screen(pilot).messages.filter_line
    entry, problem = line.query_one(Input), line.query_one(FilterProblem)
    for pasted in filters:
        await press(pilot, "/")
        entry.value = ""
        pilot.app.post_message(events.Paste(pasted.decode("utf-8", "replace")))
        await until(pilot, lambda: entry.value)
        await press(pilot, "enter")
        await until(pilot, lambda: problem.display or not line.is_open)
        if not line.is_open:
            await until(pilot, " match", _has_found(pilot))
            await press(pilot, "l", "r", "G", "h")
            await until(pilot, _has_found(pilot))
        await take_back(pilot)


async def use_marks(pilot: Dashboard) -> None:
    """Mark in every way, and take the marks off."""
    await press(pilot, "g", "space", "space", "v", "j", "j", "v", "*", "*", "v", "G", "A", "r")
    await until(pilot, "   all ")
    await take_back(pilot)


async def use_groups(pilot: Dashboard, *paths: str) -> None:
    """Group by each of these, and filter by the first group that there is."""
    for path in paths or ("json.type", "shape", "[/foo]", ""):
        await press(pilot, "b")
        await until(pilot, lambda: isinstance(pilot.app.screen, GroupScreen) and pilot.app.screen.is_mounted)
        group = cast("GroupScreen", pilot.app.screen)
        group.query_one(Input).value = path
        await press(pilot, "enter")
        await until(pilot, lambda: "enter counts" not in text_of(pilot) and " · scanned " not in text_of(pilot))
        if group.table.keys:
            await press(pilot, "enter")
        await take_back(pilot)


async def look_at_changes(pilot: Dashboard, keys: str = "".join(CHANGES)) -> None:
    """Ask for changes, read their previews, and make none."""
    queue = queue_screen(pilot)
    for key in keys:
        pilot.app.clear_notifications()
        await press(pilot, key)
        if key == "e" and queue.messages.table.cursor_key is None:
            continue
        await until(pilot, lambda: _is_mounted(pilot) or notes_of(pilot.app))
        if isinstance(pilot.app.screen, FormScreen):
            await _fill_form(pilot, CHANGES[key])
        if isinstance(pilot.app.screen, ConfirmScreen):
            await until(pilot, lambda: _is_mounted(pilot) and "scanning …" not in text_of(pilot))
            if pilot.app.screen.query_one("#typed").display:
                await press(pilot, "[", "/", "enter")
        await take_back(pilot)
    assert pilot.app.screen is queue


async def take_back(pilot: Dashboard) -> None:
    """Close open dialogs, and clear filter and marks, with as many escapes as needed."""
    for _ in range(_ESCAPES_MAX):
        if _is_as_it_was(pilot):
            return
        # One too many would leave the queue.
        before = _state(pilot)
        await press(pilot, "escape")
        await until_changed(pilot, lambda: _state(pilot), before)
    assert _is_as_it_was(pilot), text_of(pilot)


def queue_screen(pilot: Dashboard) -> QueueScreen:
    """Return the screen of the queue that is open, whatever lies over it."""
    return next(screen for screen in pilot.app.screen_stack if isinstance(screen, QueueScreen))


async def _fill_form(pilot: Dashboard, text: str) -> None:
    form = pilot.app.screen
    await press(pilot, *text)
    if text and form.query(BodyArea):
        pilot.app.post_message(events.Paste(ESCAPES.decode("utf-8", "replace")))
        await until(pilot, lambda: "PWNED-title" in form.query_one(BodyArea).text)
    problem = form.query_one("#problem", Static)
    if form.query("#file") and not form.query(BodyArea):
        # What it would write is a file.
        return
    yes = form.query_one("#yes")
    yes.focus()
    await until(pilot, lambda: yes.has_focus)
    await press(pilot, "enter")
    await until(pilot, lambda: pilot.app.screen is not form or str(problem.visual).strip())


def _has_found(pilot: Dashboard) -> Callable[[], bool]:
    return lambda: "esc stops" not in text_of(pilot) and "Reading …" not in text_of(pilot)


def _is_mounted(pilot: Dashboard) -> bool:
    return isinstance(pilot.app.screen, ModalScreen) and pilot.app.screen.is_mounted


def _state(pilot: Dashboard) -> tuple[object, ...]:
    """Return what an escape changes something of."""
    screen, messages = pilot.app.screen, queue_screen(pilot).messages
    marks, hits = messages.marks, messages._found
    problems = [str(problem.visual) for problem in screen.query("#problem").results(Static)]
    return (
        screen, messages.typed, messages.filter_line.is_open, len(marks), marks.is_all, marks.has_range,
        hits is not None and hits.is_running and not hits.error, problems,
    )  # fmt: skip


def _is_as_it_was(pilot: Dashboard) -> bool:
    screen = pilot.app.screen
    if not isinstance(screen, QueueScreen):
        return False
    marks, typed = screen.messages.marks, screen.messages.typed
    is_plain = not (len(marks) or marks.is_all or marks.has_range)
    return is_plain and typed.is_empty and not screen.messages.filter_line.is_open
