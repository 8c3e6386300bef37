"""Lines of keys: right for whatever Python's own reader can read."""

import tomllib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rsmq_tui.profiles.values import KeyPath, lines_of

TEXTS: dict[str, tuple[str, dict[KeyPath, int]]] = {
    "nothing": ("", {}),
    "comments": ("# a = 1\n\n  # [b]\n", {}),
    "keys": ("a = 1\nb = 2 # c = 3\n\nd=4", {("a",): 1, ("b",): 2, ("d",): 4}),
    "dotted": ('a.b = 1\na . c."d.e" = 2', {("a",): 1, ("a", "b"): 1, ("a", "c"): 2, ("a", "c", "d.e"): 2}),
    "quoted": ('"a b" = 1\n\'c"\' = 2\n"\\u00e9\\n" = 3', {("a b",): 1, ('c"',): 2, ("é\n",): 3}),
    "tables": ("[a]\nb = 1\n[a.c]\n\nd = 1", {("a",): 1, ("a", "b"): 2, ("a", "c"): 3, ("a", "c", "d"): 5}),
    "a table before its parent": (
        "[a.b]\nc=1\n[a]\nd=1",
        {("a",): 1, ("a", "b"): 1, ("a", "b", "c"): 2, ("a", "d"): 4},
    ),
    "spaces in a header": ("[ a . 'b' ] # x\nc=1", {("a",): 1, ("a", "b"): 1, ("a", "b", "c"): 2}),
    "arrays of tables": (
        "[[a]]\nb=1\n[[a]]\n[a.c]\nd=1",
        {("a",): 1, ("a", 0): 1, ("a", 0, "b"): 2, ("a", 1): 3, ("a", 1, "c"): 4, ("a", 1, "c", "d"): 5},
    ),
    "strings over lines": (
        'a = """\nb = 1\n[c]\n\\"""\n"""\nd = \'\'\'\n"""\n\'\'\'\ne = 1',
        {("a",): 1, ("d",): 6, ("e",): 9},
    ),
    "quotes at the end of strings": ("a = \"\"\"x\"\"\"\"\"\nb = '''x'''''\nc = 1", {("a",): 1, ("b",): 2, ("c",): 3}),
    "escapes": ('a = "\\\\"\nb = "\\" # ]"\nc = 1', {("a",): 1, ("b",): 2, ("c",): 3}),
    "arrays over lines": (
        'a = [ # ]\n  "b,]",\n\n  [1, 2],\n]\nc = 1',
        {("a",): 1, ("a", 0): 2, ("a", 1): 4, ("a", 1, 0): 4, ("a", 1, 1): 4, ("c",): 6},
    ),
    "inline tables": (
        "a = { b = 1, c.d = [\n1], 'e' = {} }\nf = 1",
        {("a",): 1, ("a", "b"): 1, ("a", "c"): 1, ("a", "c", "d"): 1, ("a", "c", "d", 0): 2, ("a", "e"): 1, ("f",): 3},
    ),
    "scalars": ("a = 1979-05-27 07:32:00\nb = -inf\nc = 0xFF\nd = 1e5", {("a",): 1, ("b",): 2, ("c",): 3, ("d",): 4}),
    "other line ends": ("a = 1\r\n\r\nb = '''\r\n'''\r\nc = 1", {("a",): 1, ("b",): 3, ("c",): 5}),
}


@pytest.mark.parametrize("name", TEXTS)
def test_each_key_and_each_element_has_its_line(name: str) -> None:
    text, lines = TEXTS[name]
    tomllib.loads(text)

    assert lines_of(text) == lines


