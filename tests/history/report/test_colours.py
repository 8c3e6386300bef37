"""The colours of verdicts stay apart for people who see few colours, and can be seen on their background."""

import re
from importlib.resources import files
from itertools import combinations

import pytest

from rsmq_tui.history.report.words import LETTERS
from tests.colours import SIMULATED, contrast, distance

LEAST = 10
STYLE = files("rsmq_tui.history.report").joinpath("report.css").read_text("utf-8")


def themes() -> dict[str, dict[str, str]]:
    """The variables of the light, the dark and the printed page."""
    light, *others = (
        dict(re.findall(r"--([\w-]+): (#\w+)", text)) for text in re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)
    )
    dark, printed = ({**light, **other} for other in others)
    return {"light": light, "dark": dark, "print": printed}


@pytest.mark.parametrize("sight", SIMULATED)
@pytest.mark.parametrize("theme", ["light", "dark", "print"])
def test_verdicts_stay_apart(theme: str, sight: str) -> None:
    colours = themes()[theme]
    distances = {(a, b): distance(colours[a], colours[b], sight) for a, b in combinations(LETTERS, 2)}
    assert min(distances.values()) >= LEAST, min(distances, key=lambda pair: distances[pair])


def test_a_page_that_is_printed_from_a_dark_screen_is_light() -> None:
    # Else letters on colours of verdicts would be those of the dark page.
    dark = re.findall(r"@media ([^{]*prefers-color-scheme: dark\))", STYLE)
    assert set(dark) == {"screen and (prefers-color-scheme: dark)"}


@pytest.mark.parametrize("theme", ["light", "dark", "print"])
def test_verdicts_can_be_seen_on_the_page(theme: str) -> None:
    colours = themes()[theme]
    for verdict in LETTERS:
        assert contrast(colours[verdict], colours["bg"]) >= 3, verdict


def test_each_verdict_has_a_letter_of_its_own_and_a_style() -> None:
    assert len(set(LETTERS.values())) == len(LETTERS)
    for verdict in LETTERS:
        assert f".v-{verdict} {{" in STYLE
