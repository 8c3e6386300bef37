"""Regexes of Python's, searched for in linear time: they find what Python finds, and say what cannot be found so."""

import re
import time
import warnings

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rsmq_tui.monitor.filters.matching import Regex, RegexError, compile_regex
from tests.cli.running import python

# In linear time these take some ms for a million letters; backtracking takes years for forty.
RUNAWAYS = [
    "(a|a)*$", "(a+)+$", "(a*)*b", "(a|aa)+$", "(.*a){20}", "(a?){25}a{25}b", "(x+x+)+y", "([a-z]+)*=", r"(\w+\s?)*$",
    "(.*)*b", "^(([a-z])+.)+[A-Z]([a-z])+$", "(a|a|a)*b", "(?:a*)*c", "(a+a+)+b", "(a|b|ab)*c", "((a+)+)+b",
    "^(a?a?a?)*b", "(aa|a)*$b", r"^(\d|a|\w)*;", "(.|a)*b", "(?i)(a|A)*b",
]  # fmt: skip
BODIES = ["a" * 1_000_000 + "!", "ab" * 500_000, "é" * 100_000 + "a" * 100_000, "x" * 1_000_000]


def in_python(pattern: str, body: bytes) -> bool:
    """Search as Python does: what is no UTF-8 is a character for each byte."""
    return re.search(pattern, body.decode("utf-8", "surrogateescape")) is not None


@pytest.mark.parametrize("pattern", RUNAWAYS)
def test_no_regex_takes_long(pattern: str) -> None:
    regex = compile_regex(pattern)
    before_s = time.process_time()
    for body in BODIES:
        regex.is_in(body.encode())
    regex.positions([body.encode() for body in BODIES])
    assert time.process_time() - before_s < 20


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("(", "not a regex: missing )"),
        ("a)", "not a regex: unexpected )"),
        ("[a", "not a regex: missing ]"),
        ("*a", "nothing to repeat before *"),
        ("a**", "multiple repeat: **"),
        ("[b-a]", "unknown class or range: b-a"),
        (r"\p{Foo}", r"unknown class or range: \p{Foo}"),
        (r"\q", r"unknown escape: \q"),
        (r"\x4", "unknown escape: \\x4"),
        ("a\\", "not a regex: trailing \\"),
        (r"\u12", r"as in \u00e9"),
        ("(?q)a", "unknown flag q"),
        ("(?#a", "the comment is not closed"),
        ("a{1001}", "from 0 to 1000, not {1001}"),
        (r"\pL{400}", "too large"),
        ("(a|b)*a" + "(?:a|b){1000}" * 3, "too large"),
        (r"(a)\1", "write out the repeated text"),
        ("(?P<x>a)(?P=x)", "write out the repeated text"),
        ("a(?=b)", "include the surrounding text"),
        ("a(?!b)", '!body~"b"'),
        ("(?<=a)b", "include the surrounding text"),
        ("(?<!a)b", "include the surrounding text"),
        ("(?>a)", "write (?:…)"),
        ("(a)?(?(1)b|c)", "write both cases"),
        ("a++", "write * instead of *+"),
        ("(?x)a b", "without blanks"),
    ],
)
def test_what_cannot_be_is_said(pattern: str, words: str) -> None:
    with pytest.raises(RegexError) as caught:
        compile_regex(pattern)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("pattern", "body", "finds"),
    [
        ("^777$", b"777\n", True),
        ("^777$", b"777\n\n", False),
        (r"777\Z", b"777\n", False),
        (r"\A77", b"\n77", False),
        ("(?m)^77$", b"a\n77\nb", True),
        ("(?m:^77$)", b"a\n77\nb", True),
        ("a.b", b"a\nb", False),
        ("(?s)a.b", b"a\nb", True),
        (r"a[\s\S]b", b"a\nb", True),
        ("^.$", b"\xff", True),
        ("^..$", b"\xff\xfe", True),
        ("^.$", "é".encode(), True),
        ("^[^a]$", b"\xc3", True),
        ("é", "é".encode(), True),
        (r"\xe9", "é".encode(), True),
        (r"\u00e9", "é".encode(), True),
        (r"\U0001f600", "😀".encode(), True),
        (r"\é", "é".encode(), True),
        ("\xff", b"\xff", False),
        ("x\udcffy", b"x\xffy", True),
        (r"^\w+$", "Größe".encode(), True),
        (r"^\W+$", "Größe".encode(), False),
        (r"^\d+$", b"42", True),
        (r"^[\W]+$", "– !".encode(), True),
        (r"^[^\W\d_]+$", "Größe".encode(), True),
        (r"^[^\W\d_]+$", b"a1", False),
        (r"^\W$", b"\xff", True),
        (r"^\s+$", "\u2003\xa0\v\x1c".encode(), True),
        (r"^\S+$", "\u2003".encode(), False),
        (r"^[\w-]+$", "Größe-1".encode(), True),
        (r"^[^\s]+$", "\u2003".encode(), False),
        (r"(?a)^\w+$", "Größe".encode(), False),
        ("(?i)GRÖSSE", "grösse".encode(), True),
        ("(?i)k", "\u212a".encode(), True),
        (r"[\b]", b"\b", True),
        ("a{,2}b", b"aab", True),
        ("^a{,2}b", b"aaab", False),
        ("(?#why)a", b"a", True),
        (r"^\pL+$", "Größe".encode(), True),
        (r"^\pL{3}$", b"abc", True),
        ("[]a]b", b"]b", True),
        ("[[:digit:]]x", b"7x", True),
        ("", b"", True),
    ],
)  # fmt: skip
def test_a_regex_means_what_it_means_in_python(pattern: str, body: bytes, finds: bool) -> None:
    regex = compile_regex(pattern)
    assert regex.is_in(body) is finds
    others = [b"", "zß".encode(), b"\xff\xff"]
    assert (0 in regex.positions([body])) is finds
    assert (1 in regex.positions([others[0], body, *others])) is finds
    if "p" not in pattern and "[:" not in pattern:
        assert in_python(pattern, body) is finds


