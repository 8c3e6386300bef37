"""Avoids useless work of Textual in tests: parsing the same rules for each app, and painting without a terminal."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from textual._context import visible_screen_stack
from textual.app import App
from textual.css.stylesheet import Stylesheet
from textual.pilot import Pilot
from textual.screen import Screen
from textual.strip import Strip


def strips_of(app: App[Any]) -> list[Strip]:
    """Paint all that is on the screen, dialogs and what lies behind them too, line by line."""
    visible_screen_stack.set(app._background_screens)
    # Textual offers pictures of a screen, but not its text.
    return app.screen._compositor.render_strips(app.size)


@pytest.fixture(scope="session", autouse=True)
def parsed_styles() -> Iterator[None]:
    """Share parsed rules between apps with the same colours.

    Each new app would parse the same rules again, twice. They are the same ones that Textual keeps for an app.
    """
    kept: dict[tuple[Any, ...], Any] = {}
    parse = Stylesheet._parse_rules

    def parse_once(self: Stylesheet, css: str, read_from: Any, *where: Any, **how: Any) -> Any:
        key = (css, read_from, where, tuple(how.items()), tuple(self._variables.items()))
        if key not in kept:
            kept[key] = parse(self, css, read_from, *where, **how)
        return kept[key]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Stylesheet, "_parse_rules", parse_once)
        yield


@pytest.fixture
def painting() -> None:
    """For tests of what is painted at which update: each is, as for a terminal."""


@pytest.fixture(autouse=True)
def painted_when_looked_at(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paint the screen when a test looks at it, and at its end.

    A headless app paints each update and drops it, which is almost half of what a test of a screen takes.
    """
    if "painting" in request.fixturenames:
        return
    honest_refresh = Screen._compositor_refresh
    honest_run = App.run_test

    def refresh(self: Screen[Any]) -> None:
        app = self.app
        if not app.is_headless or self is not app.screen:
            honest_refresh(self)
            return
        self._compositor._dirty_regions.clear()
        self._dirty_widgets.clear()
        app.post_display_hook()
        app._update_mouse_over(self)

    @asynccontextmanager
    async def run(self: App[Any], **options: Any) -> AsyncIterator[Pilot[Any]]:
        async with honest_run(self, **options) as pilot:
            yield pilot
            if self.is_running:
                strips_of(self)

    monkeypatch.setattr(Screen, "_compositor_refresh", refresh)
    monkeypatch.setattr(App, "run_test", run)
