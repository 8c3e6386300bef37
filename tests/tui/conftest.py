"""No test here sees the user's own configuration, and none waits longer than there is work to do."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import redis
from textual.timer import Timer

from tests.tui.changing import Orders
from tests.tui.quick_apps import painted_when_looked_at, painting, parsed_styles
from tests.tui.scripted import ScriptedSource
from tests.tui.scripted_triage import ScriptedTriage

__all__ = ["painted_when_looked_at", "painting", "parsed_styles"]


@pytest.fixture(autouse=True)
def own_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder in place of ~/.config, and a terminal with colours."""
    folder = tmp_path / "config"
    folder.mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
    monkeypatch.delenv("NO_COLOR", raising=False)
    return folder


@pytest.fixture(autouse=True)
def exact_idleness(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pilot guesses from processor time whether the app is idle, which takes 20 ms each time; the event loop knows."""
    monkeypatch.setattr("textual.app.wait_for_idle", _until_nothing_is_ready)
    monkeypatch.setattr("textual.pilot.wait_for_idle", _until_nothing_is_ready)
    # It asks each widget in turn whether it has come to rest.
    monkeypatch.setattr("textual.pilot.Pilot._wait_for_screen", _until_nothing_is_ready)


async def _until_nothing_is_ready(*_: object) -> None:
    ready = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]
    for _round in range(100_000):
        await asyncio.sleep(0)
        if not ready:
            return
    raise AssertionError("the event loop never comes to rest")


@pytest.fixture(autouse=True)
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is animated."""
    monkeypatch.setattr("textual.constants.TEXTUAL_ANIMATIONS", "none")


@pytest.fixture(autouse=True)
def no_room_for_a_pane(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables have the whole terminal; a module that tests the pane overrides this."""
    monkeypatch.setattr("rsmq_tui.tui.widgets.pane.fitting", lambda _: ())


@pytest.fixture(autouse=True)
def quick_eyes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A preview can be confirmed as soon as it is on the screen."""
    monkeypatch.setattr("rsmq_tui.tui.changes.confirm.SEEN_S", 0.001)
    honest_init = Timer.__init__

    def init(self: Timer, *given: Any, repeat: int | None = None, **named: Any) -> None:
        # Textual's timer for one call never makes it if the process had to wait for its processor as it began.
        honest_init(self, *given, repeat=repeat, skip=repeat != 0, **named)

    monkeypatch.setattr(Timer, "__init__", init)


@pytest.fixture
def orders(redis_url: str, client: redis.Redis, tmp_path: Path) -> Orders:
    return Orders(redis_url, client, tmp_path)


@pytest.fixture
def triage() -> ScriptedTriage:
    return ScriptedTriage()


@pytest.fixture
def source() -> ScriptedSource:
    return ScriptedSource()
