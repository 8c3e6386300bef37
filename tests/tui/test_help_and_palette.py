"""Hints, help and palette are made from the registry, and do what their keys do."""

import re
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from textual import events
from textual.pilot import Pilot, _get_mouse_message_arguments
from textual.widget import Widget
from textual.widgets import Input, Markdown

from rsmq_tui.docs import topics
from rsmq_tui.monitor import Verdict
from rsmq_tui.triage.actions import Delete
from rsmq_tui.tui.app import RsmqApp
from rsmq_tui.tui.dialogs import palette
from rsmq_tui.tui.dialogs.palette import PaletteScreen, commands_of, found, rank
from rsmq_tui.tui.dialogs.screens import HelpScreen, PageScreen
from rsmq_tui.tui.keys import KEYS, Keymap, Usable, Where, keys_of
from rsmq_tui.tui.overview.screen import OverviewScreen
from rsmq_tui.tui.queue.message import MessageScreen
from rsmq_tui.tui.queue.screen import QueueScreen
from rsmq_tui.tui.theme import MEANINGS, load_themes
from rsmq_tui.tui.widgets.controls import ScrolledText
from rsmq_tui.tui.widgets.lines import KeyHints, TextLine
from rsmq_tui.tui.widgets.row_table import RowTable
from rsmq_tui.tui.widgets.text_view import LineView
from tests.tui.changing import Orders, on_queue
from tests.tui.driving import (
    opened,
    play,
    play_orders,
    poll_again,
    press,
    resized,
    says,
    settled,
    until,
    wait_for_screen,
)
from tests.tui.reading import app_of, lines_of, text_of
from tests.tui.scripted import ScriptedSource
from tests.tui.scripted_triage import ScriptedRun, ScriptedTriage
from tests.tui.states import one_of_each, poll_of, queue_of

pytestmark = pytest.mark.slow

RSMQ = Usable(kinds=frozenset({"rsmq"}), demo=False)
# Keys that lead from the overview to each screen, and the places whose keys work there.
PLACES: dict[str, tuple[tuple[str, ...], tuple[Where, ...]]] = {
    "overview": ((), ("overview", "table", "app")),
    "queue": (("enter",), ("queue", "table", "app")),
    "message": (("enter", "enter"), ("message", "lines", "app")),
}


with_every_place = pytest.mark.parametrize(("place", "changes"), list(product(PLACES, (True, False))))


async def _go(pilot: Pilot[None], source: ScriptedSource, keys: tuple[str, ...]) -> None:
    await play_orders(pilot, source, [b'{"a": 1}'], *keys)


async def _whole_help(pilot: Pilot[None]) -> str:
    view = pilot.app.screen.query_one(LineView)
    seen = lines_of(view)
    while True:
        await press(pilot, "pagedown")
        if lines_of(view) == seen[-view.size.height :]:
            return "\n".join(seen)
        seen += lines_of(view)


@with_every_place
async def test_hints_and_help_are_those_of_the_registry(
    source: ScriptedSource, triage: ScriptedTriage, place: str, changes: bool
) -> None:
    keys, where = PLACES[place]
    async with opened(source, size=(300, 40), triage=triage, read_only=not changes) as pilot:
        await _go(pilot, source, keys)
        line = lines_of(pilot.app.screen.query_one(KeyHints))[0]
        # There is no analysis, the body is not encoded, and before the first change there is nothing to undo.
        hidden = ("app.history", "message.decoded")
        shown = [key for key in keys_of(*where, usable=replace(RSMQ, changes=changes)) if key.id not in hidden]
        words = [f"{Keymap().hint_keys(key)} {key.hint}" for key in shown if key.hint and key.action != "undo"]
        assert sorted(part for part in line.strip().split("   ") if part) == sorted(words)
        await press(pilot, "question_mark")
        assert isinstance(pilot.app.screen, HelpScreen)
        listed = [line.split() for line in (await _whole_help(pilot)).splitlines()]
        for key in keys_of(*where, "change", usable=RSMQ):
            is_listed = [*key.shown.split(), *key.help.split()] in listed
            assert is_listed == (changes or not key.changes), key


