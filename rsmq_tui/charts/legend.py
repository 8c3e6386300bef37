"""How the series of a chart are told apart, and the line that says so."""

from collections.abc import Sequence

from rich.cells import cell_len
from rich.text import Text

from rsmq_tui.charts.labels import fit_label
from rsmq_tui.charts.lines import BRAILLE
from rsmq_tui.charts.palette import Palette, plain_or

# Marks of one cell, the easiest to tell apart first.
_MARKS = "*+ox#%@=&ABCDEFGHIJKLMNOPQRSTUVWXYZ"
# What a braille line looks like.
_BRAILLE_SAMPLE = "⠤"

_SAMPLE_WIDTH = 2
_GAP = "  "
# A label cut shorter than this names nothing.
_LEAST_LABEL = 4


def choose_marks(count: int, palette: Palette) -> list[str]:
    """Choose a mark for each of `count` series so that no two have both the same mark and the same colour.

    The first series of a colour is braille, in ASCII palettes every series has a mark of its own.
    """
    if palette.ascii:
        return [_MARKS[index % len(_MARKS)] for index in range(count)]
    marks: list[str] = []
    seen: dict[str, int] = {}
    for index in range(count):
        colour = palette.series_style(index)
        before = seen.get(colour, 0)
        marks.append(_MARKS[(before - 1) % len(_MARKS)] if before else BRAILLE)
        seen[colour] = before + 1
    return marks


def append_legend(text: Text, labels: Sequence[str], marks: Sequence[str], width: int, palette: Palette) -> None:
    """Append a sample and the label of each series to `text`, in at most `width` cells.

    Long labels are cut to equal shares; series that do not fit are counted at the end ("+2").
    """
    shown = min(len(labels), max(1, (width + len(_GAP)) // (_SAMPLE_WIDTH + 1 + _LEAST_LABEL + len(_GAP))))
    more = f"{_GAP}+{len(labels) - shown}" if shown < len(labels) else ""
    room = width - len(more) - shown * (_SAMPLE_WIDTH + 1) - (shown - 1) * len(_GAP)
    for index, label in enumerate(_share(labels[:shown], room, ascii_only=palette.ascii)):
        sample = (_BRAILLE_SAMPLE if marks[index] == BRAILLE else marks[index]) * _SAMPLE_WIDTH
        text.append(_GAP if index else "")
        text.append(f"{sample} {label}", palette.series_style(index))
    text.append(more, plain_or(palette.muted))


def _share(labels: Sequence[str], room: int, *, ascii_only: bool) -> list[str]:
    """Fit labels into `room` cells together: the short ones whole, the others in equal parts of what is left."""
    fitted = [fit_label(label, room, ascii_only=ascii_only) for label in labels]
    left = room
    for done, index in enumerate(sorted(range(len(fitted)), key=lambda index: cell_len(fitted[index]))):
        fitted[index] = fit_label(fitted[index], left // (len(fitted) - done), ascii_only=ascii_only)
        left -= cell_len(fitted[index])
    return fitted
