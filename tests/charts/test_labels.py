import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from rsmq_tui.charts.series import fit_label


@pytest.mark.parametrize(
    ("text", "width", "fitted"),
    [
        ("arrivals", 8, "arrivals"),
        ("arrivals", 7, "arriva…"),
        ("arrivals", 1, "…"),
        ("arrivals", 0, ""),
        ("", 5, ""),
        ("ab cd", 4, "ab…"),
        ("[bold]x[/foo]", 20, "[bold]x[/foo]"),
        ("\x1b[31mred", 20, "�[31mred"),
        ("a\r\n\tb\x00", 20, "a���b�"),
        ("\u202eabc\u200b\ud800\u2028", 20, "�abc���"),
        ("漢字漢字", 5, "漢字…"),
        ("漢字漢字", 4, "漢…"),
        ("naïve", 5, "naïve"),
    ],
)
def test_fit(text: str, width: int, fitted: str) -> None:
    assert fit_label(text, width) == fitted


def test_ascii() -> None:
    assert fit_label("naïve\x1b漢", 10, ascii_only=True) == "na?ve??"
    assert fit_label("arrivals", 4, ascii_only=True) == "arr~"


@given(st.text(max_size=80), st.integers(0, 30), st.booleans())
def test_never_wider_and_never_a_control(text: str, width: int, ascii_only: bool) -> None:
    fitted = fit_label(text, width, ascii_only=ascii_only)
    assert cell_len(fitted) <= width
    assert not any(ord(char) < 32 or 127 <= ord(char) < 160 for char in fitted)
    assert fitted.isascii() or not ascii_only


def test_a_huge_label_is_cut_before_it_is_read() -> None:
    assert fit_label("x" * 50_000_000, 5) == "xxxx…"
