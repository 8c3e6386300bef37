import math
from collections.abc import Container, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from rich.cells import cell_len
from rich.text import Text

from rsmq_tui.charts.drawing import MARKED, line_chart
from rsmq_tui.charts.series import Palette, Series

# 2023-11-14 22:00 UTC
START = 1_699_999_200_000
MINUTES_10 = 600_000

COLOUR = Palette(("#5fafff", "#ffaf5f"), "#888888")
PLAIN = Palette((), "default")
ASCII = Palette(("#5fafff",), "#888888", ascii=True)
SIZES = [(1, 1), (1, 50), (10, 3), (23, 5), (24, 4), (24, 5), (60, 12), (120, 10), (200, 50), (200, 1)]
HOSTILE = ["\x1b[31mred\x1b[0m", "[/foo]", "漢字" * 30, "a\nb\r\t\x00", "\u202e\u2028\ud800", "", "x" * 5000]


def wave(label: str, low: float, high: float, count: int = 600, gap: Container[int] = ()) -> Series:
    """A sine over ten minutes, one point each second when `count` is 600."""
    return Series(
        label,
        [
            (
                START + index * MINUTES_10 // count,
                None if index in gap else low + (high - low) * (0.5 + math.sin(index * 9 / count) / 2),
            )
            for index in range(count + 1)
        ],
    )


def draw(
    series: Sequence[Series],
    width: int = 80,
    height: int = 10,
    palette: Palette = COLOUR,
    span_ms: int = MINUTES_10,
    unit: str = "/s",
) -> Text:
    return line_chart(
        series, width=width, height=height, start_ms=START, end_ms=START + span_ms, palette=palette, unit=unit
    )


def check_size(text: Text, width: int, height: int) -> None:
    lines = text.plain.split("\n")
    assert len(lines) == height
    assert max(map(cell_len, lines)) <= width


def canvas(text: Text) -> list[str]:
    """The cells right of the y axis, without the legend and the x axis."""
    return [line[line.index("┤" if "┤" in line else "│") + 1 :] for line in text.plain.split("\n")[1:-1]]


@pytest.mark.parametrize("palette", [COLOUR, PLAIN, ASCII])
@pytest.mark.parametrize(
    "series",
    [
        [],
        [Series("empty", [])],
        [Series("unknown", [(START, None), (START + 1000, math.nan)])],
        [Series("one", [(START + 5000, 7)])],
        [Series("equal", [(START + at, 5) for at in range(0, MINUTES_10, 1000)])],
        [Series("zero", [(START + at, 0) for at in range(0, MINUTES_10, 1000)])],
        [Series("huge", [(START, 1e18), (START + 9000, 1e308), (START + 12_000, 10**400), (START + 15_000, -1e308)])],
        [Series("odd", [(START, math.inf), (START + 1000, 3), (START + 2000, -math.inf), (START + 2000, 5e-324)])],
        [wave("arrivals", 100, 900), wave("deletes", 300, 500)],
        [Series(label, [(START, 1), (START + MINUTES_10, 2)]) for label in HOSTILE],
    ],
    ids=lambda series: series[0].label[:8].strip("\x1b") if series else "none",
)
def test_any_series_at_any_size(series: Sequence[Series], palette: Palette) -> None:
    for width, height in SIZES:
        text = draw(series, width, height, palette)
        check_size(text, width, height)
        assert not any(char in text.plain for char in "\x1b\r\t\x00\u202e\u2028\ud800")
        # "default" would be drawn black on black by Textual's ANSI themes.
        assert not any(span.style == "default" for span in text.spans)


@pytest.mark.parametrize("span_ms", [-5, 0, 1, 999, 2000, 10**10, 10**15])
def test_any_span(span_ms: int) -> None:
    check_size(draw([wave("a", 1, 9)], 60, 8, span_ms=span_ms), 60, 8)


@pytest.mark.parametrize(("width", "height"), [(0, 5), (5, 0), (-1, -1)])
def test_no_size_is_empty(width: int, height: int) -> None:
    assert draw([wave("a", 1, 9)], width, height).plain == ""


def test_picture_with_ascii_marks() -> None:
    depths = [0, 100, 200, 300, 300, 300, None, 0, 0, 0, 0]
    points = [(START + minute * 60_000, depth) for minute, depth in enumerate(depths)]
    text = draw([Series("depth", points)], 40, 8, ASCII, unit="/s")
    # No line falls from 300 to 0: what happened at 22:06 is not known.
    assert [line.rstrip() for line in text.plain.split("\n")] == [
        " /s ** depth",
        "300┤         **********",
        "   │        *",
        "200┤      **",
        "100┤   ***",
        "   │  *",
        "  0┤**                       ***********",
        "   └22:00───22:03──────22:06──────22:09─",
    ]


def test_frame() -> None:
    lines = draw([wave("arrivals/s", 100, 830), wave("deletes/s", 300, 500)]).plain.split("\n")
    assert lines[0] == " /s ⠤⠤ arrivals/s  ⠤⠤ deletes/s"
    assert [line[:4] for line in lines[1:9]] == ["900┤", "   │", "600┤", "   │", "   │", "300┤", "   │", "  0┤"]
    assert lines[9].startswith("   └22:00───")
    assert [word for word in lines[9][4:].split("─") if word] == ["22:00", "22:02", "22:04", "22:06", "22:08", "22:10"]


