"""What a server checks for a search: every body that matches passes, whatever it holds."""

from collections.abc import Iterator

import pytest
import redis
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.monitor import parse_filter
from rsmq_tui.monitor.filters import language
from rsmq_tui.monitor.filters.json_paths import quoted
from rsmq_tui.monitor.filters.language import FilterError
from rsmq_tui.monitor.filters.matching import FOLDED_BY_TEXTS
from rsmq_tui.protocol.rsmq.scan_strategies import BodyFilter
from rsmq_tui.protocol.rsmq.scripts import FILTERED_BODIES

pytestmark = pytest.mark.slow

_LETTERS = "abkKsS7 .\n\0\xe9\xdf\u017f\u212a\ufb01]-^"
_BODIES = st.lists(
    st.one_of(
        st.text(_LETTERS, max_size=12).map(lambda text: text.encode("utf-8", "surrogatepass")),
        st.lists(st.sampled_from([b"a", b"bk", b"7", b"\xff", b"\xc3", b"\xa9", b"ss", b"\0"]), max_size=8).map(
            b"".join
        ),
    ),
    min_size=1,
    max_size=12,
)
_PIECES = st.sampled_from(
    [
        *(
            "a",
            "b",
            "k",
            "S",
            "7",
            "ab",
            "kS7",
            "\\d",
            "\\.",
            "\\n",
            "\\w",
            "\\x41",
            "\\-",
            "\\\\",
            ".",
            "^",
            "$",
            "\xe9",
        ),
        *("-", "]", "[ab]", "[^a]", "[a-k]", "[]a]", "[^]a]", "[a\\]b]", "[[:alpha:]]", "[[:alpha:]7]", "[\\d7k]"),
        *("[a\xe9]", "[k-]", "[[a]", "(?i)", "(?i:k", "(?:a", "(a|b)", "(", ")", "|", "(?#a])", "*", "+", "?", "{2}"),
        *("{0,1}", "{1,}", "{,2}", "{}", "{", "{3}?"),
    ]
)
_REGEXES = st.lists(_PIECES, min_size=1, max_size=7).map("".join)


@pytest.fixture
def weak(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the server check what tells little too."""
    monkeypatch.setattr(language, "_BITS_MIN", 0.1)


@pytest.fixture(scope="module")
def server() -> Iterator[redis.Redis]:
    with EmbeddedServer() as embedded, redis.Redis.from_url(embedded.url) as client:
        yield client


def _passing(server: redis.Redis, wanted: BodyFilter, bodies: list[bytes]) -> set[bytes]:
    """Return the bodies that the server returns."""
    server.flushdb()
    server.hset("q", mapping={b"%032d" % number: body for number, body in enumerate(bodies)})
    flags = int(wanted.is_plain), int(wanted.in_lower), 1_000_000
    reply = server.eval(FILTERED_BODIES.text, 2, "z", "q", 0, 1_000, wanted.pattern, *flags, *wanted.texts)
    assert reply[2] == b"0"
    assert reply[3] == len(bodies)
    return set(reply[6][1::2])


def _expected(text: str, bodies: list[bytes]) -> set[bytes]:
    search = parse_filter(text).body_search()
    assert search is not None
    return {bodies[place] for place in search(bodies)}


@pytest.mark.usefixtures("weak")
@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.function_scoped_fixture],
)
@given(bodies=_BODIES, regex=_REGEXES)
@example(bodies=["\u017f\u212a7".encode(), b"sk7"], regex="(?i)SK7")
@example(bodies=[b"", b"a"], regex="a(?i)*")
@example(bodies=[b"", b"a"], regex="a(?#b)*")
@example(bodies=[b"a", b"a]"], regex="[[:alpha:]]")
@example(bodies=[b"7\0007", b"7077"], regex="7[\0a]7")
@example(bodies=[b"a^-]b"], regex="a[\\^x][-y][]z]b")
def test_a_body_that_a_regex_matches_passes(server: redis.Redis, bodies: list[bytes], regex: str) -> None:
    text = f"body~{quoted(regex)}"
    try:
        wanted = parse_filter(text).body_filter()
    except FilterError:
        assume(False)
    if wanted is not None:
        assert _expected(text, bodies) <= _passing(server, wanted, bodies)


@pytest.mark.usefixtures("weak")
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(bodies=_BODIES, text=st.text(_LETTERS, min_size=1, max_size=4))
@example(bodies=["stra\xdfe".encode(), b"STRASSE"], text="strasse")
@example(bodies=["M\xdcLLER".encode(), b"m\xfcller"], text="m\xfcller")
def test_a_body_that_contains_a_text_passes(server: redis.Redis, bodies: list[bytes], text: str) -> None:
    wanted = parse_filter(f"body:{quoted(text)}").body_filter()
    if wanted is not None:
        assert _expected(f"body:{quoted(text)}", bodies) <= _passing(server, wanted, bodies)


def test_no_other_character_becomes_ascii_without_case() -> None:
    letters = map(chr, range(0x80, 0x110000))
    assert [letter for letter in letters if any(map(str.isascii, letter.casefold()))] == list(FOLDED_BY_TEXTS)
    # Two letters of ASCII are still neighbours then.
    assert all(chr(code).casefold() for code in range(0x110000))


@pytest.mark.parametrize(
    ("text", "passes", "fails"),
    [
        ("body~7[0-9]7", b"x717y", b"7a7"),
        ("body~(?i)abc", b"xABCy", b"abd"),
        ("chargeback", b"a ChargeBack", b"charge back"),
        (r"body~\d{3}-x+yz", b"12345-xxyz", b"12-xyz 123-"),
        ("body~(foo|bar)baz", b"barbaz", b"foobar"),
        ("body~^abc$", b"abc", b"ab"),
        ("body~a%b", b"a%b", b"ab"),
    ],
)
def test_a_filter_tells_bodies_apart(server: redis.Redis, text: str, passes: bytes, fails: bytes) -> None:
    wanted = parse_filter(text).body_filter()
    assert wanted is not None
    assert _passing(server, wanted, [passes, fails]) == {passes}


@pytest.mark.parametrize(
    "text", ["body~a.b", "body~7", "body~abc|def", "body~.*", "x", "body~[^a][^b]", "!body:abc", "rc>1"]
)
def test_what_would_leave_little_out_is_not_sent(text: str) -> None:
    assert parse_filter(text).body_filter() is None
