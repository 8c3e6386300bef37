"""A selection gives back what was put into it, in runs that are neither too long nor too heavy."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis import Redis

from rsmq_tui.monitor import parse_filter
from rsmq_tui.protocol import RawMessage, Rsmq
from rsmq_tui.protocol.rsmq.operations import Messages
from rsmq_tui.triage import scope as module
from rsmq_tui.triage.actions import Delete
from rsmq_tui.triage.scope import BODIES_SHOWN, Matching, Selection
from rsmq_tui.triage.service import ChangeService
from tests.protocol.keyspace import everything
from tests.triage.doing import done, undone

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


async def test_a_deletion_by_filter_and_its_undo_make_no_object_for_each_message(
    triage: ChangeService, client: Redis, queues: Rsmq, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[RawMessage] = []
    each_of = Messages.__iter__

    def counted(self: Messages) -> Iterator[RawMessage]:
        for message in each_of(self):
            made.append(message)
            yield message

    queues.create_queue("a")
    queues.send_messages("a", [f"x {number}" for number in range(400)])
    queues.receive_messages("a", 30, vt=100)
    before = everything(client)
    monkeypatch.setattr(Messages, "__iter__", counted)
    # Otherwise the preview of the undo looks at these first ones, as it does with the first of any number.
    monkeypatch.setattr("rsmq_tui.triage.undo.inverse._EXAMINED_MAX", 0)

    report = await done(triage, Delete(queue="a"), Matching(parse_filter("body:x")))

    assert report.tally.done == 400
    assert client.zcard("rsmq:a") == 0
    assert (await undone(triage)).tally.done == 400
    # The preview shows some.
    assert len(made) == BODIES_SHOWN
    assert everything(client) == before
