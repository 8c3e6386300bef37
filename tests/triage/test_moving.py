"""Moving, copying and sending back: what the target takes, ids in use there, and where dead letters came from."""

import json

import pytest
from redis import Redis

from rsmq_tui.protocol import Rsmq, sent_ms
from rsmq_tui.triage.actions import Copy, Delete, DeleteQueue, Move, Redrive
from rsmq_tui.triage.errors import TriageError
from rsmq_tui.triage.scope import Named
from rsmq_tui.triage.service import ChangeService
from tests.protocol.keyspace import everything, now_ms
from tests.triage.doing import done, undone
from tests.triage.keyspace import kept, lay, message


@pytest.fixture(autouse=True)
def two_queues(queues: Rsmq) -> None:
    queues.create_queue("a", vt=1000)
    queues.create_queue("b", maxsize=1024)


REMOVED_IF = (
    "Queue new, which the change created, is removed if it is empty then and nobody else has used it; otherwise it is "
    "kept."
)


def bodies(client: Redis, queue: str) -> set[bytes | None]:
    return {client.hget(f"rsmq:{queue}:Q", id) for id in client.zrange(f"rsmq:{queue}", 0, -1)}


async def test_a_message_moves_as_it_is(triage: ChangeService, client: Redis, queues: Rsmq) -> None:
    queues.send_messages("a", ["one", "two"])
    queues.receive_message("a")
    there = everything(client)

    await done(triage, Move(queue="a", target="b"))

    now = everything(client)
    assert now[b"rsmq:b"] == there[b"rsmq:a"]
    assert b"rsmq:a" not in now
    assert {key: value for key, value in now[b"rsmq:b:Q"].items() if len(key) >= 32} == {
        key: value for key, value in there[b"rsmq:a:Q"].items() if len(key) >= 32
    }


async def test_the_undo_of_a_move_names_both_queues_and_promises_no_list(triage: ChangeService, queues: Rsmq) -> None:
    queues.send_messages("a", ["one", "two"])
    await done(triage, Move(queue="a", target="b"))
    queues.receive_messages("b", 2)

    preview = await triage.preview_undo()
    assert preview.what == "change 1: moved 2 messages to b, every message of the queue"
    assert preview.rows[0][1].startswith("a on ")
    assert preview.notes[0] == "Messages changed since, or gone, are skipped and counted."
    report = await triage.run(preview).to_end()
    assert report.sentence == "moved back 0, skipped 2 (received or changed meanwhile), failed 0"


async def test_a_copy_was_never_received(triage: ChangeService, client: Redis, queues: Rsmq) -> None:
    queues.send_messages("a", ["one", "two"])
    queues.receive_messages("a", 2)
    before = everything(client)
    since_ms = now_ms(client)

    await done(triage, Copy(queue="a", target="b"))

    now = everything(client)
    assert (now[b"rsmq:a"], now[b"rsmq:a:Q"]) == (before[b"rsmq:a"], before[b"rsmq:a:Q"])
    assert [id for id, _ in now[b"rsmq:b"]] == [id for id, _ in before[b"rsmq:a"]]
    assert all(since_ms <= score <= now_ms(client) for _, score in now[b"rsmq:b"])
    assert not [name for name in now[b"rsmq:b:Q"] if b":" in name]
    assert bodies(client, "b") == {b"one", b"two"}


async def test_copies_within_a_queue_get_ids_of_their_own(triage: ChangeService, client: Redis, queues: Rsmq) -> None:
    queues.send_messages("a", ["one", "two"])
    since_ms = now_ms(client)
    before = {id for id, _ in everything(client)[b"rsmq:a"]}

    await done(triage, Copy(queue="a", target="a"))

    new = {id for id, _ in everything(client)[b"rsmq:a"]} - before
    assert len(new) == 2
    for id in new:
        sent = sent_ms(id.decode(), now_ms=now_ms(client))
        assert sent is not None
        assert since_ms <= sent <= now_ms(client)


