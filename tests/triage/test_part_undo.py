"""The undo of some messages of a change, of further ones, of the rest, and what the journal says of each."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from rsmq_tui.monitor.filters.language import parse_filter
from rsmq_tui.protocol import Rsmq
from rsmq_tui.protocol.lists.naming import ListNames, item_id
from rsmq_tui.triage import actions
from rsmq_tui.triage.actions import Action, Part
from rsmq_tui.triage.change import Change, ChangeReport
from rsmq_tui.triage.errors import TriageError
from rsmq_tui.triage.journal.database import outcome_checksum
from rsmq_tui.triage.journal.journal import Journal
from rsmq_tui.triage.rsmq.backend import RsmqBackend
from rsmq_tui.triage.scope import Matching, Named
from rsmq_tui.triage.service import ChangeService
from rsmq_tui.triage.undo.part import ChangedMessage, Chosen, PartScope, entries_left
from tests.protocol.keyspace import everything
from tests.triage.doing import done, undone
from tests.triage.list_doing import LEASES, WORKING, A, B, lay, list_changes, read, send, take

MESSAGES = 1_300


@pytest.fixture
def ids(queues: Rsmq, client: Redis) -> list[str]:
    """The messages of a queue, in several batches; every fifth was received."""
    queues.create_queue("q", vt=0)
    queues.create_queue("other")
    ids = queues.send_messages("q", [f'{{"n": {number}}}' for number in range(MESSAGES)])
    client.hset("rsmq:q:Q", mapping={f"{id}:rc": 6 for id in ids[::5]} | {f"{id}:fr": 1 for id in ids[::5]})
    return ids


def matching(text: str) -> Matching:
    return Matching(parse_filter(text))


async def part_undone(triage: ChangeService, scope: PartScope, change: int | None = None) -> ChangeReport:
    return await triage.run(await triage.preview_undo(change, scope=scope)).to_end()


def in_queue(client: Redis, queue: str) -> set[str]:
    return {id.decode() for id in client.zrange(f"rsmq:{queue}", 0, -1)}


def change_of(folder: Path, number: int) -> Change:
    with closing(Journal(folder / "journal.sqlite")) as journal:
        found = journal.change(number)
        assert found is not None
        return found


async def listed(triage: ChangeService, folder: Path, change: int, text: str = "") -> list[ChangedMessage]:
    """The messages of a change, or those left to undo that match a filter."""
    messages: list[ChangedMessage] = []
    async for batch in triage.messages_of(change_of(folder, change), parse_filter(text) if text else None):
        messages += batch
    return messages


def states(folder: Path) -> list[tuple[str, int]]:
    with closing(Journal(folder / "journal.sqlite")) as journal:
        return [(change.state_words, change.undone) for change in reversed(journal.changes())]


def fields_of(client: Redis, ids: list[str]) -> Mapping[str, Any]:
    return {id: (client.zscore("rsmq:q", id), client.hmget("rsmq:q:Q", id, f"{id}:rc", f"{id}:fr")) for id in ids}


async def test_one_message_that_was_undone_is_told_as_one(triage: ChangeService, queues: Rsmq, folder: Path) -> None:
    queues.create_queue("q")
    first, *_ = queues.send_messages("q", ["a", "b", "c"])
    await done(triage, actions.Delete(queue="q"))
    await part_undone(triage, Named((first,)), 1)
    assert "1 of 3 was undone before." in (await triage.preview_undo(1)).notes
    await undone(triage, 2)
    assert "1 of 3 was undone before; of these, 1 was made again." in (await triage.preview_undo(1)).notes


async def test_twelve_of_many_come_back_and_then_others_and_then_the_rest(
    triage: ChangeService, client: Redis, folder: Path, ids: list[str]
) -> None:
    before, whole = fields_of(client, ids), everything(client)
    await done(triage, actions.Delete(queue="q"))
    twelve = ids[100:1300:100]

    preview = await triage.preview_undo(scope=Named(tuple(twelve)))

    assert preview.title == "Undo 12 of 1,300 messages of change 1: deleted, every message of the queue"
    assert (preview.count, preview.elsewhere, preview.action.to) == (12, 0, None)
    assert ("does", "put back 12 messages that were deleted") in preview.rows
    assert len(preview.bodies) == 3
    report = await triage.run(preview).to_end()
    assert (report.tally.done, report.tally.skipped.total(), report.tally.failed.total()) == (12, 0, 0)
    assert fields_of(client, twelve) == {id: before[id] for id in twelve}
    assert in_queue(client, "q") == set(twelve)
    assert states(folder) == [("part undone", 12), ("done", 0)]
    assert change_of(folder, 1).can_be_undone
    assert change_of(folder, 2).part

    further = await part_undone(triage, Named((*twelve[:5], *ids[1:4], "no such id")), 1)
    assert (further.tally.done, further.tally.skipped.total()) == (3, 0)
    assert states(folder)[0] == ("part undone", 15)
    with pytest.raises(TriageError, match="5 of those selected were undone before; 1 id is not in it"):
        await triage.preview_undo(1, scope=Named((*twelve[:5], "no such id")))

    rest = await triage.preview_undo()
    assert (rest.count, "15 of 1,300 were undone before." in rest.notes) == (MESSAGES - 15, True)
    assert (await triage.run(rest).to_end()).tally.done == MESSAGES - 15
    assert everything(client) == whole
    assert states(folder) == [("undone", MESSAGES), ("done", 0), ("done", 0), ("done", 0)]
    for scope in (None, Named(tuple(twelve))):
        with pytest.raises(TriageError, match="change 1 was already undone"):
            await triage.preview_undo(1, scope=scope)


async def test_parts_that_are_all_of_it_together_undo_the_change(
    triage: ChangeService, client: Redis, folder: Path, ids: list[str]
) -> None:
    whole = everything(client)
    await done(triage, actions.Hide(queue="q", seconds=60))
    assert (await part_undone(triage, matching("rc>=5"))).tally.done == MESSAGES // 5
    assert states(folder)[0] == ("part undone", MESSAGES // 5)
    assert (await part_undone(triage, matching("rc<5"))).tally.done == MESSAGES - MESSAGES // 5
    assert states(folder)[0] == ("undone", MESSAGES)
    assert everything(client) == whole
    with pytest.raises(TriageError, match="nothing to undo"):
        await triage.preview_undo()


@pytest.mark.parametrize(
    ("action", "text", "count"),
    [
        (actions.Delete(queue="q"), "json.n=77", 1),
        (actions.Delete(queue="q"), "state:poison json.n<50", 10),
        (actions.Purge(queue="q"), "id:{id}", 1),
        # Of these the journal has no bodies: they are where the change left them.
        (actions.Move(queue="q", target="other"), "json.n>=1290", 10),
        (actions.Hide(queue="q", seconds=60), "json.n<3 state:ready", 3),
        (actions.Copy(queue="q", target="other"), "json.n<3", 3),
        (actions.Move(queue="q", target="list:jobs"), "rc>=5", 260),
    ],
    ids=lambda value: getattr(value, "name", None),
)  # fmt: skip
async def test_by_a_filter_on_what_they_were(
    triage: ChangeService, client: Redis, ids: list[str], action: Action, text: str, count: int
) -> None:
    whole = everything(client)
    assert (await done(triage, action)).tally.done == MESSAGES
    wanted = matching(text.replace("{id}", ids[700]))
    report = await part_undone(triage, wanted)
    assert (report.tally.done, report.tally.skipped.total()) == (count, 0)
    assert (await undone(triage)).tally.done == MESSAGES - count
    assert everything(client) == whole


async def test_the_undo_of_a_part_is_undone_and_is_a_change_of_its_own(
    triage: ChangeService, client: Redis, folder: Path, ids: list[str]
) -> None:
    whole = everything(client)
    await done(triage, actions.Delete(queue="q"))
    await part_undone(triage, Named(tuple(ids[:12])))
    redo = await triage.preview_undo(2)
    assert redo.title == "Redo 12 of 1,300 messages of change 1: deleted, every message of the queue"
    assert ("does", "delete 12 messages again") in redo.rows
    assert (await triage.run(redo).to_end()).tally.done == 12
    assert in_queue(client, "q") == set()
    assert states(folder) == [("done", 0), ("undone", 12), ("done", 0)]
    assert change_of(folder, 1).redone == 12

    # A part of the undo of a part, and of the redo.
    preview = await triage.preview_undo(1)
    assert (preview.count, *preview.notes[-2:]) == (
        MESSAGES - 12,
        "12 of 1,300 were undone before; of these, 12 were made again.",
        "What change 3 has made again stays so: to take it back, undo change 3.",
    )
    assert (await part_undone(triage, Named(tuple(ids[:3])), 3)).tally.done == 3
    assert in_queue(client, "q") == set(ids[:3])
    assert (await undone(triage)).tally.done == 9
    assert (await undone(triage, 1)).tally.done == MESSAGES - 12
    assert everything(client) == whole
    with pytest.raises(TriageError, match="nothing to undo"):
        await triage.preview_undo()


async def test_a_part_of_an_undo_is_made_again(
    triage: ChangeService, client: Redis, folder: Path, ids: list[str]
) -> None:
    await done(triage, actions.Delete(queue="q"))
    await undone(triage)
    again = await triage.preview_undo(2, scope=Named(tuple(ids[:4])))
    assert again.title == "Redo 4 of 1,300 messages of change 1: deleted, every message of the queue"
    assert (await triage.run(again).to_end()).tally.done == 4
    assert in_queue(client, "q") == set(ids[4:])
    assert states(folder) == [("part undone", MESSAGES - 4), ("part undone", 4), ("done", 0)]
    assert change_of(folder, 1).redone == 4
    messages = await listed(triage, folder, 1)
    assert {message.id for message in messages if message.made_again} == set(ids[:4])
    assert {message.id for message in messages if message.undone} == set(ids[4:])
    assert not any(message.is_left for message in messages)
    assert (await undone(triage)).tally.done == 4
    assert in_queue(client, "q") == set(ids)
    assert states(folder) == [("undone", MESSAGES), ("done", 0), ("undone", 4), ("done", 0)]
    assert all(message.undone for message in await listed(triage, folder, 1))

    # What a redo has made again, and was undone since, is not made again by the first undo.
    assert (await undone(triage, 2)).tally.done == MESSAGES - 4
    assert in_queue(client, "q") == set(ids[:4])
    assert states(folder)[0] == ("part undone", 4)
    assert {message.id for message in await listed(triage, folder, 1) if message.undone} == set(ids[:4])


async def test_an_undo_has_the_bodies_of_what_it_put_back(
    triage: ChangeService, client: Redis, queues: Rsmq, folder: Path, ids: list[str]
) -> None:
    await done(triage, actions.Delete(queue="q"))
    await part_undone(triage, Named(tuple(ids[:700])))
    bodies = {id: b'{"n": %d}' % number for number, id in enumerate(ids)}
    assert {message.id: message.start for message in await listed(triage, folder, 2)} == {
        id: bodies[id] for id in ids[:700]
    }
    # Also when consumers have taken the messages.
    queues.delete_messages("q", ids[:3])
    assert [message.id for message in await listed(triage, folder, 2, "json.n=1")] == [ids[1]]

    # And no longer when the change has expired.
    with closing(sqlite3.connect(folder / "journal.sqlite")) as db, db:
        db.execute("DELETE FROM batches WHERE change = 1")
    assert {message.start for message in await listed(triage, folder, 2)} == {None}
    assert [message.id for message in await listed(triage, folder, 2, "json.n=4")] == [ids[4]]


async def test_what_changed_since_is_skipped_and_can_be_undone_later(
    triage: ChangeService, client: Redis, queues: Rsmq, folder: Path, ids: list[str]
) -> None:
    await done(triage, actions.Hide(queue="q", seconds=60))
    queues.change_message_visibility("q", ids[0], 0)
    preview = await triage.preview_undo(scope=Named(tuple(ids[:3])))
    assert "Now it applies to 2 of 3; 1 has changed since and is skipped." in preview.notes
    report = await triage.run(preview).to_end()
    assert (report.tally.done, report.tally.skipped) == (2, {"received or changed meanwhile": 1})
    assert states(folder)[0] == ("part undone", 2)
    with pytest.raises(TriageError, match="2 of those selected were undone before"):
        await triage.preview_undo(scope=Named(tuple(ids[1:3])))
    assert (await triage.preview_undo(scope=Named(tuple(ids[:3])))).count == 1


async def test_what_an_undo_has_skipped_is_told_to_who_undoes_again(
    triage: ChangeService, queues: Rsmq, ids: list[str]
) -> None:
    await done(triage, actions.Move(queue="q", target="other"))
    queues.delete_messages("other", ids[:3])
    assert (await undone(triage)).tally.skipped.total() == 3
    words = "change 1 was already undone, except for 3 of 1,300 that were skipped or failed"
    with pytest.raises(TriageError, match=words):
        await triage.preview_undo(1)


async def test_the_undo_of_a_rest_that_is_gone_ends_the_change(
    triage: ChangeService, queues: Rsmq, folder: Path, ids: list[str]
) -> None:
    await done(triage, actions.Send(queue="other", bodies=(b"x",)))
    await done(triage, actions.Hide(queue="q", seconds=60), Named(tuple(ids[:3])))
    queues.change_message_visibility("q", ids[2], 0)
    await part_undone(triage, Named(tuple(ids[:2])))

    rest = await undone(triage)

    assert (rest.tally.done, rest.tally.skipped.total()) == (0, 1)
    assert states(folder)[1] == ("part undone", 2)
    # The change before it is now the last one.
    assert (await triage.preview_undo()).title.startswith("Undo change 1:")


async def test_a_queue_that_the_change_created_stays_until_the_rest_is_undone(
    triage: ChangeService, client: Redis, folder: Path, ids: list[str]
) -> None:
    whole = everything(client)
    await done(triage, actions.Move(queue="q", target="new", create=True))
    await part_undone(triage, matching("rc>=5"))
    await part_undone(triage, matching("rc<5"))
    assert states(folder)[0] == ("done", MESSAGES)
    assert client.exists("rsmq:new:Q")
    preview = await triage.preview_undo()
    assert "Queue new, which the change created, is removed if it is empty" in " ".join(preview.notes)
    await triage.run(preview).to_end()
    assert everything(client) == whole


async def test_a_queue_alone_has_no_messages_to_select(triage: ChangeService, ids: list[str]) -> None:
    await done(triage, actions.SetAttributes(queue="q", vt=9))
    with pytest.raises(TriageError, match="change 1 of q: no message that it has changed is selected"):
        await triage.preview_undo(scope=matching(""))


async def test_messages_of_a_deleted_queue_need_the_queue(
    triage: ChangeService, client: Redis, queues: Rsmq, folder: Path, ids: list[str]
) -> None:
    await done(triage, actions.DeleteQueue(queue="q"))
    refused = await part_undone(triage, Named(tuple(ids[:3])))
    assert (refused.tally.done, refused.change) == (0, None)
    assert "queue" in (refused.stopped or "").lower()
    queues.create_queue("q")
    assert (await part_undone(triage, Named(tuple(ids[:3])), 1)).tally.done == 3
    assert in_queue(client, "q") == set(ids[:3])
    assert states(folder)[0] == ("part undone", 3)


async def test_by_their_places_and_what_the_journal_says_of_each(
    triage: ChangeService, client: Redis, folder: Path, ids: list[str]
) -> None:
    await done(triage, actions.Delete(queue="q"))
    with closing(Journal(folder / "journal.sqlite")) as journal:
        first, second = [found.entry.number for found in entries_left(journal, 1)][:2]
        chosen = Chosen(Part({first: frozenset({0, 3}), second: range(2)}), ())
        report = await part_undone(triage, chosen)
        assert report.tally.done == 4
        back = {
            (found.entry.number, place)
            for found in entries_left(journal, 1)
            for place, is_undone in enumerate(found.is_undone)
            if is_undone
        }
        assert back == {(first, 0), (first, 3), (second, 0), (second, 1)}
    assert len(in_queue(client, "q")) == 4


async def test_places_of_what_was_undone_meanwhile_or_made_again(
    triage: ChangeService, client: Redis, queues: Rsmq, folder: Path
) -> None:
    queues.create_queue("q", vt=0)
    ids = queues.send_messages("q", ["x"] * 5)
    await done(triage, actions.Delete(queue="q"))
    with closing(Journal(folder / "journal.sqlite")) as journal:
        number = next(entries_left(journal, 1)).entry.number
    listed = Chosen(Part({number: frozenset({2, 3})}), tuple(ids[2:4]))
    await part_undone(triage, Named((ids[2],)), 1)

    preview = await triage.preview_undo(1, scope=listed)

    assert (preview.count, preview.notes[-1]) == (1, "1 of those selected was undone before.")
    await triage.run(preview).to_end()
    with pytest.raises(TriageError, match="has deleted is selected: 2 of those selected were undone before"):
        await triage.preview_undo(1, scope=listed)

    # A redo has only what has come back: its places are others.
    await undone(triage, 1)
    changed = (await done(triage, actions.Delete(queue="q"))).change
    client.zadd("rsmq:q", {ids[0]: 0})
    client.hset("rsmq:q:Q", ids[0], "another of that id")
    undo = await undone(triage, changed)
    assert undo.tally.failed.total() == 1
    client.zrem("rsmq:q", ids[0])
    await undone(triage, undo.change)

    report = await part_undone(triage, listed, changed)

    assert report.tally.done == 2
    assert in_queue(client, "q") == set(ids[2:4])


@pytest.mark.parametrize("of_one_desk", [True, False])
async def test_two_undos_of_parts_put_a_message_back_once(
    triage: ChangeService, client: Redis, redis_url: str, folder: Path, ids: list[str], *, of_one_desk: bool
) -> None:
    await done(triage, actions.Delete(queue="q"))
    service = triage if of_one_desk else ChangeService(RsmqBackend(redis_url, "rsmq"), folder)
    first = await triage.preview_undo(1, scope=Named(tuple(ids[:20])))
    second = await service.preview_undo(1, scope=Named(tuple(ids[10:30])))
    rest = await triage.preview_undo(1)
    running = aiter(triage.run(first))
    await anext(running)
    with pytest.raises(TriageError, match="change 1 is being undone by another rsmq-tui"):
        await service.run(second).to_end()
    async for _ in running:
        pass

    # It was previewed before the first one ran, and finds what that has undone when it runs.
    report = await service.run(second).to_end()

    assert (report.tally.done, report.tally.skipped) == (10, {"undone meanwhile": 10})
    assert in_queue(client, "q") == set(ids[:30])
    assert states(folder)[0] == ("part undone", 30)
    await triage.run(rest).to_end()
    assert in_queue(client, "q") == set(ids)
    assert (rest.count, states(folder)[0]) == (MESSAGES, ("undone", MESSAGES))
    with closing(Journal(folder / "journal.sqlite")) as journal:
        last = journal.changes(1)[0]
        assert (last.done, last.skipped) == (MESSAGES - 30, 30)
    if service is not triage:
        await service.aclose()


async def test_an_undo_of_a_part_that_was_interrupted_is_settled_and_counts(
    triage: ChangeService, client: Redis, folder: Path, queues: Rsmq
) -> None:
    queues.create_queue("q")
    ids = queues.send_messages("q", ["x"] * 9_000)
    await done(triage, actions.Delete(queue="q"))
    steps: Any = aiter(triage.run(await triage.preview_undo(scope=Named(tuple(ids[:8_000])))))
    await anext(steps)
    await steps.aclose()
    await triage.recover()
    there = len(in_queue(client, "q"))
    assert 0 < there < 8_000
    assert states(folder) == [("part undone", there), ("interrupted", 0)]

    assert (await part_undone(triage, Named(tuple(ids[:8_000])))).tally.done == 8_000 - there
    assert in_queue(client, "q") == set(ids[:8_000])
    assert (await undone(triage)).tally.done == 1_000
    assert in_queue(client, "q") == set(ids)
    assert states(folder)[0] == ("undone", 9_000)


async def test_what_may_have_come_back_before_does_not_come_back_again(
    triage: ChangeService, client: Redis, queues: Rsmq, folder: Path
) -> None:
    queues.create_queue("q")
    ids = queues.send_messages("q", ["x"] * 5)
    await done(triage, actions.Delete(queue="q"))
    await part_undone(triage, Named(tuple(ids[:3])))
    assert queues.delete_message("q", ids[1])
    # The server has lost the marker of the call: its outcome was inferred when a consumer had taken one of them.
    with closing(sqlite3.connect(folder / "journal.sqlite")) as db, db:
        (sealed,) = db.execute("SELECT checksum FROM batches WHERE change = 2").fetchone()
        db.execute(
            "UPDATE batches SET outcome = 'dgd', unsure = 1, outcome_checksum = ? WHERE change = 2",
            (outcome_checksum(sealed, "dgd", 1),),
        )
        db.execute("UPDATE changes SET done = 2, unsure = 2, state = 'interrupted' WHERE change = 2")

    assert (await undone(triage, 1)).tally.done == 2
    assert in_queue(client, "q") == set(ids) - {ids[1]}


async def test_a_journal_of_the_version_before(
    triage: ChangeService, client: Redis, folder: Path, redis_url: str
) -> None:
    queues = Rsmq(client)
    queues.create_queue("q")
    ids = queues.send_messages("q", ["x"] * 5)
    await done(triage, actions.Delete(queue="q"))
    with closing(sqlite3.connect(folder / "journal.sqlite")) as db, db:
        db.execute("ALTER TABLE changes DROP COLUMN part")
        db.execute("PRAGMA user_version = 4")
    later = ChangeService(RsmqBackend(redis_url, "rsmq"), folder)
    assert (await part_undone(later, Named(tuple(ids[:2])))).tally.done == 2
    assert (await undone(later)).tally.done == 3
    await later.aclose()


ITEMS = [b'{"n": %d}' % (number // 2) for number in range(20)]


@pytest.mark.parametrize(
    "action",
    [actions.Delete(queue=A), actions.Move(queue=A, target=B), actions.Copy(queue=A, target=B)],
    ids=lambda a: a.name,
)
async def test_items_of_lists(client: Redis, redis_url: str, folder: Path, action: Action) -> None:
    names = ListNames()
    lay(client, names, A, ITEMS)
    lists = list_changes(redis_url, names, folder)
    assert (await done(lists, action)).tally.done == 20
    removed = sorted(ITEMS) if action.name == "copy" else []
    # Of two equal items as many are chosen as were named.
    one, two = item_id("queue", 7, b'{"n": 3}'), item_id("queue", 0, b'{"n": 4}')

    report = await part_undone(lists, Named((one, two, two, item_id("queue", 0, b"other"))))

    assert (report.tally.done, report.tally.skipped.total()) == (3, 0)
    back = [b'{"n": 3}', b'{"n": 4}', b'{"n": 4}']
    assert sorted(read(client, names, A)) == (removed or back)
    if action.name != "delete":
        left = sorted(ITEMS)
        for item in back:
            left.remove(item)
        assert sorted(read(client, names, B)) == left
    assert states(folder)[0] == ("part undone", 3)
    redo = await part_undone(lists, Named((two,)), report.change)
    assert redo.tally.done == 1
    assert (change_of(folder, 1).undone, change_of(folder, 1).redone) == (2, 1)
    messages = [message for message in await listed(lists, folder, 1) if message.undone or message.made_again]
    assert [message.undone for message in messages].count(True) == 2
    assert [message.id[-40:] for message in messages if message.made_again] == [two[-40:]]
    assert (await undone(lists, redo.change)).tally.done == 1
    again = await part_undone(lists, Named((one, two, two)), 1)
    assert again.tally.done == 1
    if action.name == "delete":
        assert sorted(message.start or b"" for message in await listed(lists, folder, 2)) == back
        assert (await part_undone(lists, matching("json.n>=9"))).tally.done == 2
        assert (await undone(lists)).tally.done == 14
    else:
        assert (await part_undone(lists, matching("json.n>=9"))).tally.done == 2
        assert (await undone(lists)).tally.done == 14
    assert sorted(read(client, names, A)) == sorted(ITEMS)
    assert read(client, names, B) == []
    assert states(folder)[0] == ("undone", 20)
    await lists.aclose()


async def test_items_that_were_moved_are_found_where_they_are_now(
    client: Redis, redis_url: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names, items = ListNames(), [b'{"n": %d}' % number for number in range(6_000)]
    lay(client, names, A, items)
    lists = list_changes(redis_url, names, folder)
    assert (await done(lists, actions.Move(queue=A, target=B))).tally.done == len(items)
    # Consumers have taken some, and producers have sent others.
    assert take(client, names, B, 3) == items[:3]
    send(client, names, B, b'{"n": 5999.5}')
    before = everything(client)

    preview = await lists.preview_undo(scope=matching("json.n>5990"))

    assert (preview.count, preview.notes[-1]) == (
        9,
        "3 messages are gone, so that their bodies could not be searched.",
    )
    assert everything(client) == before
    rows = await listed(lists, folder, 1, "json.n>5990")
    assert [row.start for row in rows] == items[5_991:]
    assert (await lists.run(preview).to_end()).tally.done == 9
    assert read(client, names, A) == items[5_991:]

    monkeypatch.setattr("rsmq_tui.triage.lists.batches._SEARCHED_BYTES", 100_000)
    with pytest.raises(TriageError, match=r"and they are too many to read: .* Find their ids in list:queue:b, "):
        await lists.preview_undo(1, scope=matching("json.n>5990"))
    await lists.aclose()


async def test_items_in_processing_are_found_by_their_bodies(client: Redis, redis_url: str, folder: Path) -> None:
    names = ListNames()
    lay(client, names, WORKING, ITEMS)
    lists = list_changes(redis_url, names, folder)
    assert (await done(lists, actions.Hide(queue=A, seconds=60))).tally.done == 20
    report = await part_undone(lists, matching("json.n=7"))
    assert (report.tally.done, client.zcard(LEASES)) == (2, 18)
    await lists.aclose()


async def test_items_that_became_messages_are_found_by_their_bodies(
    client: Redis, redis_url: str, queues: Rsmq, folder: Path
) -> None:
    names = ListNames()
    queues.create_queue("q")
    lay(client, names, A, ITEMS)
    lists = list_changes(redis_url, names, folder)
    assert (await done(lists, actions.Move(queue=A, target="rsmq:q"))).tally.done == 20

    assert (await part_undone(lists, matching("json.n=7"))).tally.done == 2

    assert read(client, names, A) == [b'{"n": 7}'] * 2
    assert client.zcard("rsmq:q") == 18
    await lists.aclose()
