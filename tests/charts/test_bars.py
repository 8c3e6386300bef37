import math
from collections.abc import Sequence

import pytest
from rich.cells import cell_len

from rsmq_tui.charts.drawing import bar_rows
from rsmq_tui.charts.series import Palette

COLOUR = Palette(("#5fafff",), "#888888")
VISIBLE = [("now", 37_900), ("< 10 s", 61), ("< 1 min", 118), ("< 10 min", 33), ("later", 0)]


def lines(rows: Sequence[tuple[str, float]], width: int) -> list[str]:
    return bar_rows(rows, width=width, palette=COLOUR).plain.split("\n")


def test_panel() -> None:
    assert lines(VISIBLE, 26) == [
        "now      37,900 ━━━━━━━━━━",
        "< 10 s       61 ╸",
        "< 1 min     118 ╸",
        "< 10 min     33 ╸",
        "later         0",
    ]


def test_bars_have_halves_and_do_not_touch_the_row_above() -> None:
    bars = [line.split()[-1] for line in lines([(str(halves), halves) for halves in range(10, 15)] + [("t", 16)], 14)]
    assert bars == ["━━━━━", "━━━━━╸", "━━━━━━", "━━━━━━╸", "━━━━━━━", "━━━━━━━━"]


def test_only_the_bar_is_coloured() -> None:
    text = bar_rows([("a", 2), ("b", 1)], width=12, palette=COLOUR)
    assert {(text.plain[span.start : span.end], span.style) for span in text.spans if span.style} == {
        ("━━━━━━━━", "#5fafff"),
        ("━━━━", "#5fafff"),
    }


def test_fractions_keep_a_decimal() -> None:
    assert lines([("a", 1.25), ("b", 2)], 8) == ["a 1.2", "b   2"]


def test_unknown_amounts_have_no_bar() -> None:
    assert lines([("a", math.nan), ("b", math.inf), ("c", 10**400), ("d", 5)], 10) == [
        "a –",
        "b –",
        "c –",
        "d 5 ━━━━━━",
    ]


def test_negative_amounts_have_no_bar() -> None:
    assert lines([("a", -5), ("b", 5)], 11) == ["a -5", "b  5 ━━━━━━"]


@pytest.mark.parametrize(
    ("width", "line"),
    [(17, "visible 1,234,567"), (16, "visible 1.2M"), (9, "vis… 1.2M"), (5, "1.2M"), (3, "1.…"), (1, "…")],
)
def test_narrow(width: int, line: str) -> None:
    assert lines([("visible", 1_234_567)], width) == [line]


def test_no_rows() -> None:
    assert bar_rows([], width=10, palette=COLOUR).plain == ""


@pytest.mark.parametrize("width", [1, 2, 3, 5, 8, 13, 24, 60, 200])
def test_never_wider_than_asked(width: int) -> None:
    rows = [("\x1b[31mred\nline", 1e18), ("[/foo]", 1e308), ("漢字" * 40, 5e-324), ("", -1e300), ("x", 0)]
    drawn = lines(rows, width)
    assert len(drawn) == len(rows)
    assert all(cell_len(line) <= width for line in drawn)
    assert "\x1b" not in "".join(drawn)
