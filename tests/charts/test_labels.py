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


@given(st.text(max_size=80), st.integers(0, 30))
def test_never_wider_and_never_a_control(text: str, width: int) -> None:
    fitted = fit_label(text, width)
    assert cell_len(fitted) <= width
    assert not any(ord(char) < 32 or 127 <= ord(char) < 160 for char in fitted)


def test_a_huge_label_is_cut_before_it_is_read() -> None:
    assert fit_label("x" * 50_000_000, 5) == "xxxx…"
