"""Which change is an undo, which a redo, and of what, by the changes that undo each other."""

from dataclasses import replace

import pytest

from rsmq_tui.triage.change import Change, State, UndoChain

CHANGE = Change(
    change=1,
    at_ms=0,
    name="delete",
    past="deleted",
    who="",
    host="",
    pid=0,
    alive_ms=0,
    profile="",
    server="",
    ns="rsmq",
    queue="orders",
    target=None,
    what="",
    planned=1,
    done=1,
    skipped=0,
    failed=0,
    state=State.DONE,
    undoes=None,
    audited=True,
    touched=True,
)
# Change 1, its undo, its redo, and the undo of that.
CHANGES = {number: replace(CHANGE, change=number, undoes=number - 1 or None) for number in range(1, 5)}


@pytest.mark.parametrize(
    ("number", "is_undo", "undo_is_redo"), [(1, False, False), (2, True, True), (3, False, False), (4, True, True)]
)
def test_every_other_change_is_an_undo(number: int, is_undo: bool, undo_is_redo: bool) -> None:
    chain = UndoChain.of(CHANGES[number], CHANGES.get)
    assert chain.original is CHANGES[1]
    assert (chain.is_undo, chain.undo_is_redo) == (is_undo, undo_is_redo)


@pytest.mark.parametrize(("number", "is_undo", "undo_is_redo"), [(2, True, False), (3, False, True), (4, True, False)])
def test_the_first_change_may_no_longer_be_there(number: int, is_undo: bool, undo_is_redo: bool) -> None:
    left = {number: change for number, change in CHANGES.items() if number > 1}
    chain = UndoChain.of(CHANGES[number], left.get)
    assert chain.original is CHANGES[2]
    assert (chain.is_undo, chain.undo_is_redo) == (is_undo, undo_is_redo)