@pytest.mark.parametrize("action", [Move, Copy])
async def test_an_id_that_is_in_use_gets_another_of_the_same_time(
    triage: ChangeService, client: Redis, queues: Rsmq, action: type[Move]
) -> None:
    ids = queues.send_messages("a", ["one", "two", "three"])
    lay(client, "b", message(ids[1].encode(), body=b"other"))
    client.hset("rsmq:b:Q", ids[2], "stray body")
    before = everything(client)

    report = await done(triage, action(queue="a", target="b"))

    assert (report.tally.done, report.tally.failed) == (3, {})
    there = everything(client)[b"rsmq:b"]
    assert len(there) == 4
    assert bodies(client, "b") == {b"one", b"two", b"three", b"other"}
    assert client.hget("rsmq:b:Q", ids[1]) == b"other"
    assert client.hget("rsmq:b:Q", ids[2]) == b"stray body"
    sent = {sent_ms(id.decode(), now_ms=now_ms(client)) for id, _ in there}
    assert sent == {sent_ms(id, now_ms=now_ms(client)) for id in ids}

    back = await undone(triage)
    assert (back.tally.done, back.tally.failed) == (3, {})
    assert everything(client) == before
    await undone(triage, back.change)
    await undone(triage)
    assert everything(client) == before


async def test_what_is_too_long_for_the_target_stays(triage: ChangeService, client: Redis, queues: Rsmq) -> None:
    queues.send_messages("a", ["x" * 1024, "x" * 1025, "x" * 5000])
    before = everything(client)

    for action in (Move(queue="a", target="b"), Copy(queue="a", target="b"), Redrive(queue="a", target="b")):
        report = await done(triage, action)
        assert report.tally.done == 1
        assert dict(report.tally.failed) == {"longer than the target's maxsize": 2}
        assert report.sentence.endswith("skipped 0, failed 2 (longer than the target's maxsize)")
        assert {len(body or b"") for body in bodies(client, "a")} >= {1025, 5000}
        await undone(triage)
        assert everything(client) == before


async def test_a_target_that_does_not_exist(triage: ChangeService, client: Redis, queues: Rsmq) -> None:
    queues.send_message("a", "one")
    for action in (
        Move(queue="a", target="new"),
        Copy(queue="a", target="new"),
        Redrive(queue="a", target="new"),
    ):
        with pytest.raises(TriageError, match="queue new does not exist: create it first"):
            await triage.preview(action)
    with pytest.raises(TriageError, match="the target is the queue itself"):
        await triage.preview(Move(queue="a", target="a"))
    with pytest.raises(TriageError, match="Invalid qname format"):
        await triage.preview(Move(queue="a", target="QUEUES", create=True))


async def test_a_target_is_made_as_the_queue_is(triage: ChangeService, client: Redis, queues: Rsmq) -> None:
    queues.set_queue_attributes("a", vt=7, delay=8, maxsize=2048)
    queues.send_message("a", "one")

    preview = await triage.preview(Move(queue="a", target="new", create=True))
    assert "Queue new is created with the attributes of a." in preview.notes
    assert not client.exists("rsmq:new:Q")
    report = await triage.run(preview).to_end()

    made = queues.get_queue_attributes("new")
    assert (made.vt, made.delay, made.maxsize, made.msgs) == (7, 8, 2048, 1)
    assert "new" in queues.list_queues()
    # The queue is not a message: it is not counted.
    assert report.tally.done == preview.count == 1


@pytest.mark.parametrize("kind", [Move, Copy])
async def test_a_target_is_not_made_as_a_queue_that_was_deleted_meanwhile(
    triage: ChangeService, client: Redis, queues: Rsmq, kind: type[Move]
) -> None:
    queues.send_messages("a", ["one", "two"])
    preview = await triage.preview(kind(queue="a", target="new", create=True))
    queues.delete_queue("a")
    report = await triage.run(preview).to_end()

    assert dict(report.tally.skipped) == {"gone meanwhile": 2}
    assert (report.tally.done, report.tally.failed.total(), report.tally.notes) == (0, 0, [])
    assert "new" not in queues.list_queues()
    assert not client.exists("rsmq:new:Q")


async def test_a_target_made_as_a_queue_without_attributes_has_the_defaults(
    triage: ChangeService, client: Redis, queues: Rsmq
) -> None:
    queues.send_message("a", "one")
    client.hdel("rsmq:a:Q", "vt", "delay", "maxsize", "created", "modified")

    preview = await triage.preview(Move(queue="a", target="new", create=True))
    words = "Queue new is created with the attributes of a, and the defaults of those that it does not have."
    assert words in preview.notes
    report = await triage.run(preview).to_end()

    made = queues.get_queue_attributes("new")
    assert (made.vt, made.delay, made.maxsize, made.msgs) == (30, 0, 65536, 1)
    assert report.tally.done == 1


