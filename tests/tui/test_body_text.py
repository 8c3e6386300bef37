"""Bodies as lines: JSON set out without changing a token, text as text, anything else in hex."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from rsmq_tui.monitor.text import printable
from rsmq_tui.tui.widgets.text_view import PRETTY_BYTES_MAX, View, first_view, is_json, lines_of

_SPACE = st.text(" \t\n\r", max_size=3)
_STRINGS = st.text(max_size=12).map(json.dumps) | st.text(
    st.characters(min_codepoint=0x20, exclude_characters='"\\', exclude_categories=["Cs"]), max_size=40
).map('"{}"'.format)
_NUMBERS = st.from_regex(r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,9})?([eE][+-]?[0-9]{1,4})?", fullmatch=True)
_SCALARS = _STRINGS | _NUMBERS | st.sampled_from(["true", "false", "null"])


def _listed(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    items = st.lists(st.builds("{}{}{}".format, _SPACE, values, _SPACE), max_size=4)
    return st.builds("[{}{}]".format, items.map(",".join), _SPACE) | st.builds(
        "{{{}{}}}".format,
        st.lists(st.builds("{}{}{}:{}{}".format, _SPACE, _STRINGS, _SPACE, _SPACE, values), max_size=4).map(",".join),
        _SPACE,
    )


JSON_TEXTS = st.builds("{}{}{}".format, _SPACE, st.recursive(_SCALARS, _listed, max_leaves=30), _SPACE)


def _lines(body: bytes, view: View, width: int = 80) -> list[str]:
    lines = lines_of(body, view, width)
    return ["".join(text for text, _ in lines[number]) for number in range(len(lines))]


def _pretty(text: str, width: int = 80) -> list[str]:
    assert first_view(text.encode()) is View.PRETTY
    return _lines(text.encode(), View.PRETTY, width)


def _compact(text: str) -> str:
    """JSON text without the whitespace that means nothing."""
    return "".join(re.findall(r'"(?:[^"\\]|\\.)*"|[^\s"]+', text))


@given(JSON_TEXTS)
def test_tokens_are_those_of_the_text(text: str) -> None:
    json.loads(text)
    assert _compact("\n".join(_pretty(text, 100_000))) == printable(_compact(text))


@given(JSON_TEXTS, st.integers(4, 60))
def test_rows_fit_the_width_and_lose_nothing(text: str, width: int) -> None:
    rows = _pretty(text, width)
    assert all(cell_len(row) <= width for row in rows)
    whole = "".join(_pretty(text, 100_000))
    assert "".join(rows) == whole


@given(JSON_TEXTS)
def test_lines_are_as_many_as_json_itself_would_set_out(text: str) -> None:
    # Objects lose double keys in Python.
    if "{" not in text:
        assert len(_pretty(text, 100_000)) == len(json.dumps(json.loads(text), indent=2).splitlines())


@pytest.mark.parametrize(
    "token",
    ["1.10", "1e400", "-0", "0.10000000000000000000001", "12345678901234567890123", "1E5", "-1.5e-300",
     '"\\u00e9\\ud83d\\ude00"', '"\\/"', '"a\\"b\\\\"', '"\\ud800"', "true", "null"],
)  # fmt: skip
def test_a_token_stays_as_it_was_sent(token: str) -> None:
    assert _pretty(f'{{"k":{token},"l":[{token}]}}') == [
        "{",
        f'  "k": {token},',
        '  "l": [',
        f"    {token}",
        "  ]",
        "}",
    ]
    assert _pretty(token) == [token]


def test_double_keys_stay_both_and_in_their_order() -> None:
    assert _pretty('{"b":1,"a":2,"b":3}') == ["{", '  "b": 1,', '  "a": 2,', '  "b": 3', "}"]


def test_layout_of_nested_and_empty_containers() -> None:
    assert _pretty(' [ { } , [ ] ,{"a":[[],{"b":{}}]}]\n') == [
        "[",
        "  {},",
        "  [],",
        "  {",
        '    "a": [',
        "      [],",
        "      {",
        '        "b": {}',
        "      }",
        "    ]",
        "  }",
        "]",
    ]


def test_tokens_are_coloured_by_what_they_are() -> None:
    lines = lines_of(b'{"k":["s",1,true,null]}', View.PRETTY, 80)
    pieces = [piece for number in range(len(lines)) for piece in lines[number] if piece[0].strip()]
    assert [piece for piece in pieces if piece[1] != "muted"] == [
        ('"k"', "json-key"),
        ('"s"', "json-string"),
        ("1", "json-number"),
        ("true", "json-word"),
        ("null", "json-word"),
    ]
    assert {text.strip() for text, token in pieces if token == "muted"} == {"{", "}", "[", "]", ":", ","}


def test_wide_characters_are_wrapped_by_cells() -> None:
    rows = _pretty('["' + "世界" * 50 + '"]', 40)
    assert all(cell_len(row) <= 40 for row in rows)
    assert "".join(rows).count("世界") == 50
    rows = _lines(("世" * 100).encode(), View.RAW, 41)
    assert [cell_len(row) for row in rows] == [40] * 5


def test_characters_that_could_do_harm_are_pictured_and_still_fit() -> None:
    rows = _pretty('["' + "\u202e" * 30 + '\x7f"]', 40)
    assert "".join(rows).count("\\u202e") == 30
    assert "␡" in "".join(rows)
    assert all(cell_len(row) <= 40 for row in rows)
    rows = _lines("a\x1b[2Jb\u2028c\x9bd".encode(), View.RAW, 40)
    assert rows == ["a␛[2Jb c\\u009bd"]


@pytest.mark.parametrize(
    ("body", "view"),
    [(b"{}", View.PRETTY), (b" 1 ", View.PRETTY), (b"NaN", View.PRETTY), (b"", View.RAW), (b"hello", View.RAW),
     (b"{'a': 1}", View.RAW), (b'{"a": 1', View.RAW), (b"\xff", View.HEX), (b"a\0b", View.HEX),
     ("größe".encode(), View.RAW), (b"\xef\xbb\xbf{}", View.RAW), (b"[" * 100_000, View.RAW),
     (b"1" * PRETTY_BYTES_MAX, View.PRETTY), (b"1" * (PRETTY_BYTES_MAX + 1), View.RAW)],
    ids=lambda value: repr(value[:12]),
)  # fmt: skip
def test_the_first_view_suits_the_body(body: bytes, view: View) -> None:
    assert first_view(body) is view


def test_pretty_of_what_is_no_json_is_the_text() -> None:
    assert not is_json(b"hello")
    assert _lines(b"hello", View.PRETTY) == ["hello"]


def test_text_is_cut_into_lines_and_rows() -> None:
    assert _lines(b"one\r\ntwo\n\nthree", View.RAW) == ["one", "two", "", "three"]
    assert _lines(b"one\n", View.RAW) == ["one"]
    assert _lines(b"", View.RAW) == [""]
    assert _lines(b"\n\n", View.RAW) == ["", ""]
    assert _lines(b"a\tb", View.RAW) == ["a   b"]
    assert _lines(b"x" * 100, View.RAW, 40) == ["x" * 40, "x" * 40, "x" * 20]
    assert _lines(b"a\xffb\xc3", View.RAW) == ["a\\xffb\\xc3"]


@given(st.binary(max_size=400), st.integers(20, 90))
def test_any_bytes_can_be_looked_at_in_every_view(body: bytes, width: int) -> None:
    for view in (View.PRETTY, View.RAW):
        for row in _lines(body, view, width):
            assert row.isprintable()
            assert cell_len(row) <= width
    assert len(_lines(body, View.HEX, width)) == max(1, -(-len(body) // 16))


@given(st.binary(max_size=100))
def test_hex_tells_every_byte(body: bytes) -> None:
    rows = _lines(body, View.HEX)
    assert bytes.fromhex("".join(row[10:59] for row in rows)) == body
    for number, row in enumerate(rows):
        assert row.startswith(f"{number * 16:08x}  ")
        assert row[60:].isascii() or "·" in row[60:]


def test_hex_sets_out_sixteen_bytes_a_line() -> None:
    assert _lines(b"\x00\x1bABCDEFGHIJKLMNOP", View.HEX) == [
        "00000000  00 1b 41 42 43 44 45 46  47 48 49 4a 4b 4c 4d 4e  ··ABCDEFGHIJKLMN",
        "00000010  4f 50                                             OP",
    ]


def test_a_long_text_that_is_not_ascii_is_cut_without_measuring_it() -> None:
    rows = _lines(("世" * 1_000_001).encode(), View.RAW, 80)
    assert {len(row) for row in rows[:-1]} == {40}
    assert sum(map(len, rows)) == 1_000_001