_PATTERNS = st.one_of(
    st.text(alphabet="ab7é|[]()*+?^$.\\-{},2 \n", max_size=10),
    st.lists(
        st.sampled_from(
            ["a", "b", "7", "é", ".", "|", "(", "(?:", ")", "*", "+", "?", "{2}", "{,2}", "^", "$", "[^a]", "[ab]",
             r"\d", r"\w", r"\W", r"\s", r"\S", r"[\d_]", r"[^\s]", r"[\W_]", r"\Z", r"\A", "(?i)", "(?m)",
             "(?s:", r"\n", " "]
        ),
        max_size=6,
    ).map("".join),
)  # fmt: skip
_BODIES = st.one_of(
    st.text("ab7éжK_ \n–\u2003", max_size=12).map(str.encode),
    st.lists(st.sampled_from([b"a", b"b", b"7", b"\xff", b"\xc3", b"\n", "é".encode()]), max_size=6).map(b"".join),
)


@given(pattern=_PATTERNS, bodies=st.lists(st.none() | _BODIES, max_size=8))
@example(pattern="ab", bodies=[b"a", b"b"])
@example(pattern="a", bodies=[b"", None, b"a"])
@example(pattern="ab", bodies=[b"\xff", b"ab", b"\xffab"])
@example(pattern="^a|b$", bodies=[b"a", b"ba", b"ab\n"])
def test_a_regex_finds_in_many_bodies_what_python_finds_in_each(pattern: str, bodies: list[bytes | None]) -> None:
    try:
        with warnings.catch_warnings():
            # Python warns of what may mean something else one day.
            warnings.simplefilter("ignore")
            regex, peer = compile_regex(pattern), re.compile(pattern)
    except (RegexError, re.error):
        return
    # A $ that a line's end must follow holds in Python only, and in no body that anybody means.
    if re.search(r"\$[^|)]*[\\\n.\[$^]", pattern):
        return
    texts = [None if body is None else body.decode("utf-8", "surrogateescape") for body in bodies]
    expected = [place for place, text in enumerate(texts) if text is not None and peer.search(text)]
    assert [place for place, body in enumerate(bodies) if body is not None and regex.is_in(body)] == expected
    assert regex.positions(bodies) == expected


def test_what_python_takes_is_taken_or_told_apart() -> None:
    for pattern in (
        "a|b",
        "(?P<name>a)(?P<other>b)",
        r"\.\*\[\]\(\)\|\^\$",
        r"[\]\-\\^]",
        "a{2,}?b*?c+?d??",
        r"\bab\B",
    ):
        Regex(pattern)


def test_the_engine_is_imported_when_a_regex_is_made() -> None:
    modules = "rsmq_tui.cli.main, rsmq_tui.tui.app, rsmq_tui.monitor.filters.matching"
    code = f"import sys, {modules}; sys.exit('re2' in sys.modules)"
    assert python(code).returncode == 0
