"""The dashboard on a real server, the text of its screen, and whether it is safe for a terminal."""

import asyncio
import tempfile
import time
import unicodedata
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path

from textual import events
from textual.drivers.headless_driver import HeadlessDriver
from textual.geometry import Size
from textual.keys import _character_to_key
from textual.pilot import Pilot
from textual.strip import Strip

from rsmq_tui.monitor import RsmqPoller
from rsmq_tui.protocol import RsmqReader
from rsmq_tui.triage.journal.journal import Journal
from rsmq_tui.triage.rsmq.backend import RsmqBackend
from rsmq_tui.triage.service import ChangeService
from rsmq_tui.tui.app import RsmqApp
from rsmq_tui.tui.servers import WatchedServer
from rsmq_tui.tui.widgets.row_table import RowTable
from tests.quick_apps import strips_of, strips_unless_unchanged
from tests.waiting import SECONDS_MAX

Dashboard = Pilot[None]

# Categories that a terminal acts upon, or that a reader cannot see: controls, formats, surrogates, private use,
# unassigned, line and paragraph separators.
_HARMFUL = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_LOOK_S = 0.015


@asynccontextmanager
async def dashboard(
    url: str, *, ns: str = "rsmq", size: tuple[int, int] = (160, 48), timeout_s: float = 20.0, interval_s: float = 0.2
) -> AsyncIterator[Dashboard]:
    """Open the dashboard with a change service, by which no change may be made; an exception in it is raised again."""
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "journal"
        app = RsmqApp(
            [
                WatchedServer(
                    RsmqPoller(RsmqReader(url, ns, timeout_s=timeout_s), interval_s=interval_s),
                    make_triage=partial(ChangeService, RsmqBackend(url, ns), folder),
                )
            ]
        )
        async with app.run_test(size=size, notifications=True, tooltips=True) as pilot:
            yield pilot
            assert_up(pilot)
        assert not (folder / "audit.jsonl").exists()
        if (file := folder / "journal.sqlite").exists():
            with closing(Journal(file)) as journal:
                assert journal.changes() == []


def strips(pilot: Dashboard) -> list[Strip]:
    """Return what the terminal shows, line by line, whatever lies over what."""
    return strips_unless_unchanged(pilot.app)


def text_of(pilot: Dashboard) -> str:
    """Return the words on the screen."""
    return "\n".join("".join(segment.text for segment in strip) for strip in strips(pilot))


async def until(pilot: Dashboard, *words: str | Callable[[], object]) -> str:
    """Wait until the screen holds all the words, or the condition is true; every screen on the way is harmless."""
    ends_s = time.monotonic() + SECONDS_MAX
    look_s = _LOOK_S
    while time.monotonic() < ends_s:
        assert_up(pilot)
        text = assert_harmless(pilot)
        # A screen that was just opened shows nothing at all.
        if text.strip() and all(word in text if isinstance(word, str) else word() for word in words):
            return text
        await pilot.pause(look_s)
        look_s = min(look_s * 1.5, 0.1)
    raise AssertionError(f"{words} did not come on the screen:\n{text_of(pilot)}")


async def until_changed(pilot: Dashboard, read: Callable[[], object], before: object) -> None:
    """Wait until what is read is another value than ``before``."""
    await until(pilot, lambda: read() != before)


async def polls(pilot: Dashboard, number: int = 2) -> str:
    """Wait for that many more snapshots."""
    app = dashboard_app(pilot)
    seen = []

    def is_enough() -> bool:
        if app.dashboard.snapshot not in seen:
            seen.append(app.dashboard.snapshot)
        return len(seen) > number

    return await until(pilot, is_enough)


async def press(pilot: Dashboard, *keys: str) -> str:
    """Press keys, given as characters or by their names, each after the effect of the one before; return the text."""
    app = dashboard_app(pilot)
    for key in keys:
        event = events.Key(_character_to_key(key), key) if len(key) == 1 else events.Key(key, None)
        # The pilot's own way waits until the whole process is idle, which one that polls all the time never is.
        app.post_message(event)
        is_taken = asyncio.Event()
        app.call_later(is_taken.set)
        ends_s = time.monotonic() + SECONDS_MAX
        # A tiny terminal shows nothing that could be waited for.
        while not (is_taken.is_set() and app.type_ahead.is_idle):
            assert time.monotonic() < ends_s, f"{key} has no effect"
            assert_up(pilot)
            await pilot.pause(_LOOK_S)
    return assert_harmless(pilot)


async def resize(pilot: Dashboard, *sizes: tuple[int, int]) -> None:
    """Give the terminal these sizes, columns and lines, one after the other."""
    for size in sizes:
        driver = pilot.app._driver
        assert isinstance(driver, HeadlessDriver)
        driver._size = size
        pilot.app.post_message(events.Resize(Size(*size), Size(*size)))
        await pilot.pause(_LOOK_S)
        assert_up(pilot)
        assert_harmless(pilot, strips_of(pilot.app))


def dashboard_app(pilot: Dashboard) -> RsmqApp:
    """Return the app by its own type."""
    app = pilot.app
    assert isinstance(app, RsmqApp)
    return app


def assert_up(pilot: Dashboard) -> None:
    """Assert that the app runs, and that nothing in it has failed."""
    app = pilot.app
    assert app._exception is None, repr(app._exception)
    assert app.is_running
    assert app.return_code is None


def assert_harmless(pilot: Dashboard, lines: Sequence[Strip] | None = None) -> str:
    """Assert that no character on the screen has an effect; return the text of the screen."""
    lines = strips(pilot) if lines is None else lines
    assert not any(segment.control for strip in lines for segment in strip)
    texts = ["".join(segment.text for segment in strip) for strip in lines]
    assert_only_words("".join(texts))
    return "\n".join(texts)


def assert_only_words(text: str) -> None:
    """No character is a control, a format or anything else that is not there to be read."""
    if text.isprintable():
        return
    harmful = {f"U+{ord(character):04X}" for character in set(text) if unicodedata.category(character) in _HARMFUL}
    assert not harmful, harmful


async def open_queue(pilot: Dashboard, name: str) -> str:
    """Open a queue by Enter on its row."""
    app = dashboard_app(pilot)
    table = app.screen.query_one("#queues", RowTable)
    await until(pilot, lambda: name in table.keys)
    table.place_cursor(list(table.keys).index(name))
    await press(pilot, "enter")
    return await until(pilot, lambda: app.screen.query("#messages") and "Reading …" not in text_of(pilot))


async def open_message(pilot: Dashboard, row: int = 0) -> str:
    """Open a message by Enter on its row."""
    app = dashboard_app(pilot)
    table = app.screen.query_one("#messages", RowTable)
    await until(pilot, lambda: len(table.keys) > row)
    table.place_cursor(row)
    await press(pilot, "enter")
    return await until(pilot, lambda: app.screen.query("#body") and "reading …" not in text_of(pilot))


def is_dimmed(pilot: Dashboard) -> bool:
    """Whether the table in front, if there is one, shows its numbers as old ones."""
    return pilot.app.screen.has_class("-stale") and all(table.opacity < 1 for table in pilot.app.screen.query(RowTable))


def is_fresh(pilot: Dashboard) -> bool:
    """Whether nothing on the screen is shown as old."""
    screen = pilot.app.screen
    return not screen.has_class("-stale") and all(table.opacity == 1 for table in screen.query(RowTable))
