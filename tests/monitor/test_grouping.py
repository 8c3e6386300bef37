"""What a backlog consists of: labels, sums, and an end to them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsmq_tui.monitor.filters.search import GROUPS_MAX, OTHER, GroupingError, MessageGroups
from rsmq_tui.monitor.text import printable
from rsmq_tui.protocol import RawMessage, make_id

AT_MS = 1_750_000_000_000


def raw(body: bytes | None, *, age_ms: int = 0, size: int | None = None) -> RawMessage:
    id = make_id((AT_MS - age_ms) * 1000).encode()
    return RawMessage(id, b"0", None, None, len(body or b"") if size is None else size, body)


@pytest.mark.parametrize(
    ("body", "label"),
    [
        (b'{"type": "order"}', "order"),
        (b'{"type": 42}', "42"),
        (b'{"type": "42"}', '"42"'),
        (b'{"type": ""}', '""'),
        (b'{"type": "(other)"}', '"(other)"'),
        (b'{"type": true}', "true"),
        (b'{"type": null}', "null"),
        (b'{"type": {"b": 1, "a": 2}}', "{a, b}"),
        (b'{"type": [1, 2]}', "[2 items]"),
        (b"{}", "(no type)"),
        (b"[]", "(no type)"),
        (b"x", "(not JSON)"),
        (b"\xff", "(not JSON)"),
        (None, "missing"),
        (b'{"type": "\\u001b[31m\\u202e"}', r"␛[31m\u202e"),
    ],
)
def test_values(body: bytes | None, label: str) -> None:
    assert MessageGroups("json.type").add(raw(body), AT_MS) == label


@pytest.mark.parametrize(
    ("body", "label"),
    [
        (b'{"b": 1, "a": 2}', "{a, b}"),
        (b"{}", "{}"),
        (b"[1]", "[list]"),
        (b"42", "number"),
        (b"true", "text"),
        (b'"x"', "text"),
        (b"hello", "text"),
        (b"\xff\xfe", "binary"),
        (b"a\x00b", "binary"),
        (b"", "empty"),
        (None, "missing"),
        (json.dumps(dict.fromkeys(map(str, range(100, 130)))).encode(),
         "{100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111, … 30 keys}"),
    ],
)  # fmt: skip
def test_shapes(body: bytes | None, label: str) -> None:
    assert MessageGroups("shape").add(raw(body), AT_MS) == label


def test_a_body_that_was_not_read() -> None:
    assert MessageGroups("shape").add(raw(None, size=5), AT_MS) == "(too long)"


def test_sums_and_the_oldest() -> None:
    groups = MessageGroups("json.t")
    for body, age_ms in ((b'{"t":"a"}', 5), (b'{"t":"b"}', 70), (b'{"t":"a"}', 90), (b'{"t":"c"}', 1)):
        groups.add(raw(body, age_ms=age_ms), AT_MS)
    first, rest = groups.top(1)

    assert (first.label, first.count, first.bytes, first.age_ms(AT_MS)) == ("a", 2, 18, 90)
    assert (rest.label, rest.count, rest.bytes, rest.age_ms(AT_MS)) == (OTHER, 2, 18, 70)
    assert groups.total == 4


def test_there_is_an_end_to_groups() -> None:
    groups = MessageGroups("json.n")
    for number in range(GROUPS_MAX + 500):
        groups.add(raw(b'{"n": %d}' % number), AT_MS)
    shown = groups.top(GROUPS_MAX + 10)

    assert len(shown) == GROUPS_MAX + 1
    assert (shown[-1].label, shown[-1].count) == (OTHER, 500)


@pytest.mark.parametrize("by", ["", "type", "json", "jsonx.a", "json.", "json.a b", "json.a=1", "json[x]"])
def test_what_cannot_be_grouped_by_is_said(by: str) -> None:
    with pytest.raises(GroupingError):
        MessageGroups(by)


@given(
    st.sampled_from(["shape", "json.a", "json[0].b"]),
    st.binary() | st.text().map(lambda t: json.dumps({"a": t}).encode()),
)
def test_labels_are_harmless(by: str, body: bytes) -> None:
    label = MessageGroups(by).add(raw(body), AT_MS)

    assert printable(label) == label
    assert len(label) < 400
