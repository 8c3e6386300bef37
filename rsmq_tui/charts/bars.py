"""Named amounts as horizontal bars."""

from collections.abc import Sequence

from rich.cells import cell_len
from rich.text import Text

from rsmq_tui.charts.known import known
from rsmq_tui.charts.labels import fit_label
from rsmq_tui.charts.palette import Palette
from rsmq_tui.charts.ticks import tick_label

# A heavy line rather than blocks: these would touch the row above, and long bars would look like one area.
_WHOLE, _HALF = "━", "╸"
# Shorter bars say less than the space they cost the label.
_SHORTEST_BAR = 4


def bar_rows(rows: Sequence[tuple[str, float]], *, width: int, palette: Palette) -> Text:
    """Draw one line for each (label, amount): label, right-aligned amount, bar, in at most `width` cells.

    Bars are relative to the largest amount, and anything above zero gets at least a sliver. Amounts that are not finite
    are unknown and show as "–". When it gets narrow the bar goes first, then the amounts become short (38k), then the
    labels are cut.
    """
    if width < 1 or not rows:
        return Text()
    amounts = [known(amount) for _, amount in rows]
    labels = [fit_label(label, width, ascii_only=palette.ascii) for label, _ in rows]
    label_width = max(map(cell_len, labels))
    numbers = [_exact(amount, palette) for amount in amounts]
    if label_width + 1 + max(map(len, numbers)) > width:
        numbers = [_short(amount, palette) for amount in amounts]
    number_width = min(width, max(map(len, numbers)))
    label_width = min(label_width, max(0, width - 1 - number_width))
    bar_width = width - label_width - number_width - 2
    largest = max((amount for amount in amounts if amount is not None), default=0.0)

    text = Text(no_wrap=True, overflow="crop")
    for index, amount in enumerate(amounts):
        if index:
            text.append("\n")
        if label_width:
            label = fit_label(labels[index], label_width, ascii_only=palette.ascii)
            text.append(label + " " * (label_width - cell_len(label) + 1))
        text.append(fit_label(numbers[index], number_width, ascii_only=palette.ascii).rjust(number_width))
        if bar_width >= _SHORTEST_BAR and amount is not None and amount > 0:
            text.append(" ")
            text.append(_bar(amount / largest, bar_width, ascii_only=palette.ascii), palette.series_style(0))
    return text


def _bar(share: float, width: int, *, ascii_only: bool) -> str:
    if ascii_only:
        return "#" * max(1, round(share * width))
    whole, half = divmod(max(1, round(share * width * 2)), 2)
    return _WHOLE * whole + _HALF * half


def _exact(amount: float | None, palette: Palette) -> str:
    if amount is None:
        return _short(amount, palette)
    return f"{amount:,.0f}" if amount.is_integer() else f"{amount:,.1f}"


def _short(amount: float | None, palette: Palette) -> str:
    if amount is None:
        return "-" if palette.ascii else "–"
    return tick_label(amount)
