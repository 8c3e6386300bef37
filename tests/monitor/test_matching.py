"""Which messages a filter matches, whatever their scores, counts, ids and bodies are."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsmq_tui.monitor.filters.language import parse_filter
from rsmq_tui.protocol import RawMessage, make_id

AT_MS = 1_750_000_000_000
HOUR_AGO = make_id((AT_MS - 3_600_000) * 1000).encode()


def raw(
    body: bytes | None = b"",
    *,
    id: bytes = HOUR_AGO,
    score: float | bytes = AT_MS,
    rc: bytes | None = None,
    size: int | None = None,
) -> RawMessage:
    score = score if isinstance(score, bytes) else b"%d" % score
    return RawMessage(id, score, rc, None, len(body or b"") if size is None else size, body)


def matches(text: str, message: RawMessage) -> bool:
    answer = parse_filter(text).predicate()(message, AT_MS)
    # A term and its inverse never agree.
    assert parse_filter(f"!{text}").predicate()(message, AT_MS) is not answer
    return answer


@pytest.mark.parametrize(
    ("text", "message", "is_match"),
    [
        ("state:ready", raw(), True),
        ("state:ready", raw(score=AT_MS + 1), False),
        ("state:ready", raw(score=AT_MS // 1000), True),
        ("state:ready", raw(score=(AT_MS + 1) * 1000), False),
        ("state:ready", raw(score=b"-inf"), True),
        ("state:hidden", raw(score=b"inf"), True),
        ("state:ready", raw(score=b"nonsense"), False),
        ("state:inflight", raw(score=AT_MS + 1, rc=b"1"), True),
        ("state:delayed", raw(score=AT_MS + 1, rc=b"1"), False),
        ("state:delayed", raw(score=AT_MS + 1, rc=b"0"), True),
        ("state:inflight", raw(rc=b"1"), False),
        ("state:poison", raw(rc=b"5"), True),
        ("state:poison", raw(rc=b"4"), False),
        ("state:ready|delayed", raw(score=AT_MS + 1), True),
        ("rc>=5", raw(rc=b" 7x"), True),
        ("rc=0", raw(), True),
        ("rc>0", raw(rc=b"abc"), False),
        ("age>59m", raw(), True),
        ("age>1h1m", raw(), False),
        ("age>0s", raw(id=b"short"), False),
        ("age<1d", raw(id=b"\xff" * 32), False),
        ("due<30s", raw(score=AT_MS + 29_999), True),
        ("due<30s", raw(score=AT_MS + 30_000), False),
        ("due<0s", raw(score=AT_MS - 1), True),
        ("due<0s", raw(), False),
        ("due>1000d", raw(score=b"inf"), True),
        ("size>1k", raw(None, size=1025), True),
        ("size>1k", raw(None, size=1024), False),
        ("id:\udcff\x00", raw(id=b"\xff\x00x"), True),
        ("id=ab", raw(id=b"abc"), False),
        ("id~c$", raw(id=b"abc"), True),
        ("body:HELLO", raw(b"say hello"), True),
        ("body:straße", raw(b"STRASSE"), True),
        ("body:é", raw(b"\xff\xfe caf\xc3\x89"), True),
        ("body:\udcff", raw(b"\xff"), True),
        ("body:x", raw(b""), False),
        (r"body~h.l{2}o$", raw(b"say hello"), True),
        (r"body~Hello", raw(b"say hello"), False),
        (r"body~(?i)Hello", raw(b"say hello"), True),
        (r"body~x\udcffy", raw(b"x\xffy"), True),
        ("json", raw(b"[]"), True),
        ("json", raw(b"{"), False),
        ("json", raw(b"\xff"), False),
        ("json", raw(b"[" * 100_000), False),
        ("json", raw(b"9" * 5_000), False),
    ],
)
def test_a_message(text: str, message: RawMessage, is_match: bool) -> None:
    assert matches(text, message) is is_match


DOCUMENT: dict[str, Any] = {
    "n": 42,
    "f": 1.5,
    "s": "Text",
    "d": "2024-05-01",
    "t": True,
    "z": None,
    "digits": "42",
    "list": [{"id": 1}, {"id": 2}],
    "o": {"b": {"c": 1}},
    "odd key": 1,
}


@pytest.mark.parametrize(
    ("text", "is_match"),
    [
        ("json.n=42", True),
        ("json.n=42.0", True),
        ('json.n="42"', False),
        ("json.digits=42", True),
        ('json.digits="42"', True),
        ("json.n!=41", True),
        ("json.n!=42", False),
        ("json.missing!=42", False),
        ("json.n>41", True),
        ("json.n>=42.5", False),
        ("json.f<2", True),
        ("json.s>1", False),
        ("json.d>=2024-05-01", True),
        ("json.d<2024-04-01", False),
        ("json.s=Text", True),
        ("json.s=text", False),
        ("json.s:text", True),
        ("json.s~^T", True),
        ("json.t=true", True),
        ("json.t=1", False),
        ("json.t!=false", True),
        ("json.n=true", False),
        ("json.z=null", True),
        ("json.z", True),
        ("json.z!=null", False),
        ("json.list[0].id=1", True),
        ("json.list[-1].id=2", True),
        ("json.list[2].id=2", False),
        ("json.list.id=2", False),
        ("json.o.b.c", True),
        ("json.o.b.c.d", False),
        ('json.o:"c"', True),
        ("json.o=1", False),
        ('json."odd key"=1', True),
        ("json.s[0]=T", False),
    ],
)
def test_a_place_in_json(text: str, is_match: bool) -> None:
    assert matches(text, raw(json.dumps(DOCUMENT).encode())) is is_match


def test_an_escaped_key_is_found() -> None:
    assert matches("json.id=1", raw(rb'{"\u0069d": 1}'))


def test_all_terms_must_hold() -> None:
    message = raw(b'{"a":1,"b":2}', rc=b"5")

    assert matches_all("rc=5 json.a=1 json.b=2 age>1m", message)
    assert not matches_all("rc=5 json.a=1 json.b=3 age>1m", message)


def matches_all(text: str, message: RawMessage) -> bool:
    return parse_filter(text).predicate()(message, AT_MS)


@pytest.mark.parametrize("text", ["body:x", "!body:x", "body~x", "!body~x", "json.a", "!json.a"])
def test_a_body_that_was_not_read_never_matches_and_is_not_searched(text: str) -> None:
    found, too_long = parse_filter(text), raw(None, size=5_000_000)

    assert not found.predicate()(too_long, AT_MS)
    assert not found.searched()(too_long, AT_MS)


def test_what_another_term_rules_out_need_not_be_searched() -> None:
    assert parse_filter("rc>5 body:x").searched()(raw(None, size=5_000_000), AT_MS)


@pytest.mark.parametrize("text", ["body:x", "json.a"])
def test_no_body_at_all_holds_nothing(text: str) -> None:
    assert not matches(text, raw(None))
    assert parse_filter(text).searched()(raw(None), AT_MS)


def test_the_poison_threshold_is_given() -> None:
    assert parse_filter("state:poison", poison_rc=2).predicate()(raw(rc=b"2"), AT_MS)


FILTERS = ["state:poison", "state:inflight", "rc>1", "age>1s", "due<1s", "size>1", "id:a", "id~a", "a", "body~a",
           "json", "json.a=1", "json[0]>1", "json.a:x", "json.a~x", "json.a<x"]  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=5,
)
BODIES = st.none() | st.binary(max_size=20) | JSON.map(lambda value: json.dumps(value).encode())


@given(st.sampled_from(FILTERS), BODIES, st.binary(max_size=40), st.binary(max_size=20), st.none() | st.binary())
def test_no_message_makes_a_filter_raise(
    text: str, body: bytes | None, id: bytes, score: bytes, rc: bytes | None
) -> None:
    matches(text, RawMessage(id, score, rc, None, len(body or b""), body))


@given(st.sampled_from(FILTERS), st.sampled_from(FILTERS), st.lists(BODIES, max_size=5))
def test_many_messages_match_as_each_does(first: str, second: str, bodies: list[bytes | None]) -> None:
    wanted = parse_filter(f"{first} {second}")
    messages = [RawMessage(b"a%d" % number, b"1", None, None, 3, body) for number, body in enumerate(bodies)]
    holds = wanted.predicate()
    assert wanted.matches()(messages, 5) == [place for place, each in enumerate(messages) if holds(each, 5)]