async def test_help_explains_every_verdict_in_words_and_names_every_page(source: ScriptedSource) -> None:
    async with opened(source, size=(120, 60), keys={"palette": ["f8"]}) as pilot:
        await _go(pilot, source, ())
        await press(pilot, "f1")
        text = await _whole_help(pilot)
        for verdict in Verdict:
            assert MEANINGS[verdict] in text
            assert verdict.value in text
        assert "Pages, which f8 opens" in text
        words = " ".join(text.split())
        assert [page for page in topics().items() if " ".join(page) not in words] == []
        await press(pilot, "q")
        assert isinstance(pilot.app.screen, OverviewScreen)


async def test_help_scrolls_and_closes_by_escape(source: ScriptedSource) -> None:
    async with opened(source, size=(80, 16)) as pilot:
        await _go(pilot, source, ())
        await press(pilot, "question_mark")
        view = pilot.app.screen.query_one(LineView)
        first = lines_of(view)
        await press(pilot, "j")
        assert lines_of(view)[0] == first[1]
        await press(pilot, "pagedown", "pageup", "g")
        assert lines_of(view) == first
        await press(pilot, "escape")
        assert isinstance(pilot.app.screen, OverviewScreen)


async def test_hints_that_do_not_fit_are_left_out_whole(source: ScriptedSource) -> None:
    async with opened(source, size=(40, 10)) as pilot:
        await _go(pilot, source, ())
        line = lines_of(pilot.app.screen.query_one(KeyHints))[0]
        known = {f"{Keymap().hint_keys(key)} {key.hint}" for key in KEYS}
        assert set(line.strip().split("  ")) <= known
        assert "enter open" in line
        assert line.strip().endswith("? help")


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("overview", "enter open  / filter  s sort  a send"),
        ("queue", "enter open  space mark  A all  / filter  x"),
    ],
)
async def test_at_eighty_columns_the_most_important_hints_are_there(
    source: ScriptedSource, triage: ScriptedTriage, place: str, words: str
) -> None:
    async with opened(source, size=(80, 24), triage=triage) as pilot:
        await _go(pilot, source, PLACES[place][0])
        line = lines_of(pilot.app.screen.query_one(KeyHints))[0]
        assert words in line
        triage.runs.append(ScriptedRun(triage, await triage.preview(Delete(queue="orders"))))
        async for _ in triage.runs[0]:
            pass
        await poll_again(pilot)
        hints = pilot.app.screen.query_one(KeyHints)
        await until(pilot, lambda: "u undo delete 1,204" in lines_of(hints)[0], "what can be undone")
        line = lines_of(hints)[0]
        assert line.strip().endswith("? help")


@with_every_place
async def test_palette_offers_every_action_of_the_place(
    source: ScriptedSource, triage: ScriptedTriage, place: str, changes: bool
) -> None:
    keys, where = PLACES[place]
    async with opened(source, triage=triage, read_only=not changes) as pilot:
        await _go(pilot, source, keys)
        # It reads the themes that nobody needed before.
        await pilot.press("ctrl+p")
        await until(pilot, lambda: isinstance(pilot.app.screen, PaletteScreen), "the palette opens")
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(pilot.app.screen, PaletteScreen), "the palette closes")
        offered = {command.name for command in commands_of(pilot.app.screen)}
        # Moving about in rows and lines is not something that one looks up a command for.
        wanted = {
            key.help
            for key in keys_of(*where, usable=replace(RSMQ, changes=changes))
            if key.where not in ("table", "lines")
        }
        wanted -= {"Find a command or a queue by name"}
        wanted |= {f"Help: {topic}" for topic in topics()}
        wanted |= {f"Theme: {name}" for name in load_themes().themes}
        wanted.add("Save a picture of the screen as SVG")
        assert offered == wanted


async def _choose(pilot: Pilot[None], words: str, *keys: str) -> None:
    """Open the palette, type words, press keys, and take the command under the cursor."""
    app = app_of(pilot)
    await pilot.press("ctrl+p")
    await until(pilot, lambda: isinstance(app.screen, PaletteScreen), "the palette opens")
    app.screen.query_one(Input).value = words
    await settled(pilot)
    await pilot.press(*keys, "enter")
    await until(pilot, lambda: not isinstance(app.screen, PaletteScreen), "the palette closes")
    await settled(pilot)


