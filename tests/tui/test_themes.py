"""The themes that come along: complete, and readable."""

import tomllib
from pathlib import Path

import pytest
from textual.color import Color
from textual.theme import BUILTIN_THEMES

from rsmq_tui.charts import Palette
from rsmq_tui.tui.theme import TOKENS, load_themes, read_theme, shipped_themes, user_themes
from rsmq_tui.tui.widgets.charts import ChartPanel
from tests.tui.driving import app_of, opened, play, press
from tests.tui.scripted import ScriptedSource
from tests.tui.states import one_of_each, poll_of

pytestmark = pytest.mark.slow

SHIPPED = sorted(shipped_themes().glob("*.toml"))
# What is drawn as text on the background; the others are lines and grounds.
GROUNDS = ("rule", "cursor")
TEXTS = [token for token in TOKENS if token not in (*GROUNDS, "spark")]


def contrast(one: Color, other: Color) -> float:
    """The ratio of WCAG 2, from 1 to 21."""

    def luminance(color: Color) -> float:
        parts = (value / 255 for value in color.rgb)
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def test_contrast_is_that_of_wcag() -> None:
    assert contrast(Color.parse("#fff"), Color.parse("#000")) == pytest.approx(21)
    assert contrast(Color.parse("#777"), Color.parse("#fff")) == pytest.approx(4.48, abs=0.01)


def test_there_are_a_dark_a_light_and_an_ansi_theme() -> None:
    themes = load_themes().themes
    assert list(themes) == ["rsmq-ansi", "rsmq-dark", "rsmq-light"]
    assert [(theme.dark, theme.ansi) for theme in themes.values()] == [(True, True), (True, False), (False, False)]
    assert load_themes().problems == ()


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_shipped_theme_colours_every_token_and_is_named_like_its_file(path: Path) -> None:
    values = tomllib.loads(path.read_text())
    assert values["name"] == path.stem
    assert values["variables"].keys() == TOKENS.keys()
    theme = read_theme(path)
    assert TOKENS.keys() <= theme.variables.keys()
    assert theme.background is not None
    assert theme.foreground is not None


def test_the_defaults_of_tokens_are_those_of_the_dark_theme() -> None:
    assert dict(load_themes().themes["rsmq-dark"].variables) == TOKENS


@pytest.mark.parametrize("name", ["rsmq-dark", "rsmq-light"])
@pytest.mark.parametrize("token", [*TEXTS, "foreground", "primary", "warning", "error", "success"])
def test_text_can_be_read_on_every_ground(name: str, token: str) -> None:
    theme = load_themes().themes[name]
    text = Color.parse(theme.variables.get(token) or getattr(theme, token))
    for ground in ("background", "surface", "panel"):
        assert contrast(text, Color.parse(getattr(theme, ground))) >= 4.5, ground


@pytest.mark.parametrize("name", ["rsmq-dark", "rsmq-light"])
def test_text_can_be_read_under_the_cursor(name: str) -> None:
    theme = load_themes().themes[name]
    cursor = Color.parse(theme.variables["cursor"])
    assert contrast(Color.parse(str(theme.foreground)), cursor) >= 7
    for token in TEXTS:
        assert contrast(Color.parse(theme.variables[token]), cursor) >= 3, token
    # And the row itself is seen.
    assert contrast(cursor, Color.parse(str(theme.background))) >= 1.2


@pytest.mark.parametrize("name", ["rsmq-dark", "rsmq-light"])
def test_lines_and_sparklines_are_seen_but_quieter_than_text(name: str) -> None:
    theme = load_themes().themes[name]
    ground = Color.parse(str(theme.background))
    text = contrast(Color.parse(str(theme.foreground)), ground)
    assert 1.3 <= contrast(Color.parse(theme.variables["rule"]), ground) < text
    assert 3 <= contrast(Color.parse(theme.variables["spark"]), ground) < text


def test_the_ansi_theme_uses_the_terminals_own_colours_only() -> None:
    theme = load_themes().themes["rsmq-ansi"]
    values = [theme.primary, theme.background, theme.foreground, *(theme.variables[token] for token in TOKENS)]
    assert [value for value in values if not str(value).startswith("ansi_")] == []
    # Textual's own styles want these from every ANSI theme.
    assert BUILTIN_THEMES["ansi-dark"].variables.keys() <= theme.variables.keys()


async def test_capital_t_goes_through_our_themes_and_recolours_what_is_drawn(source: ScriptedSource) -> None:
    async with opened(source) as pilot:
        app = app_of(pilot)
        await play(pilot, source, poll_of(source, one_of_each()))
        seen = {}
        for _ in range(4):
            seen[app.theme] = app.export_screenshot(simplify=True)
            await press(pilot, "T")
        assert list(seen) == ["rsmq-dark", "rsmq-light", "rsmq-ansi"]
        assert len(set(seen.values())) == 3
        # From a theme of Textual's own back to ours.
        app.theme = "nord"
        await press(pilot, "T")
        assert app.theme == "rsmq-ansi"


async def test_a_screen_beneath_is_recoloured_too(source: ScriptedSource) -> None:
    async with opened(source) as pilot:
        await play(pilot, source, poll_of(source, one_of_each()))
        await press(pilot, "enter", "T", "escape")
        table = app_of(pilot).screen.query_one("#queues")
        colors = {
            str(segment.style.color.name) for segment in table.render_line(2) if segment.style and segment.style.color
        }
        assert load_themes().themes["rsmq-light"].variables["verdict-stalled"] in colors
        assert TOKENS["verdict-stalled"] not in colors


async def test_every_theme_of_textual_can_be_picked(source: ScriptedSource) -> None:
    async with opened(source) as pilot:
        await play(pilot, source, poll_of(source, one_of_each()))
        for name in ("textual-light", "ansi-light", "gruvbox", "ansi-dark"):
            app_of(pilot).theme = name
            await press(pilot, "j")
            assert app_of(pilot).export_screenshot(simplify=True)


async def test_a_theme_that_is_not_there_is_told_and_another_taken(source: ScriptedSource) -> None:
    async with opened(source, theme="no-[/such]", notifications=True) as pilot:
        app = app_of(pilot)
        assert app.theme == "rsmq-dark"
        (note,) = app._notifications
        assert note.message.startswith("unknown theme no-[/such]. Available: rsmq-ansi, rsmq-dark, rsmq-light.")


async def test_a_chart_has_the_themes_colours_or_none(source: ScriptedSource) -> None:
    names = ("series-first", "series-second")
    async with opened(source) as pilot:
        chart = pilot.app.screen.query_one(ChartPanel)
        pilot.app.theme_variables.update(
            {"series-first": "#F00", "series-second": "rgb(0, 128, 0)", "quiet": "ansi_red"}
        )
        assert chart.palette(names) == Palette(("#ff0000", "#008000"), "ansi_red")
    async with opened(source, theme="rsmq-ansi", ascii_only=True) as pilot:
        assert pilot.app.screen.query_one(ChartPanel).palette(names) == Palette(("",), "", ascii=True)


def test_the_users_folder_is_that_of_xdg_or_of_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "elsewhere"))
    assert user_themes() == tmp_path / "elsewhere" / "rsmq-tui" / "themes"
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert user_themes() == tmp_path / ".config" / "rsmq-tui" / "themes"
