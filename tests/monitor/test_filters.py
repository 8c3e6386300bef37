"""The language of filters: what it understands, how it writes it back, and what it says of what it does not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsmq_tui.monitor.filters.language import TEXT_MAX, FilterError, parse_filter
from rsmq_tui.monitor.filters.matching import Term

pytestmark = pytest.mark.slow


def terms(text: str) -> tuple[Term, ...]:
    return parse_filter(text).terms


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("state:ready", Term("state", ":", ("ready",))),
        ("state=inflight|delayed", Term("state", ":", ("inflight", "delayed"))),
        ("state!=poison", Term("state", ":", ("poison",), inverted=True)),
        ("!state!=poison", Term("state", ":", ("poison",))),
        ("STATE:Ready", Term("state", ":", ("ready",))),
        ("rc>=5", Term("rc", ">=", 5)),
        ("rc:0", Term("rc", "=", 0)),
        ("rc!=-1", Term("rc", "!=", -1)),
        ("age>10m", Term("age", ">", 600_000)),
        ("age>250ms", Term("age", ">", 250)),
        ("age<=1h30m", Term("age", "<=", 5_400_000)),
        ("age<1.5d", Term("age", "<", 129_600_000)),
        ("due<30s", Term("due", "<", 30_000)),
        ("due<-5m", Term("due", "<", -300_000)),
        ("due<0s", Term("due", "<", 0)),
        ("due>=0", Term("due", ">=", 0)),
        ("size>512", Term("size", ">", 512)),
        ("size>1k", Term("size", ">", 1024)),
        ("size<64KiB", Term("size", "<", 65_536)),
        ("size<64kb", Term("size", "<", 65_536)),
        ("size>=1.5m", Term("size", ">=", 1_572_864)),
        ("size=7b", Term("size", "=", 7)),
        ("id:abc", Term("id", ":", "abc")),
        ("id=abc", Term("id", "=", "abc")),
        ("id~^[a-z]", Term("id", "~", "^[a-z]")),
        ('body:"two words"', Term("body", ":", "two words")),
        ("body:one", Term("body", ":", "one")),
        (r"body~\d+", Term("body", "~", r"\d+")),
        (r'body~"a \"\d\\d"', Term("body", "~", r'a "\d\d')),
        ("!body:test", Term("body", ":", "test", inverted=True)),
        ("!!body:test", Term("body", ":", "test")),
        ("word", Term("body", ":", "word")),
        ("!word", Term("body", ":", "word", inverted=True)),
        ('"rc>=5"', Term("body", ":", "rc>=5")),
        ('{"a":1}', Term("body", ":", '{"a":1}')),
        ("rc", Term("body", ":", "rc")),
        ("ümlaut", Term("body", ":", "ümlaut")),
        ("or", Term("body", ":", "or")),
        (" not ", Term("body", ":", "not")),
        ("!and", Term("body", ":", "and", inverted=True)),
        ("jsonish", Term("body", ":", "jsonish")),
        ("json", Term("json", "")),
        ("json.a.b", Term("json", "", path=("a", "b"))),
        ("json.items[0].sku-1=x", Term("json", "=", "x", ("items", 0, "sku-1"))),
        ("json[-1]>=2", Term("json", ">=", "2", (-1,))),
        ('json."odd key".x="42"', Term("json", "=", "42", ("odd key", "x"), is_quoted=True)),
        ("!json.a~^x", Term("json", "~", "^x", ("a",), inverted=True)),
    ],
)
def test_one_term(text: str, term: Term) -> None:
    assert terms(text) == (term,)
    assert terms(str(parse_filter(text))) == (term,)


def test_several_terms_and_any_space() -> None:
    assert [term.field for term in terms('  state:ready\trc>=5\n "a b"  json.x ')] == ["state", "rc", "body", "json"]


@pytest.mark.parametrize("text", ['rc>=5 "or"', "rc>=5 body:or", "rc>=5 !or", "rc>=5 order", "rc>=5 nor"])
def test_words_that_only_look_like_operators_are_searched_for(text: str) -> None:
    assert [term.field for term in terms(text)] == ["rc", "body"]


@pytest.mark.parametrize("text", ["", "   ", "\n\t"])
def test_nothing_is_everything(text: str) -> None:
    assert parse_filter(text).is_empty


@pytest.mark.parametrize(
    ("text", "counts", "bodies"),
    [
        ("", False, False),
        ("state:ready id:x age>1s due<1s size>1", False, False),
        ("state:hidden", False, False),
        ("state:ready|delayed", True, False),
        ("state:poison", True, False),
        ("rc>1", True, False),
        ("word", False, True),
        ("json.a rc=1", True, True),
    ],
)
def test_only_what_is_needed_is_asked_for(text: str, counts: bool, bodies: bool) -> None:
    needs = parse_filter(text).needs()

    assert ("counts" in needs, "body" in needs) == (counts, bodies)
    assert ("size" in needs) is ("size" in text)


@pytest.mark.parametrize(
    ("text", "wrong", "words"),
    [
        ("rc>=5 stat:ready", "stat", 'unknown field "stat". Did you mean state?'),
        ("customer=7", "customer", 'unknown field "customer". Did you mean json.customer?'),
        ("http://x", "http", 'unknown field "http". To look for the text in bodies, quote it: "http://x"'),
        ("state:redy", "redy", 'unknown state "redy". Did you mean ready?'),
        ("state:ready|", "ready|", 'unknown state "". States are ready, inflight'),
        ("state>ready", ">", "state does not support >"),
        ("rc>=x", "x", "a whole number: rc>=5"),
        ("rc>=", ">=", "needs a value: rc>=5"),
        ("age>10", "10", "has a unit"),
        ("age>10y", "10y", "has a unit"),
        ("size>1q", "1q", "a unit of 1024"),
        ("size>-1", "-1", "a unit of 1024"),
        ("body>1", ">", "body does not support >"),
        ("body~(", "(", "not a regex: missing )"),
        (r"body~(a)\1", r"(a)\1", "write out the repeated text"),
        ("json.a~a++", "a++", "possessive repeats are not supported"),
        ('body:"x', '"x', "the quote is not closed"),
        ('body:"x"y', "y", 'separate terms with a space; a quote within quotes is \\"'),
        ("age > 10m", ">", 'write > without spaces around it: age>10m; to look for the text in bodies, quote it: ">"'),
        ("rc>=5 OR age>1m", "OR", "there is no OR: a space means AND, ! negates a term; to look for the text"),
        ("rc>=5 AND age>1m", "AND", "write a space in place of AND"),
        ("NOT rc>=5", "NOT", "write ! right before the term"),
        ("OR", "OR", "there is no OR"),
        ("rc>=5 or age>1m", "or", "there is no OR: a space means AND, ! negates a term"),
        ("!json.n=5 or !json.n=6", "or", 'quote it: "or"'),
        ("rc>=5 Or", "Or", "there is no OR"),
        ("rc>=5 || age>1m", "||", "there is no OR"),
        ("one and two", "and", "write a space in place of AND"),
        ("rc>=5 && age>1m", "&&", "write a space in place of AND"),
        ("not rc>=5", "not", "write ! right before the term"),
        ("rc>1 !", "!", "right after it"),
        ("! rc>1", "!", "right after it"),
        ("json.=1", ".=1", "a key comes after the dot"),
        ("json.a[x]=1", "[x]=1", "[ needs a number"),
        ("json.a$%=1", "%=1", "separate terms with a space"),
    ],
)
def test_what_is_wrong_is_said_and_shown(text: str, wrong: str, words: str) -> None:
    with pytest.raises(FilterError) as caught:
        parse_filter(text)

    assert text[caught.value.start : caught.value.end] == wrong
    assert words in caught.value.message
    assert (caught.value.start, caught.value.end) == (text.rindex(wrong), text.rindex(wrong) + len(wrong))


def test_a_filter_has_an_end() -> None:
    with pytest.raises(FilterError, match="4,000 characters"):
        parse_filter("x" * (TEXT_MAX + 1))


WORDS = ["state", "rc", "age", "json", "body", "id", ".", "[0]", ":", "=", "~", ">=", "!", '"', "\\", " ", "|", "1h"]
ODD_WORDS = ["5", "(", ")", "+", "*", "[", "{9,}", "(?P<", "a", "\x00", "\udcff", "é", "٣", "-", "ready", "9" * 20]
TEXTS = st.one_of(st.text(), st.lists(st.sampled_from(WORDS + ODD_WORDS), max_size=12).map("".join))


@given(TEXTS)
def test_any_text_is_understood_or_explained(text: str) -> None:
    try:
        found = parse_filter(text)
    except FilterError as error:
        shown = error
    else:
        assert parse_filter(str(found)) == found
        return
    assert 0 <= shown.start <= shown.end <= len(text)
    assert shown.message


@given(st.text(), st.booleans())
def test_any_text_can_be_looked_for(text: str, inverted: bool) -> None:
    wanted = Term("body", ":", text, inverted=inverted)
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')

    assert terms(f'{"!" if inverted else ""}body:"{escaped}"') == (wanted,)