async def test_palette_goes_to_a_queue_by_name(source: ScriptedSource) -> None:
    async with opened(source, one_of_each()) as pilot:
        await _choose(pilot, "queue invoices")
        screen = pilot.app.screen
        assert isinstance(screen, QueueScreen)
        assert screen.queue == "invoices"
        # From one queue to the next: back then leads to the overview, not through all queues seen.
        await _choose(pilot, "queue orders")
        assert isinstance(pilot.app.screen, QueueScreen)
        assert pilot.app.screen.queue == "orders"
        await press(pilot, "escape")
        assert isinstance(pilot.app.screen, OverviewScreen)


@pytest.mark.parametrize(
    ("typed", "name", "how"),
    [
        ("orders", "orders", 0),
        ("ord", "orders", 1),
        ("eu", "orders:eu", 2),
        ("der", "orders", 3),
        ("queue eu", "orders:eu", 4),
        ("oeu", "orders:eu", 5),
        ("sdro", "orders:eu", None),
        ("aaaaaaaaaaaaaaaaaaaaaaaaaaaaab", "a" * 2_000, None),
        ("", "orders", 1),
    ],
)
def test_what_is_nearest_to_what_was_typed_comes_first(typed: str, name: str, how: int | None) -> None:
    assert rank(typed, name, "queue") == how


async def test_palette_has_a_line_for_each_command_and_those_used_last_first(tmp_path: Path) -> None:
    source, hostile = ScriptedSource(), "or\x1b[2Jders[bold]\udc80"
    many = [queue_of(f"shard-{number:04d}") for number in range(3_000)]
    async with opened(source, choices=tmp_path / "dashboard.json") as pilot:
        app = app_of(pilot)
        await play(pilot, source, poll_of(source, [*many, queue_of("orders"), queue_of(hostile)]))
        await press(pilot, "colon")
        lines = lines_of(pilot.app.screen.query_one(RowTable))
        assert re.search(r"Sort by the next column +s$", next(line for line in lines if "Sort by" in line).rstrip())
        assert not any("shard-" in line for line in lines)
        await press(pilot, *"orders")
        names = [command.name for command in pilot.app.screen.query_one(RowTable).rows]
        assert names[0] == "orders"
        assert hostile in names
        assert "\x1b" not in text_of(app)
        await press(pilot, "enter")
        assert isinstance(app.screen, QueueScreen)
        await press(pilot, "escape")
        await _choose(pilot, "shard-29", "down", "down")
        assert isinstance(app.screen, QueueScreen)
        assert app.screen.queue == "shard-2902"
        await press(pilot, "escape")
        await _choose(pilot, "theme: rsmq-light")
        assert app.theme == "rsmq-light"
    # The next start has the theme, and the commands that were used.
    async with opened(source := ScriptedSource(), choices=tmp_path / "dashboard.json") as pilot:
        assert app_of(pilot).theme == "rsmq-light"
        await press(pilot, "colon")
        assert pilot.app.screen.query_one(RowTable).rows[0].name == "Theme: rsmq-light"
        await press(pilot, "escape")
        await play(pilot, source, poll_of(source, [*many, queue_of("orders")]))
        await press(pilot, "colon")
        rows = pilot.app.screen.query_one(RowTable).rows
        assert [command.name for command in rows][:3] == ["Theme: rsmq-light", "shard-2902", "orders"]
        await press(pilot, *"nothing like it", "enter")
        assert "Nothing matches." in text_of(app_of(pilot))


async def test_palette_runs_an_action_of_the_app_and_one_of_the_screen(source: ScriptedSource) -> None:
    async with opened(source, one_of_each()) as pilot:
        await _choose(pilot, "Pause or resume polling")
        assert source.paused
        await _choose(pilot, "Sort by the next column")
        assert "VERDICT↑" in text_of(app_of(pilot))


async def test_palette_opens_a_page_that_scrolls_with_the_keys_of_lines(source: ScriptedSource) -> None:
    async with opened(source) as pilot:
        await _choose(pilot, "Help: lists")
        app = app_of(pilot)
        assert isinstance(app.screen, PageScreen)
        view = app.screen.query_one(ScrolledText)
        await until(pilot, lambda: view.max_scroll_y > 0, "the page is laid out")
        assert "Queues on Redis Lists" in text_of(app)
        assert "Help: lists" in text_of(app)
        await press(pilot, "j")
        assert view.scroll_offset.y == 1
        await press(pilot, "pagedown")
        assert view.scroll_offset.y == view.size.height
        await press(pilot, "G")
        assert view.scroll_offset.y == view.max_scroll_y
        await press(pilot, "g")
        assert view.scroll_offset.y == 0
        await press(pilot, "q")
        assert isinstance(app.screen, OverviewScreen)