def places(value: Any, place: KeyPath = ()) -> set[KeyPath]:
    """Every table, key and element of what tomllib read."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return {place, *(inner for key, each in items for inner in places(each, (*place, key)))}


KEYS = st.one_of(
    st.text("abAB09_-", min_size=1, max_size=3),
    st.text(max_size=4)
    .filter(lambda key: key.isprintable())
    .map(lambda key: '"' + key.replace("\\", "\\\\").replace('"', '\\"') + '"'),
    st.text('ab "#.=[]{},é', max_size=4).map(lambda key: f"'{key}'"),
)
DOTTED = st.lists(KEYS, min_size=1, max_size=3).flatmap(
    lambda keys: st.sampled_from([".", " . ", "\t."]).map(lambda dot: dot.join(keys))
)
ON_ONE_LINE = st.one_of(
    st.sampled_from(["1", "-0.5e3", "true", "1979-05-27T07:32:00Z", "07:32:00", "inf", "0x1_F"]),
    st.text("ab '#.=[]{},é", max_size=6).map(lambda text: f'"{text}"'),
    st.sampled_from(['"\\""', '"\\\\"', '"\\u00e9\\n"', "'\\'", "''", '""']),
)
SCALARS = st.one_of(
    ON_ONE_LINE,
    st.text("ab'#=[]{}\n\"", max_size=8).map(lambda text: '"""' + text.replace('"""', '""') + '\\""""'),
    st.text('ab"#=[]{}\n\\', max_size=8).map(lambda text: f"'''{text}'''"),
    st.sampled_from(['"""a""b"""""', "'''a''b'''''", '"""\\\n   \n a"""', '"""\n[a]\nb = 1\n"""']),
)
BLANKS = st.sampled_from(["", " ", "\n", "# ]}\",'''\n", "\n\n  "])


def arrays(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    elements = st.lists(st.tuples(BLANKS, values, BLANKS).map("".join), max_size=3).map(",".join)
    return st.tuples(elements, st.sampled_from(["", ",\n"]), BLANKS).map(
        lambda parts: f"[{parts[0]}{parts[1] if parts[0] else ''}{parts[2]}]"
    )


def inline_tables(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pairs = st.lists(st.tuples(DOTTED, values).map(lambda pair: f" {pair[0]} = {pair[1]} "), max_size=3)
    return pairs.map(lambda each: "{" + ",".join(each) + "}")


VALUES = st.recursive(SCALARS, lambda values: arrays(values) | inline_tables(values), max_leaves=5)
STATEMENTS = st.one_of(
    st.tuples(DOTTED, VALUES, st.sampled_from(["", " # [x] = '"])).map(lambda each: f"{each[0]} = {each[1]}{each[2]}"),
    DOTTED.map(lambda key: f"[{key}]"),
    DOTTED.map(lambda key: f"[[ {key} ]]"),
    st.sampled_from(["", "# [a]", "   "]),
)


def readable(statements: list[str]) -> list[str]:
    """Leave out what makes the text one that cannot be read: most made-up texts name a key twice."""
    kept: list[str] = []
    for statement in statements:
        try:
            tomllib.loads("\n".join([*kept, statement]))
        except tomllib.TOMLDecodeError:
            continue
        kept.append(statement)
    return kept


@settings(max_examples=80)
@given(st.lists(STATEMENTS, max_size=8), st.sampled_from(["\n", "\r\n"]))
def test_exactly_what_tomllib_reads_is_found_each_where_its_statement_is(statements: list[str], end: str) -> None:
    kept = readable(statements)
    lines = lines_of(end.join(statement.replace("\n", end) for statement in kept))

    assert lines.keys() == places(tomllib.loads("\n".join(kept))) - {()}
    # What a statement adds stands between its first line and its last, and nothing else does.
    known: set[tuple[str | int, ...]] = set()
    first = 1
    for number, statement in enumerate(kept):
        last = first + statement.count("\n")
        now = places(tomllib.loads("\n".join(kept[: number + 1]))) - {()}
        assert {first <= lines[place] <= last for place in now - known} <= {True}
        first, known = last + 1, now


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(BLANKS, ON_ONE_LINE, BLANKS), max_size=5))
def test_an_element_stands_where_it_begins(elements: list[tuple[str, str, str]]) -> None:
    text, begins = "a = [", []
    for before, value, after in elements:
        text += before
        begins.append(text.count("\n") + 1)
        text += f"{value}{after},"
    text += "]"
    tomllib.loads(text)

    lines = lines_of(text)

    assert [lines["a", number] for number in range(len(elements))] == begins
