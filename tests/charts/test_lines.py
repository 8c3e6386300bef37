from collections.abc import Sequence

import pytest

from rsmq_tui.charts.drawing import BRAILLE, DOTS_ACROSS, DOTS_DOWN, Stroke, draw_strokes

# Bits of U+2800 by (across from the left, down from the top).
BITS = {(0, 0): 0x01, (0, 1): 0x02, (0, 2): 0x04, (0, 3): 0x40, (1, 0): 0x08, (1, 1): 0x10, (1, 2): 0x20, (1, 3): 0x80}


def picture(strokes: Sequence[Stroke], width: int, height: int) -> list[str]:
    return ["".join(text for text, _ in row) for row in draw_strokes(strokes, width, height)]


def dots(lines: Sequence[str]) -> set[tuple[int, int]]:
    """Read the dots of a braille picture, as (across, up)."""
    return {
        (DOTS_ACROSS * column + across, DOTS_DOWN * (len(lines) - row) - 1 - down)
        for row, line in enumerate(lines)
        for column, char in enumerate(line)
        for (across, down), bit in BITS.items()
        if char != " " and (ord(char) - 0x2800) & bit
    }


@pytest.mark.parametrize(("width", "height"), [(1, 1), (3, 2), (19, 3), (200, 50)])
def test_every_dot_lands_where_it_was_put(width: int, height: int) -> None:
    wanted = {
        (across, up)
        for across in range(0, DOTS_ACROSS * width, 1 + width // 8)
        for up in range(0, DOTS_DOWN * height, 1 + height // 8)
    }
    lines = picture([Stroke(BRAILLE, [[dot] for dot in sorted(wanted)])], width, height)
    assert [len(line) for line in lines] == [width] * height
    assert dots(lines) == wanted


def test_a_run_is_connected_and_two_runs_are_not() -> None:
    assert dots(picture([Stroke(BRAILLE, [[(0, 3), (5, 3)]])], 8, 2)) == {(across, 3) for across in range(6)}
    assert dots(picture([Stroke(BRAILLE, [[(0, 3), (1, 3)], [(5, 3)]])], 8, 2)) == {(0, 3), (1, 3), (5, 3)}


def test_a_steep_line_has_no_holes() -> None:
    drawn = dots(picture([Stroke(BRAILLE, [[(2, 0), (3, 19)]])], 4, 5))
    assert {up for _, up in drawn} == set(range(20))


def test_marks_fill_their_cells() -> None:
    assert picture([Stroke("*", [[(0, 0), (7, 0)]]), Stroke("+", [[(0, 4), (3, 7)]])], 4, 2) == ["++  ", "****"]


def test_pieces_name_their_stroke() -> None:
    strokes = [Stroke("a", [[(2, 0)]]), Stroke("b", []), Stroke("c", [[(6, 0)]])]
    assert draw_strokes(strokes, 5, 1) == [[(" ", None), ("a", 0), (" ", None), ("c", 2), (" ", None)]]


@pytest.mark.parametrize("marks", [("a", "b"), (BRAILLE, BRAILLE), (BRAILLE, "b"), ("a", BRAILLE)])
def test_strokes_that_meet_take_turns_and_show_only_their_own_dots(marks: tuple[str, str]) -> None:
    strokes = [Stroke(mark, [[(0, up), (15, up)]]) for mark, up in zip(marks, (3, 0), strict=True)]
    upper, lower = ("⠉⠉" if marks[0] == BRAILLE else "aa", 0), ("⣀⣀" if marks[1] == BRAILLE else "bb", 1)
    assert draw_strokes(strokes, 8, 1) == [[upper, lower, upper, lower]]


def test_a_picture_has_nothing_of_those_before_it_of_the_same_size() -> None:
    first, second = [Stroke(BRAILLE, [[(0, 3), (5, 3)]])], [Stroke("*", [[(2, 7)]]), Stroke("+", [[(4, 0), (6, 0)]])]
    alone = picture(second, 8, 2)
    drawn = [picture(strokes, 8, 2) for strokes in (first, second, first, second)]
    assert drawn == [picture(first, 8, 2), alone] * 2
    assert dots(drawn[0]) == {(across, 3) for across in range(6)}


def test_nothing_to_draw() -> None:
    assert picture([], 4, 2) == ["    "] * 2
    assert picture([Stroke(BRAILLE, [[]])], 4, 2) == ["    "] * 2


def test_the_size_of_the_terminal_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("LINES", "5")
    assert [len(line) for line in picture([Stroke(BRAILLE, [[(0, 0), (399, 199)]])], 200, 50)] == [200] * 50


def test_the_shared_figure_of_plotext_is_left_alone(capfd: pytest.CaptureFixture[str]) -> None:
    import plotext

    before = (plotext.figure.size(), plotext.figure.build().string(), plotext.terminal.size())
    draw_strokes([Stroke(BRAILLE, [[(0, 0), (30, 9)]])], 100, 40)
    assert (plotext.figure.size(), plotext.figure.build().string(), plotext.terminal.size()) == before
    assert capfd.readouterr() == ("", "")