async def test_a_link_in_a_page_leads_to_the_other_page_and_one_outside_is_copied(source: ScriptedSource) -> None:
    async with opened(source, size=(100, 30), notifications=True) as pilot:
        app = app_of(pilot)
        app.dashboard.navigation.open("page", "recording")
        await until(pilot, lambda: isinstance(app.screen, PageScreen) and app.screen.is_mounted, "the page opens")
        view, text = app.screen.query_one(ScrolledText), app.screen.query_one(Markdown)
        view.action_scroll_to_end(1)
        text.post_message(Markdown.LinkClicked(text, "rsmqctl.md"))
        await until(pilot, lambda: "Help: rsmqctl" in text_of(app), "the other page is there")
        await until(pilot, lambda: "drop-in for keithsharp" in text_of(app), "it begins at its first line")
        text.post_message(Markdown.LinkClicked(text, "https://github.com/keithsharp/rsmqctl"))
        await until(pilot, lambda: app.clipboard == "https://github.com/keithsharp/rsmqctl", "the link is copied")


async def test_every_page_can_be_shown(source: ScriptedSource) -> None:
    async with opened(source, size=(40, 10), ascii_only=True) as pilot:
        app = app_of(pilot)
        for topic, sentence in topics().items():
            app.dashboard.navigation.open("page", topic)
            await until(pilot, lambda: isinstance(app.screen, PageScreen) and app.screen.is_mounted, "the page opens")
            await says(pilot, sentence.split()[0])
            await press(pilot, "escape")
            assert isinstance(app.screen, OverviewScreen)


async def test_enter_twice_chooses_once(source: ScriptedSource) -> None:
    async with opened(source) as pilot:
        app = app_of(pilot)
        await _go(pilot, source, ("colon",))
        await until(pilot, lambda: isinstance(app.screen, PaletteScreen) and app.screen.is_mounted, "the palette opens")
        entry = app.screen.query_one(Input)
        await press(pilot, *"help: sql")
        for _ in range(2):
            entry.post_message(Input.Submitted(entry, entry.value))
        await until(pilot, lambda: isinstance(app.screen, PageScreen), "a page opens")
        await settled(pilot)
        assert [type(screen) for screen in app.screen_stack] == [OverviewScreen, PageScreen]


async def test_going_back_step_by_step_and_out(source: ScriptedSource) -> None:
    async with opened(source) as pilot:
        await _go(pilot, source, ("enter", "enter"))
        app = app_of(pilot)
        assert isinstance(app.screen, MessageScreen)
        await press(pilot, "q")
        assert isinstance(app.screen, QueueScreen)
        await press(pilot, "escape")
        assert isinstance(app.screen, OverviewScreen)
        await pilot.press("q")
        await until(pilot, lambda: not app.is_running, "q quits from the overview")
    assert source.closed


@pytest.mark.parametrize("keys", [(), ("enter",), ("slash",), ("question_mark",), ("n",), ("colon",)])
async def test_ctrl_c_quits_from_anywhere(source: ScriptedSource, keys: tuple[str, ...]) -> None:
    async with opened(source) as pilot:
        await _go(pilot, source, ())
        for key in keys:
            await pilot.press(key)
        app: RsmqApp = app_of(pilot)
        await pilot.press("ctrl+c")
        await until(pilot, lambda: not app.is_running, "ctrl+c quits")
    assert source.closed


@pytest.mark.parametrize("size", [(160, 48), (110, 32), (100, 30), (80, 24), (60, 20), (40, 10)], ids=str)
async def test_no_word_of_the_help_is_cut_off(source: ScriptedSource, size: tuple[int, int]) -> None:
    async with opened(source, size=size) as pilot:
        await _go(pilot, source, ("enter",))
        await press(pilot, "question_mark")
        view = pilot.app.screen.query_one(LineView)
        texts = _lines_of(view)
        assert all(len(text) <= view.size.width for text in texts)
        shown = " ".join(" ".join(texts).split())
        for key in keys_of("queue", "table", "app", usable=replace(RSMQ, changes=False)):
            assert f"{' '.join(key.shown.split())} {key.help}" in shown
        assert all(meaning in shown for meaning in MEANINGS.values())
        await resized(pilot, 132, 36)
        assert max(map(len, _lines_of(view))) > 60