async def test_a_target_that_was_made_and_is_used_stays(triage: ChangeService, client: Redis, queues: Rsmq) -> None:
    queues.send_messages("a", ["one", "two"])
    before = everything(client)
    await done(triage, Move(queue="a", target="new", create=True))
    queues.send_message("new", "three")
    queues.pop_message("new")

    preview = await triage.preview_undo()
    assert REMOVED_IF in preview.notes
    report = await triage.run(preview).to_end()

    assert report.tally.done == 1
    assert dict(report.tally.skipped) == {"gone meanwhile": 1}
    assert report.tally.notes == ["queue new, which the change created, was kept: it holds 1 message"]
    assert report.sentence.endswith("; queue new, which the change created, was kept: it holds 1 message")
    assert bodies(client, "new") == {b"three"}
    assert queues.get_queue_attributes("new").totalsent == 1
    assert everything(client)[b"rsmq:a"] == before[b"rsmq:a"][1:]


@pytest.mark.parametrize("kind", [Move, Copy])
async def test_undo_says_that_it_removes_the_queue_that_was_made(
    triage: ChangeService, client: Redis, queues: Rsmq, kind: type[Move]
) -> None:
    queues.send_messages("a", ["one", "two"])
    before = everything(client)
    report = await done(triage, kind(queue="a", target="new", create=True))
    assert report.tally.notes == ["queue new was created"]

    preview = await triage.preview_undo()
    assert REMOVED_IF in preview.notes
    back = await triage.run(preview).to_end()

    assert back.tally.notes == ["queue new, which the change created, was removed"]
    assert (back.tally.done, back.tally.skipped.total()) == (2, 0)
    assert kept(client) == before
    # To undo the undo creates it again, and there is nothing to remove.
    again = await triage.preview_undo(back.change)
    assert REMOVED_IF not in again.notes
    assert "Queue new is created again." in again.notes
    assert (await triage.run(again).to_end()).tally.notes == ["queue new was created again"]
    assert "new" in queues.list_queues()


@pytest.mark.parametrize(
    ("use", "note"),
    [
        ("send and pop", "was kept: it has been used or changed since"),
        ("set", "was kept: it has been used or changed since"),
        ("delete", "no longer exists"),
    ],
)
async def test_undo_says_why_a_queue_that_was_made_stays(
    triage: ChangeService, client: Redis, queues: Rsmq, use: str, note: str
) -> None:
    id = queues.send_message("a", "one")
    await done(triage, Move(queue="a", target="new", create=True))
    if use == "send and pop":
        queues.delete_message("new", id)
        queues.send_message("new", "theirs")
        queues.pop_message("new")
    elif use == "set":
        queues.set_queue_attributes("new", vt=99)
    else:
        queues.delete_queue("new")

    report = await undone(triage)

    assert report.tally.notes == [f"queue new, which the change created, {note}"]
    assert ("new" in queues.list_queues()) == (use != "delete")


async def test_undo_of_what_made_no_queue_says_nothing_of_one(
    triage: ChangeService, client: Redis, queues: Rsmq
) -> None:
    queues.send_message("a", "one")
    await done(triage, Move(queue="a", target="b", create=True))
    preview = await triage.preview_undo()
    assert not any("created" in note for note in preview.notes)
    assert (await triage.run(preview).to_end()).tally.notes == []


async def test_a_target_that_was_made_for_nothing_can_be_taken_away(
    triage: ChangeService, client: Redis, queues: Rsmq
) -> None:
    id = queues.send_message("a", "one")
    preview = await triage.preview(Move(queue="a", target="new", create=True), Named((id,)))
    queues.receive_message("a")
    before = everything(client)
    report = await triage.run(preview).to_end()
    assert (report.tally.done, report.tally.skipped.total()) == (0, 1)
    assert report.sentence.endswith(", failed 0; queue new was created")
    assert not report.did_nothing
    assert "new" in queues.list_queues()

    await undone(triage)

    assert everything(client) == before


