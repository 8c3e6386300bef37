"""Undos that put nothing back: their change does not count as undone, and can be undone later."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from redis import Redis

from rsmq_tui.protocol import Rsmq
from rsmq_tui.protocol.lists.naming import ListNames
from rsmq_tui.triage.actions import Action, Copy, Delete, DeleteQueue, Hide, Move, Push
from rsmq_tui.triage.change import Change, State
from rsmq_tui.triage.journal.journal import Journal
from rsmq_tui.triage.service import ChangeService
from tests.protocol.keyspace import everything
from tests.triage.doing import ACTIONS, done, fill, undone
from tests.triage.keyspace import kept
from tests.triage.list_doing import A, B, lay, list_changes

QUEUES = (b"a", b"b", b"a-dlq", b"new")
# Undos that put messages there: nothing is to be put where all is as before.
PUTS = ("delete", "purge", "delete the queue", "fix")
LIST_ACTIONS: dict[str, Action] = {
    "move": Move(queue=A, target=B),
    "copy": Copy(queue=A, target=B),
    "send": Push(queue=A, bodies=(b"x", b"y")),
}


def kept_for_later(client: Redis) -> Callable[[], None]:
    """Return a function that makes the server what it is now."""
    dumps = {key: client.dump(key) for key in client.scan_iter() if b":rsmq-tui:" not in key}

    def restore() -> None:
        client.flushall()
        for key, value in dumps.items():
            client.restore(key, 0, value)

    return restore


def disturb(client: Redis) -> None:
    """Change the score of each message and the attributes of each queue, and create those that do not exist."""
    for queue in QUEUES:
        for id in client.zrange(b"rsmq:" + queue, 0, -1):
            client.zadd(b"rsmq:" + queue, {id: 5})
        client.hset(b"rsmq:" + queue + b":Q", mapping={"vt": 77, "maxsize": 77_777})
        client.sadd("rsmq:QUEUES", queue)


def change_of(folder: Path, change: int | None) -> Change:
    with closing(Journal(folder / "journal.sqlite")) as journal:
        found = journal.change(change or 0)
    assert found is not None
    return found


def state_of(folder: Path, change: int | None) -> State:
    return change_of(folder, change).state


# The others are to an undo as one of these: a purge as a delete, a release as a hide.
@pytest.mark.parametrize(
    "name", [name for name in ACTIONS if name not in ("purge", "copy within", "redrive by name", "send", "release")]
)
async def test_a_change_of_which_nothing_was_put_back_can_be_undone_later(
    triage: ChangeService, client: Redis, folder: Path, name: str
) -> None:
    fill(client)
    before, restore_before = everything(client), kept_for_later(client)
    report = await done(triage, ACTIONS[name](folder.parent))
    restore = kept_for_later(client)
    (restore_before if name in PUTS else lambda: disturb(client))()

    skipped = await undone(triage, report.change)

    assert (skipped.stopped, skipped.tally.done) == (None, 0)
    reasons = {*skipped.tally.skipped, *skipped.tally.failed}
    of_messages = {"gone meanwhile", "received or changed meanwhile", "its id is already in use there"}
    assert reasons <= of_messages | {"the queue was created again by others", "the queue was changed or removed since"}
    assert skipped.tally.handled == skipped.tally.planned > 0
    assert state_of(folder, report.change) is State.DONE
    restore()
    back = await undone(triage)
    assert (back.stopped, back.tally.done > 0) == (None, True)
    assert kept(client) == before
    assert state_of(folder, report.change) is State.UNDONE


async def test_that_only_the_created_queue_was_removed_puts_nothing_back(
    triage: ChangeService, client: Redis, queues: Rsmq, folder: Path
) -> None:
    queues.create_queue("a")
    queues.send_messages("a", ["1", "2", "3"])
    report = await done(triage, Move(queue="a", target="new", create=True))
    restore = kept_for_later(client)
    queues.delete_messages("new", [message.id for message in queues.receive_messages("new", 3)])
    client.hdel("rsmq:new:Q", "totalrecv")

    skipped = await undone(triage)

    words = "moved back 0, skipped 3 (gone meanwhile), failed 0; queue new, which the change created, was removed"
    assert skipped.sentence == words
    assert state_of(folder, report.change) is State.DONE
    restore()
    assert (await undone(triage)).tally.done == 3
    assert state_of(folder, report.change) is State.UNDONE


@pytest.mark.parametrize("name", LIST_ACTIONS)
async def test_a_change_of_lists_of_which_nothing_was_put_back_can_be_undone_later(
    client: Redis, redis_url: str, folder: Path, name: str
) -> None:
    names = ListNames()
    lay(client, names, A, [b"1", b"2", b"3"])
    lay(client, names, B, [b"4"])
    before = everything(client)
    lists = list_changes(redis_url, names, folder)
    report = await done(lists, LIST_ACTIONS[name])
    restore = kept_for_later(client)
    client.flushall()

    skipped = await undone(lists)

    assert (skipped.stopped, skipped.tally.done, [*skipped.tally.skipped]) == (None, 0, ["gone meanwhile"])
    assert state_of(folder, report.change) is State.DONE
    restore()
    back = await undone(lists)
    assert (back.stopped, back.tally.done) == (None, report.tally.done)
    assert kept(client) == before
    assert state_of(folder, report.change) is State.UNDONE
    await lists.aclose()


NO_QUEUE = "Queue a does not exist: before it is created, nothing is undone there."


@pytest.mark.parametrize(
    "action",
    [
        Delete(queue="a"),
        Hide(queue="a", seconds=60),
        Move(queue="a", target="b"),
        Move(queue="a", target="list:jobs"),
        Copy(queue="b", target="a"),
    ],
    ids=lambda action: f"{action.name} to {action.to}",
)
async def test_an_undo_into_a_queue_that_is_gone_says_so_before(
    triage: ChangeService, client: Redis, folder: Path, action: Action
) -> None:
    queues = Rsmq(client)
    for name in ("a", "b"):
        queues.create_queue(name)
    queues.send_messages(action.queue, ["one", "two", "three"])
    report = await done(triage, action)
    client.delete("rsmq:a", "rsmq:a:Q")
    preview, change = await triage.preview_undo(), change_of(folder, report.change)
    if isinstance(action, Copy):
        # What was put there is gone with it: nothing else is needed.
        assert (NO_QUEUE in preview.notes, (await triage.run(preview).to_end()).stopped) == (False, None)
        return
    assert NO_QUEUE in preview.notes
    assert (await triage.undo_outlook(change)).words == "not possible now: queue a does not exist"
    refused = await triage.run(preview).to_end()
    assert (refused.stopped, refused.tally.done, refused.change) == ("queue a does not exist", 0, None)


async def test_a_queue_that_the_undo_creates_again_is_not_missing(triage: ChangeService, client: Redis) -> None:
    fill(client)
    await done(triage, DeleteQueue(queue="a"))
    preview = await triage.preview_undo()
    assert not any("does not exist" in note for note in preview.notes)
    assert (await triage.run(preview).to_end()).tally.skipped.total() == 0
