"""Avoids useless work in tests: parsing the same rules, painting without a terminal, long waits, freeing memory."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any
from weakref import WeakKeyDictionary

import pytest
from textual._context import visible_screen_stack
from textual.app import App
from textual.css.stylesheet import Stylesheet
from textual.pilot import Pilot
from textual.screen import Screen
from textual.strip import Strip

# Of how many sets of colours the parsed rules are kept, each of some megabytes.
_COLOURS_MAX = 4
# What was painted of the screen in front and has not changed since, while apps paint only if a test looks.
_unchanged: WeakKeyDictionary[App[Any], tuple[Screen[Any], list[Strip]]] | None = None


def strips_of(app: App[Any]) -> list[Strip]:
    """Paint all that is on the screen, dialogs and what lies behind them too, line by line."""
    visible_screen_stack.set(app._background_screens)
    # Textual offers pictures of a screen, but not its text.
    return app.screen._compositor.render_strips(app.size)


def strips_unless_unchanged(app: App[Any]) -> list[Strip]:
    """What ``strips_of`` returns, painted only if one of these screens was updated since it was last asked for."""
    if _unchanged is None or any(map(_is_to_be_updated, (app.screen, *app._background_screens))):
        return strips_of(app)
    screen, strips = _unchanged.get(app, (None, []))
    if screen is not app.screen:
        strips = strips_of(app)
        _unchanged[app] = app.screen, strips
    return strips


def _is_to_be_updated(screen: Screen[Any]) -> bool:
    """Whether Textual updates a screen within a 60th of a second."""
    awaits_layout = screen._layout_required or screen._scroll_required
    return awaits_layout or screen._repaint_required or bool(screen._dirty_widgets)


@pytest.fixture(scope="session", autouse=True)
def parsed_styles() -> Iterator[None]:
    """Share parsed rules between apps with the same colours.

    Each new app would parse the same rules again, twice. They are the same ones that Textual keeps for an app.
    """
    kept: dict[tuple[Any, ...], dict[tuple[Any, ...], Any]] = {}
    rules_of: WeakKeyDictionary[Stylesheet, tuple[dict[str, str], dict[tuple[Any, ...], Any]]] = WeakKeyDictionary()
    parse = Stylesheet._parse_rules

    def parse_once(self: Stylesheet, css: str, read_from: Any, *where: Any, **how: Any) -> Any:
        variables, rules = rules_of.get(self, (None, {}))
        if variables is not self._variables:
            colours = tuple(self._variables.items())
            # The colours that were used last are at the end.
            rules = kept[colours] = kept.pop(colours, {})
            rules_of[self] = self._variables, rules
            if len(kept) > _COLOURS_MAX:
                del kept[next(iter(kept))]
        key = (css, read_from, where, tuple(how.items()))
        if key not in rules:
            rules[key] = parse(self, css, read_from, *where, **how)
        return rules[key]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Stylesheet, "_parse_rules", parse_once)
        yield


@pytest.fixture(autouse=True)
def freed_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """An app frees what closed screens have left every two seconds, for users who have it open for days."""
    monkeypatch.setattr("rsmq_tui.tui.garbage._FREE_AFTER_S", 1_000.0)


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
    unchanged: WeakKeyDictionary[App[Any], tuple[Screen[Any], list[Strip]]] = WeakKeyDictionary()

    def refresh(self: Screen[Any]) -> None:
        app = self.app
        unchanged.pop(app, None)
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
                strips_unless_unchanged(self)

    monkeypatch.setattr("tests.quick_apps._unchanged", unchanged)
    monkeypatch.setattr(Screen, "_compositor_refresh", refresh)
    monkeypatch.setattr(App, "run_test", run)


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