def _lines_of(view: LineView) -> list[str]:
    assert view._content is not None
    return ["".join(text for text, _ in view._content[number]) for number in range(len(view._content))]


async def test_hints_and_the_arrow_back_can_be_clicked(orders: Orders) -> None:
    async with orders.dashboard(size=(180, 36)) as pilot:
        hints = pilot.app.screen.query_one(KeyHints)
        await until(pilot, lambda: "help" in lines_of(hints)[0], "the hints are shown")
        await on_queue(pilot, "orders")
        await pilot.click(KeyHints, offset=(lines_of(hints)[0].index("open"), 0))
        screen = await wait_for_screen(pilot, QueueScreen)
        hints = screen.query_one(KeyHints)
        await until(pilot, lambda: "h l tabs" in lines_of(hints)[0], "the hints are shown")
        await pilot.click(KeyHints, offset=(lines_of(hints)[0].index("h l tabs") + 2, 0))
        await says(pilot, "[ ready")
        await pilot.click(screen.query(TextLine).first(), offset=(1, 0))
        await wait_for_screen(pilot, OverviewScreen)


def _click_twice(pilot: Pilot[None], widget: Widget, x: int) -> None:
    for mouse in (events.MouseDown, events.MouseUp) * 2:
        event = mouse(**_get_mouse_message_arguments(widget, (x, 0), button=1))
        event.set_sender(pilot.app)
        pilot.app.post_message(event)


async def test_a_hint_clicked_twice_at_once_goes_back_once(orders: Orders) -> None:
    async with orders.dashboard() as pilot:
        await press(pilot, "enter", "J")
        hints = pilot.app.screen.query_one(KeyHints)
        await until(pilot, lambda: "esc back" in lines_of(hints)[0], "the hints are shown")
        _click_twice(pilot, hints, lines_of(hints)[0].index("esc back"))
        await wait_for_screen(pilot, QueueScreen)
        await settled(pilot)
        assert [type(screen) for screen in pilot.app.screen_stack] == [OverviewScreen, QueueScreen]


@pytest.mark.parametrize("keys", ["F", "i", "J", "enter", "enter enter"])
async def test_the_arrow_back_clicked_twice_at_once_does_not_quit(orders: Orders, keys: str) -> None:
    async with orders.dashboard() as pilot:
        await press(pilot, *keys.split())
        screen = pilot.app.screen
        _click_twice(pilot, screen.query(TextLine).first(), 1)
        await until(pilot, lambda: pilot.app.screen is not screen, "it goes back")
        await settled(pilot)
        assert pilot.app.return_code is None
        await press(pilot, "question_mark")
        await says(pilot, "Help")


@pytest.mark.parametrize(
    ("typed", "key"),
    [
        ("mute", "overview.known"),
        ("acknowledge", "overview.known"),
        ("ignore", "overview.known"),
        ("expected", "page.alerts"),
        ("pin", "overview.favourite"),
        ("favorite", "overview.favourite"),
        ("chart window", "app.window"),
        ("timezone", "app.time"),
        ("utc", "app.time"),
        ("hide columns", "overview.columns"),
        ("prefix", "overview.group"),
        ("redo", "overview.journal"),
        ("revert", "overview.undo"),
    ],
)
async def test_the_palette_finds_commands_by_other_words(
    source: ScriptedSource, triage: ScriptedTriage, typed: str, key: str
) -> None:
    async with opened(source, triage=triage) as pilot:
        await _go(pilot, source, ())
        commands = found(commands_of(pilot.app.screen), typed, ())
        assert key in [command.id for command in commands][:3]


def test_synonyms_are_those_of_keys() -> None:
    assert palette._SYNONYMS.keys() <= {key.id.partition(".")[2] for key in KEYS}
    # The same word means the same on other screens.
    assert {"fold_object", "requeue_all", "mark_time", "time_range"} <= palette._SYNONYMS.keys()
