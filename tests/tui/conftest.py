"""No test here sees the user's own configuration, and none waits longer than there is work to do."""

from pathlib import Path
from typing import Any

import pytest
import redis
from textual.timer import Timer

from tests.quick_apps import exact_idleness, freed_at_the_end, painted_when_looked_at, painting, parsed_styles
from tests.tui.changing import Orders
from tests.tui.scripted import ScriptedSource
from tests.tui.scripted_triage import ScriptedTriage

__all__ = ["exact_idleness", "freed_at_the_end", "painted_when_looked_at", "painting", "parsed_styles"]


@pytest.fixture(autouse=True)
def own_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder in place of ~/.config, and a terminal with colours."""
    folder = tmp_path / "config"
    folder.mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
    monkeypatch.delenv("NO_COLOR", raising=False)
    return folder


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
