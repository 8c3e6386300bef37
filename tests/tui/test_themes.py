"""The themes that come along: complete, and readable."""

import tomllib
from pathlib import Path

import pytest
from textual.theme import BUILTIN_THEMES

from rsmq_tui.charts.series import Palette
from rsmq_tui.tui.theme import VARIABLES, load_themes, read_theme, shipped_themes, user_themes
from rsmq_tui.tui.widgets.charts import ChartPanel
from tests.tui.driving import opened, play, press
from tests.tui.reading import app_of, notes_of
from tests.tui.scripted import ScriptedSource
from tests.tui.states import one_of_each, poll_of

pytestmark = pytest.mark.slow

SHIPPED = sorted(shipped_themes().glob("*.toml"))


def test_there_are_dark_and_light_themes_and_one_for_sixteen_colours() -> None:
    themes = load_themes()
    assert themes.problems == ()
    assert len(themes.files) == len(SHIPPED) >= 20
    assert [name for name, theme in themes.themes.items() if theme.ansi] == ["rsmq-ansi"]
    assert {theme.dark for theme in themes.themes.values()} == {True, False}


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_shipped_theme_colours_every_token_and_is_named_like_its_file(path: Path) -> None:
    values = tomllib.loads(path.read_text())
    assert values["name"] == path.stem
    assert values["variables"].keys() == VARIABLES.keys()
    file = read_theme(path)
    assert file.is_shipped
    assert 0 < len(file.description) <= 60
    theme = file.theme
    assert VARIABLES.keys() <= theme.variables.keys()
    assert theme.background is not None
    assert theme.foreground is not None


def test_the_defaults_of_tokens_are_those_of_the_dark_theme() -> None:
    assert dict(load_themes().themes["rsmq-dark"].variables) == VARIABLES


def test_the_ansi_theme_uses_the_terminals_own_colours_only() -> None:
    theme = load_themes().themes["rsmq-ansi"]
    values = [theme.primary, theme.background, theme.foreground, *(theme.variables[token] for token in VARIABLES)]
    assert [value for value in values if not str(value).startswith("ansi_")] == []
    # Textual's own styles want these from every ANSI theme.
    assert BUILTIN_THEMES["ansi-dark"].variables.keys() <= theme.variables.keys()


async def test_capital_t_goes_through_our_themes_and_recolours_what_is_drawn(source: ScriptedSource) -> None:
    async with opened(source) as pilot:
        app = app_of(pilot)
        await play(pilot, source, poll_of(source, one_of_each()))
        ours = list(load_themes().themes)
        seen = {}
        for _ in range(len(ours) + 1):
            seen[app.theme] = app.export_screenshot(simplify=True)
            await press(pilot, "T")
        assert list(seen) == ours[ours.index("rsmq-dark") :] + ours[: ours.index("rsmq-dark")]
        assert len(set(seen.values())) == len(ours)
        # From a theme of Textual's own to the first of ours.
        app.theme = "flexoki"
        await press(pilot, "T")
        assert app.theme == ours[0]


async def test_a_screen_beneath_is_recoloured_too(source: ScriptedSource) -> None:
    async with opened(source, one_of_each()) as pilot:
        await press(pilot, "enter")
        app_of(pilot).action_choose_theme("rsmq-light")
        await press(pilot, "escape")
        table = app_of(pilot).screen.query_one("#queues")
        colors = {
            str(segment.style.color.name) for segment in table.render_line(2) if segment.style and segment.style.color
        }
        assert load_themes().themes["rsmq-light"].variables["verdict-stalled"] in colors
        assert VARIABLES["verdict-stalled"] not in colors


async def test_every_theme_of_textual_can_be_picked(source: ScriptedSource) -> None:
    async with opened(source, one_of_each()) as pilot:
        for name in ("textual-light", "ansi-light", "flexoki", "ansi-dark"):
            app_of(pilot).action_choose_theme(name)
            await press(pilot, "j")
            assert app_of(pilot).export_screenshot(simplify=True)


async def test_a_theme_that_is_not_there_is_told_and_another_taken(source: ScriptedSource) -> None:
    async with opened(source, theme="no-[/such]", notifications=True) as pilot:
        app = app_of(pilot)
        assert app.theme == "rsmq-dark"
        (note,) = notes_of(app)
        assert note.message == "unknown theme no-[/such]: `rsmq-tui themes` lists them"


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
