"""Messages and edits as columns: they are what lists of them are, and make no object before it is used."""

import pytest

from rsmq_tui.protocol import RawMessage
from rsmq_tui.protocol.rsmq.edits import Edit, EditKind, Edits, MessageBatch
from rsmq_tui.protocol.rsmq.operations import Messages

ONE = RawMessage(b"a", b"1", None, None, 3, b"one")
TWO = RawMessage(b"b", b"2", b"4", b"5", 3, b"two")
THREE = RawMessage(b"c", b"3", None, None, 0, None)
ALL = [ONE, TWO, THREE]


def test_columns_are_what_a_list_is() -> None:
    columns = Messages.of(ALL)

    assert (list(columns), len(columns), columns[1], columns[-1]) == (ALL, 3, TWO, THREE)
    assert columns == ALL
    assert columns != ALL[:2]
    assert columns[:2] == ALL[:2]
    assert columns[:2] + columns[2:] == columns + Messages.of(()) == Messages.of(()) + columns == ALL
    assert columns.kept([True, False, True]) == [ONE, THREE]
    assert columns.having(rc=[b"7"] * 3) == [each._replace(rc=b"7") for each in ALL]
    assert (columns.ids, columns.scores, columns.rcs) == ((b"a", b"b", b"c"), (b"1", b"2", b"3"), (None, b"4", None))
    assert (columns.sizes, columns.bodies) == ((3, 3, 0), (b"one", b"two", None))


def test_no_messages_are_columns_too() -> None:
    assert not Messages.of(())
    assert list(Messages.of(())) == []
    assert list(Messages.of(()).ids) == []
    assert list(Edits.of(())) == []


@pytest.mark.parametrize(
    "edits",
    [
        [Edit(each, None) for each in ALL],
        [Edit(None, each) for each in ALL],
        [Edit(each, each._replace(score=b"9")) for each in ALL],
    ],
)
def test_edits_as_columns_are_what_a_list_of_edits_is(edits: list[Edit]) -> None:
    columns = Edits.of(edits)

    assert (list(columns), len(columns), columns[1]) == (edits, 3, edits[1])
    assert columns[1:] == edits[1:]
    assert columns.kept([False, True, False]) == edits[1:2]
    assert list(columns.known) == ALL


def test_edits_are_of_one_kind() -> None:
    with pytest.raises(ValueError, match="all messages or none"):
        Edits.of([Edit(ONE, None), Edit(None, TWO)])
    with pytest.raises(ValueError, match="an edit of nothing"):
        Edits.of([Edit(None, None)])
    with pytest.raises(ValueError, match="not as many messages"):
        Edits(Messages.of(ALL), Messages.of([ONE]))


def test_a_batch_and_its_inverse_share_their_columns() -> None:
    seen = Messages.of(ALL)
    batch = MessageBatch(EditKind.REMOVE, "a", Edits(seen, None))

    inverse = batch.inverse("ddd")

    assert inverse is not None
    assert Edits.of(inverse.edits).after is seen
    again = inverse.inverse("dgd")
    assert again is not None
    assert again.edits == [Edit(ONE, None), Edit(THREE, None)]
    with pytest.raises(ValueError, match="no outcome of 3 edits"):
        batch.inverse("dd")
