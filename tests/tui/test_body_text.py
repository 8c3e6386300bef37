"""Bodies as lines: JSON set out without changing a token, text as text, anything else in hex."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from rsmq_tui.monitor.text import printable
from rsmq_tui.tui.widgets import body_lines
from rsmq_tui.tui.widgets.body_lines import (
    BLOCK_BYTES,
    BodyLines,
    JsonLines,
    TextSearch,
    View,
    first_view,
    found_in,
    is_json,
    lines_of,
    shown_lines,
    with_letters,
)
from rsmq_tui.tui.widgets.body_view import wrapped
from rsmq_tui.tui.widgets.painted import Piece

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


def _read(lines: BodyLines) -> BodyLines:
    while not lines.is_read:
        lines.read_on()
    return lines


def _rows(pieces: list[Piece], view: View, width: int) -> list[list[Piece]]:
    return [pieces] if view is View.HEX else wrapped(pieces, width)


def _lines(body: bytes, view: View, width: int = 80) -> list[str]:
    lines = _read(lines_of(body, view))
    rows = (row for number in range(len(lines)) for row in _rows(lines.pieces(number), view, width))
    return ["".join(text for text, _ in row) for row in rows]


def _pretty(text: str, width: int = 80) -> list[str]:
    assert first_view(text.encode()) is View.PRETTY
    return _lines(text.encode(), View.PRETTY, width)


def _compact(text: str) -> str:
    """JSON text without the whitespace that means nothing."""
    return "".join(re.findall(r'"(?:[^"\\]|\\.)*"|[^\s"]+', text))


@given(JSON_TEXTS)
def test_tokens_are_those_of_the_text(text: str) -> None:
    json.loads(text)
    assert _compact("\n".join(_pretty(text, 100_000))) == printable(with_letters(_compact(text)))


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
     '"\\/"', '"a\\"b\\\\"', '"\\ud800"', "true", "null"],
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


# Of what was escaped, what is shown.
LETTERS = {
    "gr\\u00f6\\u00DFe": "größe",
    "\\u4e16\\ud83d\\ude00": "世😀",
    "\\u0041\\u002b": "A+",
    # It would mean something else.
    "\\u0022\\u005c": "\\u0022\\u005c",
    "\\\\u00f6 \\\\\\u00f6": "\\\\u00f6 \\\\ö",
    # Lone surrogates, control characters, what changes the direction, is no character, or has no width.
    **{
        code: code for code in ("\\ud83d", "\\ude00x", "\\u001b", "\\u009b", "\\u202e", "\\ufeff", "\\ue000", "\\uffff")
    },
    **{
        code: code
        for code in ("\\u00a0", "\\u3000", "\\u2028", "\\u0301", "\\u1160", "\\u200d", "\\ud83c\\udffb", "\\n")
    },
}


@pytest.mark.parametrize(("sent", "shown"), LETTERS.items(), ids=[ascii(sent) for sent in LETTERS])
def test_escapes_of_letters_are_shown_as_letters(sent: str, shown: str) -> None:
    body = f'{{"{sent}":"{sent}"}}'
    assert _pretty(body) == ["{", f'  "{shown}": "{shown}"', "}"]
    assert _lines(body.encode(), View.RAW) == [body]


@pytest.mark.parametrize(("sent", "shown"), [("\\u00f6", "ö"), ("\\ud83d\\ude00", "😀"), ("\\\\u00f6", "\\\\u00f6")])
def test_a_long_string_is_not_cut_within_an_escape(sent: str, shown: str) -> None:
    for offset in range(len(sent)):
        lines = _read(JsonLines(f'["{"x" * offset}{sent * 10_000}"]'.encode()))
        assert "".join(_texts(lines)).replace(" ", "") == f'["{"x" * offset}{shown * 10_000}"]'


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
    lines = _read(lines_of(b'{"k":["s",1,true,null]}', View.PRETTY))
    pieces = [piece for number in range(len(lines)) for piece in lines.pieces(number) if piece[0].strip()]
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
     (b"1" * 1_000_001, View.RAW),
     (b"[" * 100_000 + b"]" * 100_000, View.PRETTY), (b"[" + b"1, " * 400_000 + b"1]", View.PRETTY),
     (b"[INFO] it began\n" * 80_000, View.RAW), (b"\xc3\xa9" * 600_001, View.RAW)],
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
    rows = _lines(("世" * 100_001).encode(), View.RAW, 80)
    assert max(map(len, rows)) == 40
    assert sum(map(len, rows)) == 100_001


# What a hostile or broken producer sends: nothing of it may be lost, hang, or take more than its share of memory.
HOSTILE = {
    "deep": b"[" * 9_000 + b"]" * 9_000,
    "open": b'{"a":[' * 9_000,
    "closed": b"]}" * 9_000,
    "one string": b'{"key":"' + b"x" * 300_000 + b'","after":1}',
    "escapes": b'["' + b'\\"' * 100_000 + b'",1]',
    "long key": b'{"' + "ké".encode() * 30_000 + b'" : 1}',
    "number": b"[" + b"1" * 300_000 + b",2]",
    "space": b"[" + b" " * 40_000 + b"1" + b"\n" * 9_000 + b"]",
    "quotes": b'["a' + b'"' * 30_001 + b",2]",
    "unterminated": b'["' + b"\\" * 100_001,
    "colons": b":" * 30_000,
    "words": b"a b,c " * 10_000,
    "cut": json.dumps([{"id": number, "s": "x,[{" * 3} for number in range(3000)]).encode()[:-7],
    "bytes": b'[{"a":"\xff\x00","b":\xfe}' * 3000,
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_json_loses_nothing(body: bytes) -> None:
    lines = _read(JsonLines(body))
    rows = (lines.pieces(number) for number in range(len(lines)))
    shown = "".join(text for row in rows for text, _ in row)
    assert re.sub(r"\s", "", shown) == re.sub(
        r"\s", "", printable(body.decode("utf-8", "surrogateescape")).replace("␊", "")
    )
    assert bool(lines.problem) == (not _is_python_json(body))
    # Each byte is in the line that number_at says.
    for offset in range(0, len(body), max(1, len(body) // 50)):
        number = lines.number_at(offset)
        assert number is not None
        line = lines.line(number)
        assert line.end > offset or body[line.end : offset + 1].isspace()


# Each was read again and again, from every byte or quote of it.
NEARLY = {
    "quotes that are escaped": b'["' + b'\\"' * 13_000,
    "the same after strings": b'["a",' + b'"x" ' * 9_000 + b'"' + b'\\"' * 13_000,
    "space after brackets": (b"{" + b" " * 33_000) * 8,
    "space that ends a block": (b"{" + b" " * 31_700) * 8,
    "space after a key": (b'"k"' + b" " * 40_000 + b": ") * 8,
}


@pytest.mark.parametrize("body", [*NEARLY.values(), *HOSTILE.values()], ids=[*NEARLY, *HOSTILE])
def test_what_is_nearly_json_is_read_in_few_steps(body: bytes) -> None:
    lines, steps = JsonLines(body), 0
    while not lines.is_read:
        lines.read_on()
        steps += 1
    assert steps <= 5 + 2 * len(body) // BLOCK_BYTES


def test_only_the_start_of_a_long_body_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    steps, read_on = [], JsonLines.read_on

    def counted(lines: JsonLines) -> None:
        steps.append(1)
        read_on(lines)

    monkeypatch.setattr(JsonLines, "read_on", counted)
    assert is_json(b'["' + b"x" * 9_000_000 + b'"]')
    assert not is_json(b"x" * 9_000_000)
    assert len(steps) < 20


def _is_python_json(body: bytes) -> bool:
    try:
        json.loads(body, parse_int=str)
    except RecursionError:
        return body.startswith(b"[[") and body.endswith(b"]]")
    except ValueError:
        return False
    return True


@given(
    st.lists(st.sampled_from([b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b" ", b"1", b'"a"', b'"b":', b"\xff"]))
)
def test_any_tokens_have_the_lines_that_were_counted(tokens: list[bytes]) -> None:
    body = b"".join(tokens)
    lines = _read(JsonLines(body))
    shown = "".join(text for number in range(len(lines)) for text, _ in lines.pieces(number))
    assert re.sub(r"\s", "", shown) == re.sub(r"\s", "", printable(body.decode("utf-8", "surrogateescape")))


@given(JSON_TEXTS, st.integers(40, 90))
def test_lines_do_not_depend_on_the_blocks(text: str, size: int) -> None:
    body = text.encode()
    whole = _read(JsonLines(body))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(body_lines, "BLOCK_BYTES", size)
        parts = _read(JsonLines(body))
        assert not parts.problem
        assert "".join(_texts(parts)).replace(" ", "") == "".join(_texts(whole)).replace(" ", "")
        if not any(line.token for line in map(parts.line, range(len(parts)))):
            assert _texts(parts) == _texts(whole)


def _texts(lines: BodyLines) -> list[str]:
    return ["".join(text for text, _ in lines.pieces(number)) for number in range(len(lines))]


def test_brackets_find_their_partners_over_many_blocks() -> None:
    document = {"a": [{"n": number, "l": [1, [2]]} for number in range(2000)], "z": {}}
    lines = _read(JsonLines(json.dumps(document).encode()))
    assert isinstance(lines, JsonLines)
    texts = json.dumps(document, indent=2).splitlines()
    assert _texts(lines) == texts
    opened: list[int] = []
    for number, text in enumerate(texts):
        if text.rstrip(",").endswith(("}", "]")) and not text.rstrip(",").endswith(("{}", "[]")):
            start = opened.pop()
            if number % 97 < 7 or number > len(texts) - 9:
                assert lines.end_of(start) == number
                assert list(lines.openers(number)) == [start, *reversed(opened)]
        elif text.endswith(("{", "[")):
            opened.append(number)


def _found(body: bytes, text: str, start: int, step: int) -> int | None:
    steps = TextSearch(text).next_in(body, start, step)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            place: int | None = end.value
            return place


def test_a_text_is_found_around_the_body_in_both_directions() -> None:
    body = b"Alpha " + b"." * 300_000 + b' "key":"beta" ' + b"." * 300_000 + b" ALPHA"
    last, key = len(body) - 5, body.index(b'"key"')
    assert [_found(body, "alpha", start, 1) for start in (0, 1, last + 1)] == [0, last, 0]
    assert [_found(body, "alpha", start, -1) for start in (last, 0, len(body))] == [0, last, last]
    assert _found(body, "Alpha", 1, 1) == 0
    assert _found(body, '"key": "beta"', 0, 1) == key
    assert _found(body, "gamma", 5, 1) is _found(body, "gamma", 5, -1) is None
    assert found_in([('  "key"', "json-key"), (": ", "muted"), ("1", "")], TextSearch('y": 1').shown) == [
        ('  "ke', "json-key"),
        ('y"', "json-key changed"),
        (": ", "muted changed"),
        ("1", " changed"),
    ]


@pytest.mark.parametrize(
    ("text", "stored", "is_found"),
    [("größe", "gr\\u00f6\\u00DFe", True), ("größe", "GRÖßE", True), ("Größe", "größe", False),
     ("a+b", "a\\u002Bb", True), ("😀", "\\ud83d\\ude00", True),
     ("\\u00f6", "\\u00f6", True), ("a.b", "axb", False), ("f6", "\\u00f6", True)],
)  # fmt: skip
def test_a_text_is_found_as_it_is_shown_and_as_it_is_stored(text: str, stored: str, is_found: bool) -> None:
    assert (_found(f'{{"k":"{stored}"}}'.encode(), text, 0, 1) is not None) is is_found


def test_long_json_is_known_line_by_line_and_short_of_memory() -> None:
    body = b"[" + b'{"a":1},' * 200_000 + b"1]"
    lines = JsonLines(body)
    assert 0 < len(lines) <= BLOCK_BYTES
    assert not lines.is_read
    assert lines.number_at(len(body) - 1) is None
    assert lines.end_of(0) is None
    _read(lines)
    assert len(lines) == 600_003
    assert lines.end_of(0) == 600_002
    assert len(lines._starts) < 300


def test_a_pager_gets_what_is_shown() -> None:
    assert "".join(shown_lines(b'{"a":"\x7f"}', View.PRETTY)) == '{\n  "a": "␡"\n}\n'
    assert "".join(shown_lines(b"a\x1b[2J\nb", View.RAW)) == "a␛[2J\nb\n"
