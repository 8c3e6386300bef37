"""Redo: an undo that is undone makes the change again, and is then the change to undo. Consumers work in between."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from rsmq_tui.protocol import Rsmq
from rsmq_tui.protocol.lists.naming import ListNames
from rsmq_tui.triage.actions import Action, Delete, Hide, Move, Purge, Redo, Send
from rsmq_tui.triage.change import State
from rsmq_tui.triage.errors import TriageError
from rsmq_tui.triage.journal.journal import Journal
from rsmq_tui.triage.service import ChangeService
from tests.protocol.keyspace import everything
from tests.triage.doing import done, undone
from tests.triage.list_doing import A, B, list_changes

ACTIONS: dict[str, Action] = {
    "delete": Delete(queue="q"),
    "purge": Purge(queue="q"),
    "move": Move(queue="q", target="other"),
    "hide": Hide(queue="q", seconds=60),
}


def states_of(folder: Path) -> list[State]:
    with closing(Journal(folder / "journal.sqlite")) as journal:
        return [change.state for change in reversed(journal.changes())]


def consumed(queues: Rsmq, count: int) -> set[str]:
    received = queues.receive_messages("q", count)
    queues.delete_messages("q", [message.id for message in received])
    return {message.id for message in received}


@pytest.fixture
def ids(queues: Rsmq) -> set[str]:
    """Ten messages in a queue, and another queue."""
    queues.create_queue("q")
    queues.create_queue("other")
    return set(queues.send_messages("q", [f"body {number}" for number in range(10)]))


@pytest.fixture
async def large(triage: ChangeService, queues: Rsmq) -> set[str]:
    """The messages of a queue whose undo takes several steps; change 1 has deleted them."""
    queues.create_queue("q")
    ids = set(queues.send_messages("q", ["x"] * 9_000))
    await done(triage, Delete(queue="q"))
    return ids


async def interrupted(triage: ChangeService, client: Redis, change: int | None = None) -> int:
    """Interrupt the undo of a change, by default of the last; return how many messages are in its queue then."""
    steps: Any = aiter(triage.run(await triage.preview_undo(change)))
    await anext(steps)
    await steps.aclose()
    await triage.recover()
    there = len(ids_in(client, "q"))
    assert 0 < there < 9_000
    return there


def ids_in(client: Redis, queue: str) -> set[str]:
    return {id.decode() for id in client.zrange(f"rsmq:{queue}", 0, -1)}


@pytest.mark.parametrize("name", ACTIONS)
async def test_what_a_consumer_took_before_the_redo_stays_away(
    triage: ChangeService, client: Redis, queues: Rsmq, folder: Path, ids: set[str], name: str
) -> None:
    assert (await done(triage, ACTIONS[name])).tally.done == 10
    assert (await undone(triage)).tally.done == 10
    left = ids - consumed(queues, 3)

    redo = await undone(triage, 2)

    assert (redo.name, redo.tally.done, redo.tally.skipped.total()) == ("redo", 7, 3)
    preview = await triage.preview_undo()
    assert (preview.count, preview.what.partition(",")[0]) == (7, f"change 3: {redo.past} 7 messages{_to(name)} again")
    assert not isinstance(preview.action, Redo)
    preview.close()
    back = await undone(triage)
    assert (back.tally.done, back.tally.skipped.total()) == (7, 0)
    assert ids_in(client, "q") == left
    assert ids_in(client, "other") == set()
    assert states_of(folder) == [State.UNDONE, State.UNDONE, State.UNDONE, State.DONE]
    with pytest.raises(TriageError, match="nothing to undo"):
        await triage.preview_undo()


def _to(name: str) -> str:
    return " to other" if name == "move" else ""


async def test_by_the_number_of_the_change_its_last_redo_is_undone(triage: ChangeService, ids: set[str]) -> None:
    await done(triage, Delete(queue="q"))
    await undone(triage)
    for number in (3, 5):
        with pytest.raises(TriageError, match="change 1 was already undone"):
            await triage.preview_undo(1)
        await undone(triage, number - 1)
        preview = await triage.preview_undo(1)
        assert (preview.count, preview.what) == (
            10,
            f"change {number}: deleted 10 messages again, every message of the queue",
        )
        preview.close()
        await undone(triage, 1)


async def test_again_and_again(triage: ChangeService, client: Redis, queues: Rsmq, ids: set[str]) -> None:
    left, change = ids, (await done(triage, Delete(queue="q"))).change
    for _ in range(3):
        back = await undone(triage, change)
        assert (back.name, back.tally.done, back.tally.skipped.total()) == ("undo", len(left), 0)
        assert ids_in(client, "q") == left
        left = left - consumed(queues, 1)
        # The redo has one message less.
        redo = await undone(triage, back.change)
        assert (redo.name, redo.tally.done, redo.tally.skipped.total()) == ("redo", len(left), 1)
        assert ids_in(client, "q") == set()
        change = redo.change
    assert (await undone(triage)).tally.done == len(left)
    assert ids_in(client, "q") == left


async def test_a_redo_that_was_interrupted_is_the_change_to_undo(
    triage: ChangeService, client: Redis, queues: Rsmq, folder: Path
) -> None:
    for name, count in (("other", 10), ("q", 9_000)):
        queues.create_queue(name)
        queues.send_messages(name, ["x"] * count)
    before = ids_in(client, "q")
    for queue in ("other", "q"):
        await done(triage, Delete(queue=queue))
    await undone(triage)
    there = await interrupted(triage, client, 3)

    back = await undone(triage)

    assert back.tally.done == 9_000 - there
    assert ids_in(client, "q") == before
    assert ids_in(client, "other") == set()
    assert states_of(folder) == [State.DONE, State.UNDONE, State.DONE, State.UNDONE, State.DONE]
    # Then the change before it is the last.
    assert (await undone(triage)).tally.done == 10
    assert len(ids_in(client, "other")) == 10


async def test_of_an_undo_that_was_interrupted_the_rest_is_undone_after_the_redo(
    triage: ChangeService, client: Redis, queues: Rsmq, large: set[str]
) -> None:
    there = await interrupted(triage, client)
    taken = consumed(queues, 5)
    assert (await undone(triage, 2)).tally.done == there - 5

    assert (await undone(triage)).tally.done == there - 5
    assert (await undone(triage)).tally.done == 9_000 - there
    assert ids_in(client, "q") == large - taken


async def test_by_its_number_a_change_whose_undo_was_interrupted_is_undone_part_by_part(
    triage: ChangeService, client: Redis, large: set[str]
) -> None:
    there = await interrupted(triage, client)
    await undone(triage, 2)

    preview = await triage.preview_undo(1)

    assert preview.count == 9_000 - there
    assert "What change 3 has made again stays so: to take it back, undo change 3." in preview.notes
    assert (await triage.run(preview).to_end()).tally.done == 9_000 - there
    preview = await triage.preview_undo(1)
    assert (preview.what.partition(":")[0], preview.notes) == ("change 3", (preview.notes[0],))
    assert (await triage.run(preview).to_end()).tally.done == there
    assert ids_in(client, "q") == large
    with pytest.raises(TriageError, match="change 1 was already undone"):
        await triage.preview_undo(1)


async def test_of_two_redos_of_one_change_both_are_undone(
    triage: ChangeService, client: Redis, large: set[str]
) -> None:
    there = await interrupted(triage, client)
    await undone(triage, 1)
    for undo in (2, 3):
        await undone(triage, undo)
    assert ids_in(client, "q") == set()

    preview = await triage.preview_undo(1)
    assert preview.notes[-1] == "What change 4 has made again stays so: to take it back, undo change 4."
    assert (await triage.run(preview).to_end()).tally.done == 9_000 - there
    assert (await undone(triage, 1)).tally.done == there
    assert ids_in(client, "q") == large
    with pytest.raises(TriageError, match="change 1 was already undone"):
        await triage.preview_undo(1)


def expired(folder: Path, change: int) -> None:
    """Drop a change from the journal, as if it had expired."""
    with closing(sqlite3.connect(folder / "journal.sqlite")) as db, db:
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("DELETE FROM changes WHERE change = ?", (change,))


@pytest.mark.parametrize(
    ("name", "past", "back", "removes"),
    [
        ("delete", "removed", "put back", True),
        ("move", "moved", "moved back", False),
        ("hide", "changed", "restored", False),
    ],
)
async def test_of_a_change_that_has_expired_the_undo_is_undone_and_again(
    triage: ChangeService, client: Redis, folder: Path, ids: set[str], name: str, past: str, back: str, removes: bool
) -> None:
    before = everything(client)
    await done(triage, ACTIONS[name])
    changed = everything(client)
    await undone(triage)
    expired(folder, 1)
    with pytest.raises(TriageError, match="nothing to undo"):
        await triage.preview_undo()

    preview = await triage.preview_undo(2)

    what = f"change 1: {ACTIONS[name].past} 10 messages{_to(name)}, every message of the queue"
    assert preview.title == f"Redo {what}"
    assert ("does", "make again what change 1 did") in preview.rows
    assert (preview.action.removes, len(preview.bodies)) == (removes, 3 if removes else 0)
    redo = await triage.run(preview).to_end()
    assert (redo.name, redo.past, redo.tally.done) == ("redo", past, 10)
    assert everything(client) == changed
    # The redo is the last change, also when nothing else is left of it.
    for gone in (None, 2):
        if gone is not None:
            expired(folder, gone)
        last = await triage.preview_undo()
        assert last.title == f"Undo change 3: made again {what}"
        does = "1" if gone is None else "3"
        assert ("does", f"{back.replace('restored', 'restore').replace('moved', 'move')} what change {does} did") in (
            last.rows
        )
        assert not last.action.removes
        last.close()
    assert (await undone(triage)).past == back
    assert everything(client) == before
    again = await triage.preview_undo(4)
    assert (again.title, again.action.removes) == (f"Redo change 3: made again {what}", removes)


async def test_what_was_sent_is_put_back_by_the_redo_when_the_sending_has_expired(
    triage: ChangeService, client: Redis, folder: Path, ids: set[str]
) -> None:
    await done(triage, Send(queue="other", bodies=(b"x", b"y")))
    sent = everything(client)
    await undone(triage)
    expired(folder, 1)
    preview = await triage.preview_undo(2)
    assert (preview.title, preview.action.removes) == ("Redo change 1: sent 2 messages, 2 B in all", False)
    assert (await triage.run(preview).to_end()).past == "put back"
    assert everything(client) == sent
    last = await triage.preview_undo()
    assert (last.action.removes, len(last.bodies)) == (True, 2)


async def test_a_journal_of_before_in_which_a_redone_change_is_done_again(
    triage: ChangeService, client: Redis, queues: Rsmq, folder: Path, ids: set[str]
) -> None:
    await done(triage, Hide(queue="q", seconds=60))
    await undone(triage)
    await done(triage, Delete(queue="q"))
    await undone(triage)
    left = ids - consumed(queues, 3)
    await undone(triage, 4)
    with closing(sqlite3.connect(folder / "journal.sqlite")) as db, db:
        db.execute("UPDATE changes SET state = 'done' WHERE change = 3")

    assert (await undone(triage)).tally.done == 7
    assert ids_in(client, "q") == left
    with pytest.raises(TriageError, match="nothing to undo"):
        await triage.preview_undo()


@pytest.mark.parametrize("action", [Delete(queue=A), Move(queue=A, target=B)], ids=lambda action: action.name)
async def test_items_of_lists_that_a_consumer_took_stay_away(
    client: Redis, redis_url: str, folder: Path, action: Action
) -> None:
    client.lpush(A, *(f"item {number}" for number in range(10)))
    lists = list_changes(redis_url, ListNames(), folder)
    assert (await done(lists, action)).tally.done == 10
    assert (await undone(lists)).tally.done == 10
    taken = {client.rpop(A) for _ in range(3)}
    redo = await undone(lists, 2)
    assert (redo.tally.done, redo.tally.skipped.total()) == (7, 3)

    assert (await planned_by_undo(lists)) == 7
    assert (await undone(lists)).tally.done == 7
    assert taken.isdisjoint(client.lrange(A, 0, -1))
    assert (client.llen(A), client.llen(B)) == (7, 0)
    with pytest.raises(TriageError, match="nothing to undo"):
        await lists.preview_undo()
    await lists.aclose()


async def planned_by_undo(lists: ChangeService) -> int:
    preview = await lists.preview_undo()
    preview.close()
    return preview.count
