"""A line of numbers in one row of cells."""

from collections.abc import Sequence

from rich.text import Text

from rsmq_tui.charts.known import LARGEST, known
from rsmq_tui.charts.palette import plain_or

# The first mark is zero and only zero: a queue with one message must not look empty.
_BLOCKS = "▁▂▃▄▅▆▇█"
_ASCII_MARKS = "_.:-=+*#"

# Just under one step per mark above zero, so that a value on the border of two marks takes the lower one.
_STEPS = 6.9999

# Below every level, so that a plain max() ignores it: this runs for each visible row of a table, on each tick.
_UNKNOWN = -1.0


def sparkline(
    values: Sequence[float | None],
    width: int,
    *,
    style: str = "",
    ascii: bool = False,  # noqa: A002 - named like Palette.ascii, and the builtin has no use here
    top: float | None = None,
) -> Text:
    """Draw `values`, oldest first, in exactly `width` cells with the newest at the right.

    The floor is zero, whatever the values; `top` is the value of a full block, the largest value when None. More values
    than cells are joined by their maximum, fewer leave the left blank. Unknown values (None, NaN, infinity) are blank,
    negative ones are drawn as zero.
    """
    if width < 1:
        return Text()
    # One expression rather than a call to known() for each value: it halves the time.
    levels = [
        _UNKNOWN if value is None else value if 0 < value <= LARGEST else 0.0 if -LARGEST <= value <= 0 else _UNKNOWN
        for value in values
    ]
    count = len(levels)
    if count > width:
        borders = [cell * count // width for cell in range(width + 1)]
        levels = [max(levels[borders[cell] : borders[cell + 1]]) for cell in range(width)]
    ceiling = known(top)
    if ceiling is None:
        ceiling = max(levels, default=0.0)
    marks = _ASCII_MARKS if ascii else _BLOCKS
    drawn = "".join([_mark(level, ceiling, marks) for level in levels])
    return Text(drawn.rjust(width), style=plain_or(style), no_wrap=True, overflow="crop")


def _mark(level: float, ceiling: float, marks: str) -> str:
    if level == 0:
        return marks[0]
    if level < 0:
        return " "
    return marks[1 + int(level / ceiling * _STEPS)] if level < ceiling else marks[-1]
