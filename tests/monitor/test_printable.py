"""Untrusted text is made harmless: nothing of it can move the cursor, hide, or reorder what is around it."""

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rsmq_tui.monitor.text import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("plain text, [b]markup[/b] & <tags>", "plain text, [b]markup[/b] & <tags>"),
        # Escapes and other C0 controls, DEL, C1 controls.
        ("\x1b[31mred\x1b[0m", "␛[31mred␛[0m"),
        ("\x1b]0;title\x07", "␛]0;title␇"),
        ("\x1b]8;;http://evil\x1b\\link", "␛]8;;http://evil␛\\link"),
        ("a\x00b", "a␀b"),
        ("a\r\n\tb\x7f", "a␍␊␉b␡"),
        ("\x9b31m\x90\x9d", "\\u009b31m\\u0090\\u009d"),
        # Bidirectional and invisible ones.
        ("\u202egnp.exe\u202c", "\\u202egnp.exe\\u202c"),
        ("\u2066x\u2069\u200f\u061c", "\\u2066x\\u2069\\u200f\\u061c"),
        ("a\u200bb\u200cc\u2060d\ufeff", "a\\u200bb\\u200cc\\u2060d\\ufeff"),
        ("soft\u00adhyphen", "soft\\u00adhyphen"),
        ("\U000e0041", "\\U000e0041"),
        # Other spaces and line ends.
        ("a\u00a0b\u3000c\u2028d\u2029e\x85f", "a b c d e f"),
        # What was no UTF-8, and surrogates that came otherwise.
        (b"\xff\x00\xfe".decode("utf-8", "surrogateescape"), "\\xff␀\\xfe"),
        ("\ud800 \udfff \udc00", "\\ud800 \\udfff \\udc00"),
        # Private and unassigned characters.
        ("\ue000\U0010ffff", "\\ue000\\U0010ffff"),
        # What people write stays.
        ("naïve Ωmega Привет", "naïve Ωmega Привет"),
        ("订单 注文 주문", "订单 注文 주문"),
        ("🚀 👍🏽 ❤\ufe0f", "🚀 👍🏽 ❤\ufe0f"),
        ("e\u0301", "e\u0301"),
        ("שלום مرحبا", "שלום مرحبا"),
    ],
)
def test_printable(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(
    st.text(st.characters(exclude_categories=[])) | st.binary().map(lambda raw: raw.decode("utf-8", "surrogateescape"))
)
@example("\x1b[31m\u202e\ud800")
def test_never_returns_a_control_or_an_invisible_character(text: str) -> None:
    shown = printable(text)

    assert not {unicodedata.category(character) for character in shown} & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    assert shown.isprintable()
    shown.encode()
    assert printable(shown) == shown


@given(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E)))
def test_plain_ascii_stays_as_it_is(text: str) -> None:
    assert printable(text) == text


@given(st.text(st.characters(exclude_categories=[])), st.integers(1, 50))
def test_a_limit_is_kept(text: str, limit: int) -> None:
    shown = printable(text, limit)

    assert len(shown) <= limit
    if len(printable(text)) <= limit:
        assert shown == printable(text)
    else:
        assert shown.endswith("…")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("0123456789", "0123456789"),
        ("0123456789a", "012345678…"),
        ("\u202e" * 11, "\\u202e\\u2…"),
        ("\x1b" * 11, "␛␛␛␛␛␛␛␛␛…"),
    ],
)
def test_a_cut_is_marked(text: str, shown: str) -> None:
    assert printable(text, 10) == shown


def test_ten_megabytes_are_no_trouble() -> None:
    assert printable("\x1b" * 10_000_000, 40) == "␛" * 39 + "…"
