"""Lines drawn by plotext: the only module that knows its API.

plotext has no type hints, so nothing of it passes this border: strokes in dots go in, rows of strings come out. It is
a rasteriser here, because its frame, legend and tick labels cannot be made as compact as a dashboard needs. Each call
has a figure of its own: the one that plotext offers is shared by the whole process.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

# Braille has 2 x 4 dots in a cell; every stroke uses this grid, so that marks of one cell fall where the dots would.
DOTS_ACROSS = 2
DOTS_DOWN = 4

BRAILLE = "braille"

# The colour numbers of a terminal's palette, of which 0 is left out; more strokes than that share their tags.
_TAGS = 255

_ESCAPE = re.compile(r"\x1b\[([0-9;]*)m")


@dataclass(frozen=True, slots=True)
class Stroke:
    """A line to draw.

    Attributes:
        mark: BRAILLE, or one character that fills its cell.
        runs: the dots to connect, as (across from the left, up from the bottom); runs are not connected to each other.
    """

    mark: str
    runs: Sequence[Sequence[tuple[int, int]]]


def draw_strokes(strokes: Sequence[Stroke], width: int, height: int) -> list[list[tuple[str, int | None]]]:
    """Draw strokes on `width` x `height` cells; earlier strokes lie on top.

    Returns `height` rows, top first, each as pieces of (text, index of its stroke or None for background) that together
    have `width` cells.
    """
    import plotext  # noqa: PLC0415 - it takes 0.16 s, which starting the program must not wait for

    # A terminal without limits, or the figure is clipped to the size of this process's terminal.
    figure = type(plotext.figure)(parent=type(plotext.terminal)().limit(False, False))
    figure.plot_size(width, height)
    figure.axes(False)
    figure.canvas("default")
    for axis, length in (("x", DOTS_ACROSS * width), ("y", DOTS_DOWN * height)):
        # No ticks, and limits at the edges of the outer dots, so that dot n is n + 0.5.
        figure.ruler(axis).frequency(0).lim(0, length).alignment(lim="edge")
    for index in reversed(range(len(strokes))):
        stroke = strokes[index]
        dots = [dot for run in stroke.runs for dot in run]
        if not dots:
            continue
        # The colour is a tag: it says which stroke drew a cell, and the caller's palette knows nothing of plotext.
        marker = plotext.marker(stroke.mark, index % _TAGS + 1)
        signal = figure.signal([across + 0.5 for across, _ in dots], [up + 0.5 for _, up in dots], marker=marker)
        signal.lines(True)
        start = 0
        for run in stroke.runs:
            signal.line(start, False)
            start += len(run)
        figure.draw(signal)
    return [_pieces(line) for line in str(figure.build().string()).split("\n")[:height]]


def _pieces(line: str) -> list[tuple[str, int | None]]:
    """Split a line of plotext's output, in which escape sequences carry the tags."""
    parts = _ESCAPE.split(line)
    pieces: list[tuple[str, int | None]] = []
    owner: int | None = None
    for text, codes in zip(parts[::2], ["", *parts[1::2]], strict=True):
        if codes:
            tag = codes.removeprefix("38;5;")
            owner = int(tag) - 1 if tag != codes else None
        if text:
            pieces.append((text, owner))
    return pieces
