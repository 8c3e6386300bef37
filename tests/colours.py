"""Contrast of colours, and how far apart people with each colour blindness see them.

Colour blindness is simulated as in Machado, Oliveira and Fernandes, "A Physiologically-based Model for Simulation of
Color Vision Deficiency" (2009), for a severity of 1. Distances are those of Oklab, times 100: about 2 can just be told
apart side by side.
"""

import math

Colour = tuple[float, ...]

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


def linear(colour: str) -> Colour:
    """Linear red, green and blue of a colour written with three or six hexadecimal digits."""
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    values = (int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4))
    return tuple(value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in values)


def contrast(one: str, other: str) -> float:
    """The ratio of WCAG 2, from 1 to 21."""
    dark, light = sorted(
        sum(a * b for a, b in zip((0.2126, 0.7152, 0.0722), linear(each), strict=True)) for each in (one, other)
    )
    return (light + 0.05) / (dark + 0.05)


def seen(colour: str, sight: str) -> Colour:
    """The colour in Oklab as people with this sight see it."""
    cones = _times(_TO_CONES, tuple(min(1.0, max(0.0, value)) for value in _times(SIMULATED[sight], linear(colour))))
    return _times(_TO_LAB, tuple(value ** (1 / 3) for value in cones))


def distance(one: str, other: str, sight: str) -> float:
    """How far apart people with this sight see two colours."""
    return 100 * math.dist(seen(one, sight), seen(other, sight))


def _times(matrix: tuple[Colour, ...], colour: Colour) -> Colour:
    return tuple(sum(a * b for a, b in zip(row, colour, strict=True)) for row in matrix)