def test_a_line_stands_at_its_value() -> None:
    for value, row in ((0, 7), (40, 4), (100, 0)):
        rows = canvas(draw([Series("a", [(START, value), (START + MINUTES_10, value)]), Series("top", [(START, 100)])]))
        assert rows[row].strip() == rows[row]
        assert all(not line[1:].strip() for index, line in enumerate(rows) if index != row)


def test_without_data_it_says_so() -> None:
    assert "no data" in draw([Series("a", [(START, None)])]).plain
    assert "no data" not in draw([Series("a", [(START, 0)])]).plain


def test_gaps_stay_gaps() -> None:
    whole, gapped = draw([wave("a", 1, 9)]), draw([wave("a", 1, 9, gap=range(200, 301))])
    hole = Series("a", [point for point in wave("a", 1, 9, gap=range(200, 301)).points if point[1] is not None])
    blank = [column for column in range(77) if not any(line[column : column + 1].strip() for line in canvas(gapped))]
    assert not any(not any(line[column].strip() for line in canvas(whole)) for column in range(77))
    # 100 s of 600 s on 78 columns.
    assert len(blank) in range(11, 14)
    assert blank == list(range(blank[0], blank[-1] + 1))
    assert draw([hole]).plain == gapped.plain


def test_peaks_survive_many_points() -> None:
    points = [(START + index * 83, 1000 if index == 4321 else 1) for index in range(7200)]
    assert draw([Series("a", points)]).plain.split("\n")[1].startswith(" 1k┤")
    assert canvas(draw([Series("a", points)]))[0].strip()


def test_colours_of_lines_and_legend() -> None:
    text = draw([wave("a", 700, 900), wave("b", 100, 200)])
    used = {
        style: "".join(text.plain[span.start : span.end] for span in text.spans if span.style == style)
        for style in COLOUR.series
    }
    assert used["#5fafff"].startswith("⠤⠤ a")
    assert used["#ffaf5f"].startswith("⠤⠤ b")
    assert all(any("⠀" < char <= "⣿" for char in drawn[4:]) for drawn in used.values())


@pytest.mark.parametrize("palette", [PLAIN, Palette(("default",), ""), Palette(("#fff000", "#fff000"), "")])
def test_series_of_one_colour_have_their_own_marks(palette: Palette) -> None:
    text = draw([wave("a", 700, 900), wave("b", 400, 500), wave("c", 100, 200)], palette=palette).plain
    assert text.startswith(" /s ⠤⠤ a  ** b  ++ c")
    assert "*" in "".join(text.split("\n")[1:])
    assert "+" in "".join(text.split("\n")[1:])


def test_ascii_series_have_their_own_marks_whatever_the_colours() -> None:
    text = draw([wave("a", 700, 900), wave("b", 100, 200)], palette=Palette(COLOUR.series, "", ascii=True)).plain
    assert text.startswith(" /s ** a  ++ b")


def test_legend_shares_the_room_and_counts_the_rest() -> None:
    long = draw([wave("arrivals per second", 1, 2), wave("ok", 1, 2)], 30).plain.split("\n")[0]
    assert long.endswith("…  ⠤⠤ ok")
    many = draw([wave(f"queue-{index}", 1, 2, count=9) for index in range(40)], 60).plain.split("\n")[0]
    assert many.endswith("  +34")
    assert cell_len(many) <= 60


@pytest.mark.parametrize(("width", "height"), [(23, 5), (24, 4)])
def test_charts_without_room_for_a_frame_are_blank(width: int, height: int) -> None:
    text = draw([wave("a", 1, 9)], width, height)
    check_size(text, width, height)
    assert not text.plain.strip()


def test_charts_do_not_leak_into_each_other() -> None:
    def one() -> Text:
        return draw([wave("a", 700, 900), wave("b", 1, 2)], 60, 12)

    def other() -> Text:
        return draw([wave("x", 0, 4, count=30)], 90, 7, ASCII, unit="")

    first, second = one(), other()
    for _ in range(3):
        assert other() == second
        assert one() == first
    assert first.plain != second.plain


def test_charts_can_be_drawn_in_threads() -> None:
    charts = [wave("a", 700, 900, count=60), wave("b", 1, 2, count=60)]
    alone = [draw([chart], 40, 6) for chart in charts]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda chart: draw([chart], 40, 6), charts * 10)) == alone * 10


def test_nothing_is_written(capfd: pytest.CaptureFixture[str]) -> None:
    draw([wave("a", 1, 9), Series("b", [(START, 1e16), (START + 1000, 1e16 + 2)])])
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("palette", [COLOUR, PLAIN, ASCII])
def test_marked_times_are_lines_behind_the_series(palette: Palette) -> None:
    series = [wave("a", 0, 10)]
    at_ms = (START + MINUTES_10 // 4, START + MINUTES_10 // 2, START - 1, START + MINUTES_10)
    plain, marked = (
        canvas(line_chart(series, width=60, height=12, start_ms=START, end_ms=START + MINUTES_10, palette=palette,
                          marked_ms=times))
        for times in ((), at_ms)
    )  # fmt: skip
    width = len(plain[0])
    for before, after in zip(plain, marked, strict=True):
        assert len(after) == width
        for column, (one, other) in enumerate(zip(before, after, strict=True)):
            is_marked = column in (width // 4, width // 2) and one == " "
            assert other == (MARKED if is_marked else one), column
    assert any(MARKED in line for line in marked)
