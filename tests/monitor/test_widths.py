"""Texts are measured in the columns of a terminal, and cut to them."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsmq_tui.monitor.text import cells, fitted, printable


@pytest.mark.parametrize(
    ("text", "columns"),
    [("orders", 6), ("订单", 4), ("naïve", 5), (unicodedata.normalize("NFD", "naïve"), 5), ("한글", 4),
     (unicodedata.normalize("NFD", "한글"), 4), ("हिन्दी", 5), ("ｱ", 1), ("", 0)],
)  # fmt: skip
def test_columns(text: str, columns: int) -> None:
    assert cells(text) == columns
    assert fitted(text, columns) == text


@pytest.mark.parametrize(
    ("text", "width", "cut"),
    [("orders", 5, "orde…"), ("订单订单", 6, "订单…"), ("订单订单", 7, "订单订…"),
     ("e\u0301" * 9, 8, "e\u0301" * 7 + "…")],
)  # fmt: skip
def test_a_text_is_cut_to_the_columns(text: str, width: int, cut: str) -> None:
    assert fitted(text, width) == cut


@given(st.text(max_size=60), st.integers(1, 30))
def test_a_cut_text_is_never_wider(text: str, width: int) -> None:
    assert cells(fitted(printable(text), width)) <= width
