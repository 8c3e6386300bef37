"""Whole columns at once give what one message at a time gives."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsmq_tui.history.names import stored_name
from rsmq_tui.history.rows import as_whole
from rsmq_tui.monitor.messages.peek import state_of
from rsmq_tui.monitor.messages.reading import read_score
from rsmq_tui.pipeline.datasource import messages
from rsmq_tui.pipeline.datasource.messages import MessageColumns
from rsmq_tui.protocol import leading_int, make_id, name_of, sent_ms

AT_MS = 1_760_000_000_000
usual_ids = st.integers(1_325_376_000_000_000, AT_MS * 1000).map(lambda at_us: make_id(at_us).encode())
odd_ids = st.sampled_from(
    [b"0123456789abcdef" * 2, b"a" * 30, b"\xff", b"x\\y", make_id(5).encode(), make_id(AT_MS * 2000).encode()]
)
usual_scores = st.integers(AT_MS - 9_000, AT_MS + 9_000).map(lambda score: b"%d" % score)
odd_scores = st.sampled_from([b"inf", b"-inf", b"1760000000", b"1760000000000000", b"0", b"-5", b"1760000000000.5"])
usual_numbers = st.none() | st.integers(0, 99).map(lambda number: b"%d" % number)
odd_numbers = st.sampled_from([b"", b"7x", b"+3", b" 4", b"-0", b"-2", b"9" * 19, b"\xff", b"0x1", b"1.5", b"1e3"])


def one_by_one(at_ms: int, id: bytes, score: bytes, rc: bytes | None, fr: bytes | None) -> dict[str, Any]:
    """What the columns hold of one message."""
    name = name_of(id)
    return {
        "at_ms": at_ms,
        "id": stored_name(name),
        "sent_ms": sent_ms(name, now_ms=at_ms),
        "due_ms": as_whole(read_score(score.decode())[0]),
        "rc": 0 if rc is None else leading_int(rc),
        "fr_ms": leading_int(fr),
        "state": str(state_of(score, rc, at_ms)),
    }


def rows_of(ids: st.SearchStrategy[Any], scores: st.SearchStrategy[Any], numbers: st.SearchStrategy[Any]) -> Any:
    moments = st.integers(AT_MS, AT_MS + 5_000)
    return st.lists(st.tuples(moments, ids, scores, numbers, numbers), min_size=1, max_size=20)


@given(
    st.one_of(
        rows_of(usual_ids, usual_scores, usual_numbers),
        rows_of(usual_ids | odd_ids, usual_scores | odd_scores, usual_numbers | odd_numbers),
    )
)
def test_columns(rows: list[tuple[int, bytes, bytes, bytes | None, bytes | None]]) -> None:
    moments, *columns = (list(column) for column in zip(*rows, strict=True))
    nothing = [None] * len(rows)
    made = MessageColumns(moments, (*columns, [3] * len(rows), nothing))
    names = list(one_by_one(*rows[0]))

    found = {name: made.column(name).to_pylist() for name in names}
    expected = [one_by_one(*row) for row in rows]
    assert found == {name: [row[name] for row in expected] for name in names}
    assert made.column("size").to_pylist() == [3] * len(rows)
    assert made.column("body").to_pylist() == nothing


def test_what_is_usual_takes_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a million messages would take as long as they do one by one, and no test would tell."""

    def must_not_be_asked(*_: object, **__: object) -> None:
        raise AssertionError("one by one")

    for name in ("sent_ms", "read_score", "leading_int", "state_of", "stored_name"):
        monkeypatch.setattr(messages, name, must_not_be_asked)
    ids = [make_id(AT_MS * 1000 - number).encode() for number in range(100)]
    counts: list[bytes | None] = [None, b"3"] * 50
    scores = [b"%d" % AT_MS] * 100
    made = MessageColumns([AT_MS] * 100, (ids, scores, counts, counts, [0] * 100, [None] * 100))

    for name in ("id", "sent_ms", "due_ms", "rc", "fr_ms", "state"):
        assert isinstance(made.column(name), pa.Array)