async def test_a_target_that_goes_while_the_change_is_made_stops_it(
    triage: ChangeService, client: Redis, queues: Rsmq
) -> None:
    queues.send_messages("a", ["x"] * 2_500)
    preview = await triage.preview(Move(queue="a", target="b"))
    run = triage.run(preview)
    async for tally in run:
        if client.exists("rsmq:b:Q"):
            moved = tally.done
            queues.delete_queue("b")

    assert run.report is not None
    assert run.report.stopped == "queue b does not exist"
    # A batch may have been on its way when the queue went, its messages with it.
    assert run.report.tally.done >= moved
    assert client.zcard("rsmq:a") == 2_500 - run.report.tally.done
    assert not client.exists("rsmq:b")


async def test_dead_letters_go_back_to_where_the_journal_knows_that_they_came_from(
    triage: ChangeService, client: Redis, queues: Rsmq
) -> None:
    queues.create_queue("graveyard")
    queues.create_queue("c", maxsize=-1)
    queues.send_messages("a", ["from a"] * 3)
    queues.receive_messages("a", 3)
    queues.send_messages("c", ["from c"])
    lay(client, "graveyard", message(queues.send_message("c", "renamed").encode(), body=b"other"))
    for queue in ("a", "c"):
        await done(triage, Move(queue=queue, target="graveyard"))
    since_ms = now_ms(client)
    before = everything(client)

    report = await done(triage, Redrive(queue="graveyard"))

    assert report.tally.done == 5
    assert dict(report.tally.failed) == {"its source queue is unknown": 1}
    assert bodies(client, "a") == {b"from a"}
    assert bodies(client, "c") == {b"from c", b"renamed"}
    assert bodies(client, "graveyard") == {b"other"}
    # As if never received, and visible now.
    assert all(score >= since_ms for _, score in everything(client)[b"rsmq:a"])
    assert not [name for name in client.hkeys("rsmq:a:Q") if b":" in name]
    await undone(triage)
    assert everything(client) == before


async def test_dead_letters_go_back_to_what_their_bodies_say(
    triage: ChangeService, client: Redis, queues: Rsmq
) -> None:
    queues.create_queue("a-dlq")
    said: list[bytes | str] = [json.dumps({"meta": {"queue": name}}) for name in ("b", "b", "gone", "a-dlq")]
    queues.send_messages("a-dlq", [*said, "{", "[1]", '{"meta": {"queue": 5}}', '{"meta": "b"}', b"\xff", ""])

    report = await done(triage, Redrive(queue="a-dlq", origin="meta.queue"))

    assert report.tally.done == 2
    assert client.zcard("rsmq:b") == 2
    assert dict(report.tally.failed) == {
        "its source queue is unknown": 7,
        "the target queue does not exist": 1,
    }
    assert client.zcard("rsmq:a-dlq") == 8


@pytest.mark.parametrize("name", ["a-dlq", "a_dead", "dead-letter-a", "failed_a", "a-dead-letter-queue", "DLQ-a"])
async def test_dead_letters_go_back_by_the_name_of_their_queue(
    triage: ChangeService, client: Redis, queues: Rsmq, name: str
) -> None:
    queues.create_queue(name)
    queues.send_message(name, "one")

    report = await done(triage, Redrive(queue=name))

    assert report.tally.done == 1
    assert bodies(client, "a") == {b"one"}


async def test_dead_letters_of_which_nothing_is_known_stay(triage: ChangeService, client: Redis, queues: Rsmq) -> None:
    queues.create_queue("gone-dlq")
    queues.send_message("b", "one")
    queues.send_message("gone-dlq", "one")
    before = everything(client)

    nothing = await done(triage, Redrive(queue="b"))
    gone = await done(triage, Redrive(queue="gone-dlq"))

    assert dict(nothing.tally.failed) == {"its source queue is unknown": 1}
    assert dict(gone.tally.failed) == {"the target queue does not exist": 1}
    assert everything(client) == before


async def test_what_was_moved_can_be_deleted_with_its_queue_and_all_comes_back(
    triage: ChangeService, client: Redis, queues: Rsmq
) -> None:
    queues.send_messages("a", ["one", "two"])
    start = everything(client)
    await done(triage, Move(queue="a", target="b"))
    await done(triage, Delete(queue="b"))
    await done(triage, DeleteQueue(queue="b"))
    assert not client.exists("rsmq:b", "rsmq:b:Q")

    for _ in range(3):
        await undone(triage)

    assert everything(client) == start
