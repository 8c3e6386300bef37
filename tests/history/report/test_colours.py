"""The colours of verdicts stay apart for people who see few colours, and can be seen on their background.

Colour blindness is simulated as in Machado, Oliveira and Fernandes, "A Physiologically-based Model for Simulation of
Color Vision Deficiency" (2009), for a severity of 1. Distances are those of Oklab, times 100: about 2 can just be told
apart side by side.
"""

import math
import re
from importlib.resources import files
from itertools import combinations

import pytest

from rsmq_tui.history.report.words import LETTERS

SIMULATED = {
    "normal": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.01182, 0.04294, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.3039)),
}
_TO_CONES = ((0.4122214708, 0.5363325363, 0.0514459929), (0.2119034982, 0.6806995451, 0.1073969566),
             (0.0883024619, 0.2817188376, 0.6299787005))  # fmt: skip
_TO_LAB = ((0.2104542553, 0.793617785, -0.0040720468), (1.9779984951, -2.428592205, 0.4505937099),
           (0.0259040371, 0.7827717662, -0.808675766))  # fmt: skip
LEAST = 10
STYLE = files("rsmq_tui.history.report").joinpath("report.css").read_text("utf-8")

Colour = tuple[float, ...]


def themes() -> dict[str, dict[str, str]]:
    """The variables of the light, the dark and the printed page."""
    told = dict(zip(("light", "dark", "print"), re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL), strict=True))
    return {name: dict(re.findall(r"--([\w-]+): (#\w+)", text)) for name, text in told.items()}


def linear(colour: str) -> Colour:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    values = (int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4))
    return tuple(value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in values)


def times(matrix: tuple[Colour, ...], colour: Colour) -> Colour:
    return tuple(sum(a * b for a, b in zip(row, colour, strict=True)) for row in matrix)


def oklab(colour: Colour) -> Colour:
    cones = times(_TO_CONES, tuple(min(1.0, max(0.0, value)) for value in colour))
    return times(_TO_LAB, tuple(value ** (1 / 3) for value in cones))


def contrast(one: Colour, other: Colour) -> float:
    dark, light = sorted(
        sum(a * b for a, b in zip((0.2126, 0.7152, 0.0722), each, strict=True)) for each in (one, other)
    )
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("sight", SIMULATED)
@pytest.mark.parametrize("theme", ["light", "dark", "print"])
def test_verdicts_stay_apart(theme: str, sight: str) -> None:
    colours = themes()[theme]
    seen = {verdict: oklab(times(SIMULATED[sight], linear(colours[verdict]))) for verdict in LETTERS}
    distances = {(a, b): 100 * math.dist(seen[a], seen[b]) for a, b in combinations(seen, 2)}
    assert min(distances.values()) >= LEAST, min(distances, key=lambda pair: distances[pair])


@pytest.mark.parametrize("theme", ["light", "dark", "print"])
def test_verdicts_can_be_seen_on_the_page(theme: str) -> None:
    colours = themes()[theme]
    for verdict in LETTERS:
        assert contrast(linear(colours[verdict]), linear(colours["bg"])) >= 3, verdict


def test_each_verdict_has_a_letter_of_its_own_and_a_style() -> None:
    assert len(set(LETTERS.values())) == len(LETTERS)
    for verdict in LETTERS:
        assert f".v-{verdict} {{" in STYLE
