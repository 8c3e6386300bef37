"""Searching many bodies at once finds what searching each for itself finds."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rsmq_tui.monitor.body_search import REGEX_CHARS, search_for_regex, search_for_text

# What may be searched as one, and what may not: an end of a text, an empty match, what stands for other characters.
_REGEXES = [
    "a",
    "ab",
    "a+b",
    "[ab]7",
    "7[0-9]7",
    "a|b7",
    "(ab)+",
    "a*",
    "^a",
    "a$",
    "a.b",
    "[^a]b",
    r"\bab",
    "(?i)AB",
    "b?",
]
_BODIES = st.lists(
    st.one_of(
        st.none(),
        st.text("ab7 \n", max_size=6).map(str.encode),
        st.text("ab\xff\u017fK", max_size=4).map(lambda text: text.encode("utf-8", "surrogatepass")),
        st.lists(st.sampled_from([b"a", b"b", b"7", b"\xff", b"\xc3"]), max_size=6).map(b"".join),
    ),
    max_size=8,
)


@given(bodies=_BODIES, regex=st.sampled_from(_REGEXES))
@example(bodies=[b"a", b"b"], regex="ab")
@example(bodies=[b"", b"", b"a"], regex="a")
@example(bodies=[b"\xff", b"ab", b"\xffab"], regex="ab")
def test_a_regex_finds_in_many_bodies_what_it_finds_in_each(bodies: list[bytes | None], regex: str) -> None:
    each = [
        place
        for place, body in enumerate(bodies)
        if body is not None and re.search(regex, body.decode("utf-8", "surrogateescape"))
    ]

    assert search_for_regex(regex)(bodies) == each


@pytest.mark.parametrize("place", [REGEX_CHARS - 1, REGEX_CHARS])
def test_a_regex_looks_at_the_beginning_of_a_long_body(place: int) -> None:
    bodies = [b"a", b"-" * place + b"a", b"b"]

    assert search_for_regex("a")(bodies) == ([0, 1] if place < REGEX_CHARS else [0])


@given(bodies=_BODIES, text=st.text("abAB7\u017fsSkK\xdf", max_size=3))
@example(bodies=["a\u017fb".encode()], text="asb")
@example(bodies=["\u212a".encode(), b"K"], text="k")
@example(bodies=["\xdf".encode(), b"SS"], text="ss")
def test_a_text_is_found_in_small_letters_and_large(bodies: list[bytes | None], text: str) -> None:
    each = [
        place
        for place, body in enumerate(bodies)
        if body is not None and text.casefold() in body.decode("utf-8", "surrogateescape").casefold()
    ]

    assert search_for_text(text)(bodies) == each
