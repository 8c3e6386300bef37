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
CHANGES = {
    number: replace(CHANGE, change=number, undoes=number - 1 or None, name=name)
    for number, name in enumerate(("delete", "undo", "redo", "undo"), 1)
}


# The changes before it may no longer be in the journal.
@pytest.mark.parametrize("first", [1, 2, 3])
@pytest.mark.parametrize(("number", "is_undo"), [(1, False), (2, True), (3, False), (4, True)])
def test_every_other_change_is_an_undo(number: int, first: int, is_undo: bool) -> None:
    left = {number: change for number, change in CHANGES.items() if number >= first}
    chain = UndoChain.of(CHANGES[number], left.get)
    assert chain.original is CHANGES[min(number, first)]
    assert chain.is_undo == is_undo
