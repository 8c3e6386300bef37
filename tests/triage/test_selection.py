"""A selection gives back what was put into it, in runs that are neither too long nor too heavy."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsmq_tui.protocol import RawMessage
from rsmq_tui.triage import scope as module
from rsmq_tui.triage.scope import Selection

_MESSAGES = st.lists(
    st.builds(
        lambda number, rc, size: RawMessage(b"%d" % number, b"1700000000000", rc, rc, size, b"x" * size),
        st.integers(0, 99),
        st.sampled_from([None, b"1"]),
        st.integers(0, 12),
    ),
    max_size=12,
)


def _runs(blocks: list[list[RawMessage]], messages: int, size: int) -> list[list[RawMessage]]:
    runs: list[list[RawMessage]] = []
    for message in (message for block in blocks for message in block):
        last = runs[-1] if runs else None
        if last is None or len(last) == messages or sum(each.size for each in last) + message.size > size:
            runs.append([message])
        else:
            last.append(message)
    return runs


@given(blocks=st.lists(_MESSAGES, max_size=6), messages=st.integers(1, 7), size=st.integers(1, 20))
def test_runs_hold_as_many_as_fit_in_their_order(blocks: list[list[RawMessage]], messages: int, size: int) -> None:
    selection = Selection()
    for block in blocks:
        selection.add(block, 1_700_000_000_000)

    assert list(selection.chunks(messages, size)) == _runs(blocks, messages, size)
    assert list(selection) == [message for block in blocks for message in block]
    assert selection.bytes == sum(message.size for block in blocks for message in block)
    selection.close()


def test_past_its_limit_of_bodies_a_selection_keeps_everything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (RawMessage(b"%d" % number, b"1700000000000", b"1", b"2", 3, b"abc") for number in range(2))
    selection = Selection()
    monkeypatch.setattr(module, "_BODIES_BYTES", 4)
    selection.add([first], 1_700_000_000_000)
    selection.add([second], 1_700_000_000_000)

    assert list(selection) == [first, second._replace(body=None)]
    selection.close()
