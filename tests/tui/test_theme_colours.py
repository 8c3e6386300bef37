"""The colours of the themes: they can be read on every ground, and verdicts stay apart for people who see few colours.

A verdict has a sign and a word beside its colour, so colours need not be far apart for everybody; in the theme that is
made for a colour blindness they are.
"""

from itertools import combinations

import pytest
from textual.theme import Theme

from rsmq_tui.monitor import Verdict
from rsmq_tui.tui.theme import VARIABLES, read_theme, shipped_themes
from tests.colours import SIMULATED, contrast, distance

SHIPPED = [read_theme(path).theme for path in sorted(shipped_themes().glob("*.toml"))]
THEMES = {theme.name: theme for theme in SHIPPED if not theme.ansi}
# What is not drawn as text: lines, bars and the row of the cursor.
TEXTS = [token for token in VARIABLES if token not in ("rule", "spark", "cursor")]
COLOURS = ("foreground", "primary", "secondary", "accent", "warning", "error", "success")
CONTRAST, HIGH_CONTRAST = 4.5, 7
APART, FAR_APART = 2.5, 10
MADE_FOR = {"red-green": ("protanopia", "deuteranopia"), "blue-yellow": ("tritanopia",)}


def colours_of(theme: Theme) -> dict[str, str]:
    return {**{name: getattr(theme, name) for name in (*COLOURS, "background", "surface", "panel")}, **theme.variables}


def test_contrast_is_that_of_wcag() -> None:
    assert contrast("#fff", "#000") == pytest.approx(21)
    assert contrast("#777", "#fff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("name", THEMES)
def test_text_can_be_read_on_every_ground_and_under_the_cursor(name: str) -> None:
    colours = colours_of(THEMES[name])
    least = HIGH_CONTRAST if name.startswith("high-contrast") else CONTRAST
    poor = [
        (text, ground, round(ratio, 2))
        for text in (*TEXTS, *COLOURS)
        for ground in ("background", "surface", "panel", "cursor")
        if (ratio := contrast(colours[text], colours[ground])) < least
    ]
    assert poor == []


@pytest.mark.parametrize("name", THEMES)
def test_the_row_of_the_cursor_lines_and_bars_are_seen_but_quieter_than_text(name: str) -> None:
    colours = colours_of(THEMES[name])
    seen = {each: contrast(colours[each], colours["background"]) for each in ("foreground", "cursor", "rule", "spark")}
    assert 1.2 <= seen["cursor"] < seen["foreground"]
    assert 1.3 <= seen["rule"] < seen["foreground"]
    assert 3 <= seen["spark"] < seen["foreground"]


@pytest.mark.parametrize("sight", SIMULATED)
@pytest.mark.parametrize("name", THEMES)
def test_verdicts_stay_apart(name: str, sight: str) -> None:
    colours = colours_of(THEMES[name])
    least = FAR_APART if sight in MADE_FOR.get(name, ()) else APART
    close = [
        (one, other, round(apart, 1))
        for one, other in combinations(Verdict, 2)
        if (apart := distance(colours[f"verdict-{one}"], colours[f"verdict-{other}"], sight)) < least
    ]
    assert close == []


def test_monochrome_has_no_hue() -> None:
    colours = colours_of(THEMES["monochrome"])
    assert {colour for colour in colours.values() if not colour[1:3] == colour[3:5] == colour[5:]} == set()


def test_there_are_themes_for_each_colour_blindness_and_for_high_contrast() -> None:
    assert MADE_FOR.keys() | {"high-contrast", "high-contrast-light"} <= THEMES.keys()
    assert {sight for sights in MADE_FOR.values() for sight in sights} == SIMULATED.keys() - {"normal"}
