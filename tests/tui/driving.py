"""How the tests drive the app: open it, wait for something to become true, and read what is on the screen."""

import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import tzinfo
from pathlib import Path
from typing import Any, TypeVar

from textual import events
from textual.keys import _character_to_key
from textual.pilot import Pilot
from textual.screen import Screen

from rsmq_tui.monitor import Connection, QueueState, Snapshot
from rsmq_tui.protocol import Row
from rsmq_tui.tui.app import RsmqApp
from rsmq_tui.tui.history.loading import AnalysisLocation
from rsmq_tui.tui.servers import WatchedServer
from tests.tui.reading import app_of, source_of, text_of
from tests.tui.scripted import START_MS, ScriptedSource, messages_of
from tests.tui.states import poll_of, queue_of
from tests.waiting import SECONDS_MAX

ScreenT = TypeVar("ScreenT", bound=Screen[Any])

# On a busy machine a thread or the server may take long.
_QUICK_ROUNDS = 20
_CONTROLS = {
    "\r": "enter", "\x1b": "escape", "\t": "tab", "\x03": "ctrl+c", "\x11": "ctrl+q", "\x13": "ctrl+s",
}  # fmt: skip


async def until(pilot: Pilot[None], condition: Callable[[], object], what: str) -> None:
    """Let the app work until a condition holds; fail with ``what`` if it does not."""
    ends_s = time.monotonic() + SECONDS_MAX
    turn = 0
    while turn < _QUICK_ROUNDS or time.monotonic() < ends_s:
        if condition():
            return
        await pilot.pause(None if turn < _QUICK_ROUNDS else min(0.01 * turn / _QUICK_ROUNDS, 0.1))
        turn += 1
    raise AssertionError(f"never: {what}; on the screen is\n{text_of(app_of(pilot))}")


async def says(pilot: Pilot[None], words: str) -> None:
    """Wait until words are on the screen, however they are wrapped."""
    await until(pilot, lambda: words in " ".join(text_of(app_of(pilot)).split()), words)


@asynccontextmanager
async def opened(
    source: ScriptedSource,
    queues: Iterable[QueueState] | None = None,
    *,
    size: tuple[int, int] = (132, 36),
    ascii_only: bool = False,
    encoding: str | None = None,
    theme: str | None = None,
    notifications: bool = False,
    triage: Any = None,
    read_only: bool = False,
    choices: Path | None = None,
    zone: tzinfo | None = None,
    keys: Mapping[str, Sequence[str]] | None = None,
    analysis: AnalysisLocation | None = None,
) -> AsyncIterator[Pilot[None]]:
    """Run the app on a source, and on what makes its changes; with ``queues`` until it shows a first poll of these."""
    app = RsmqApp(
        [
            WatchedServer(
                source,
                make_triage=None if triage is None else lambda: triage,
                read_only=read_only or (triage is not None and triage.read_only),
            )
        ],
        clock=source.clock,
        ascii_only=ascii_only,
        encoding=encoding,
        theme=theme,
        choices=choices,
        zone=zone,
        keys=keys,
        analysis=analysis,
    )
    async with app.run_test(size=size, notifications=notifications) as pilot:
        if queues is not None:
            await play(pilot, source, poll_of(source, queues))
        yield pilot


async def play(pilot: Pilot[None], source: ScriptedSource, snapshot: Snapshot) -> None:
    """Give the app a snapshot, and wait until it is shown."""
    source.play(snapshot)
    await shown(pilot, source)


async def play_rows(pilot: Pilot[None], rows: Mapping[str, Row], at_ms: int = START_MS) -> None:
    """Give the app the snapshot of a poll of these rows, and wait until it is shown."""
    source = source_of(pilot)
    await play(pilot, source, source.snapshot_of(dict(rows), at_ms))


async def play_orders(
    pilot: Pilot[None], source: ScriptedSource, bodies: Sequence[bytes], *keys: str, hidden: int = 0
) -> list[str]:
    """Let the one queue, ``orders``, hold messages of these bodies, and press keys; returns the ids."""
    source.messages["orders"] = messages_of(bodies, hidden=hidden)
    await play(pilot, source, poll_of(source, [queue_of("orders", ready=len(bodies) - hidden, hidden=hidden)]))
    await press(pilot, *keys)
    return [row.id for row in source.messages["orders"]]


async def poll_again(pilot: Pilot[None], later_ms: int = 1000) -> None:
    """Give the app the same queues once more, polled a little later."""
    source = source_of(pilot)
    link = Connection(fresh_at_s=source.clock.now_s)
    await play(pilot, source, replace(source.last, at_ms=source.last.at_ms + later_ms, connection=link))


async def shown(pilot: Pilot[None], source: ScriptedSource) -> None:
    """Wait until the last snapshot has arrived and all its effects are complete."""
    await until(pilot, lambda: app_of(pilot).dashboard.snapshot is source.last, "the snapshot arrives")
    await settled(pilot)


async def settled(pilot: Pilot[None]) -> None:
    """Wait until no request is pending and everything is painted."""
    await until(pilot, lambda: not _busy(app_of(pilot)), "the workers end")
    await pilot.pause()


async def wait_for_screen(pilot: Pilot[None], kind: type[ScreenT]) -> ScreenT:
    """Wait until a screen of that class is in front, and return it."""
    await until(pilot, lambda: isinstance(pilot.app.screen, kind), f"a {kind.__name__} is in front")
    screen = pilot.app.screen
    assert isinstance(screen, kind)
    return screen


async def press_for_screen(pilot: Pilot[None], key: str, kind: type[ScreenT]) -> ScreenT:
    """Press a key, and wait for the screen that it opens, whatever else happens."""
    await pilot.press(key)
    return await wait_for_screen(pilot, kind)


async def resized(pilot: Pilot[None], width: int, height: int) -> None:
    """Resize the terminal, and wait for the new layout."""
    await pilot.resize_terminal(width, height)
    # The screen knows its new size at once; its layout follows when Textual's timer says so.
    await until(pilot, lambda: pilot.app.screen._compositor.size == (width, height), "the screen has its new size")
    await settled(pilot)


async def press(pilot: Pilot[None], *keys: str) -> None:
    """Press keys one after the other, each after the effects of the one before."""
    for key in keys:
        await pilot.press(key)
        await settled(pilot)


def type_at_once(pilot: Pilot[None], text: str) -> None:
    """Type ahead, as through a terminal: all keys arrive before the first has an effect."""
    for character in text:
        event = events.Key(_CONTROLS.get(character) or _character_to_key(character), character)
        event.set_sender(pilot.app)
        pilot.app.post_message(event)


def _busy(app: RsmqApp) -> bool:
    is_working = any(worker.is_running for worker in app.workers if worker.group != "poll")
    return is_working or (app.is_running and not app.type_ahead.is_idle)
