"""Messages that a consumer or a producer touches between preview and run: left alone, counted, with the reason.

This is so of messages that were named, and of a queue that is deleted; ``test_guards`` has changes by filter.
"""

import pytest
from redis import Redis

from rsmq_tui.protocol import Rsmq
from rsmq_tui.protocol.editing import Batch
from rsmq_tui.protocol.rsmq.editor import RsmqEditor
from rsmq_tui.protocol.rsmq.edits import FieldBatch
from rsmq_tui.triage.actions import DeleteQueue, Move, Purge, Redrive
from rsmq_tui.triage.scope import Named
from rsmq_tui.triage.service import ChangeService
from tests.protocol.keyspace import everything
from tests.triage.doing import done, message_actions, undone
from tests.triage.keyspace import fields_of

ACTIONS = {**message_actions("a-dlq", "a"), "purge": Purge(queue="a-dlq"), "redrive": Redrive(queue="a-dlq")}
SKIPPED = {"received or changed meanwhile": 2, "gone meanwhile": 1}


@pytest.fixture
def ids(queues: Rsmq) -> list[str]:
    queues.create_queue("a")
    queues.create_queue("a-dlq", vt=1000)
    return queues.send_messages("a-dlq", ["received", "hidden", "deleted", "left", "alone"])


def meddle(queues: Rsmq, ids: list[str]) -> None:
    queues.receive_message("a-dlq")
    queues.change_message_visibility("a-dlq", ids[1], 500)
    queues.delete_message("a-dlq", ids[2])
    queues.send_message("a-dlq", "new")


@pytest.mark.parametrize("name", ACTIONS)
async def test_between_preview_and_run(
    triage: ChangeService, client: Redis, queues: Rsmq, ids: list[str], name: str
) -> None:
    preview = await triage.preview(ACTIONS[name], Named(tuple(ids)))
    meddle(queues, ids)
    before = everything(client)
    touched = [fields_of(client, id) for id in ids[:3]]

    report = await triage.run(preview).to_end()

    assert report.stopped is None
    assert report.tally.done == 2
    assert dict(report.tally.skipped) == SKIPPED
    assert report.changed == (ids[0], ids[1])
    assert not report.tally.failed
    assert [fields_of(client, id) for id in ids[:3]] == touched
    # What arrived meanwhile was not previewed.
    assert client.zcard("rsmq:a-dlq") == (3 if name in ("delete", "purge", "move", "redrive") else 5)
    back = await undone(triage)
    assert (back.tally.done, back.tally.skipped.total()) == (2, 0)
    assert everything(client) == before


@pytest.mark.parametrize("name", ["hide", "release", "move", "copy", "redrive"])
async def test_between_run_and_undo(
    triage: ChangeService, client: Redis, queues: Rsmq, ids: list[str], name: str
) -> None:
    before = {id: fields_of(client, id) for id in ids}
    await triage.run(await triage.preview(ACTIONS[name])).to_end()
    where = "a" if name in ("move", "copy", "redrive") else "a-dlq"
    queues.change_message_visibility(where, ids[1], 5)
    queues.delete_message(where, ids[2])
    now = fields_of(client, ids[1], where)

    report = await undone(triage)

    assert report.tally.done == 3
    assert dict(report.tally.skipped) == {"received or changed meanwhile": 1, "gone meanwhile": 1}
    assert all(fields_of(client, id) == before[id] for id in (ids[0], ids[3], ids[4]))
    assert fields_of(client, ids[1], where) == now


async def test_a_queue_to_which_messages_come_meanwhile_is_kept(
    triage: ChangeService, client: Redis, queues: Rsmq, ids: list[str]
) -> None:
    preview = await triage.preview(DeleteQueue(queue="a-dlq"))
    arrived = queues.send_message("a-dlq", "new")
    client.hset("rsmq:a-dlq:Q", "stray", "x")
    before = everything(client)

    report = await triage.run(preview).to_end()

    assert report.sentence == "deleted 5, skipped 1 (the queue was kept: it holds messages), failed 0"
    assert queues.get_queue_attributes("a-dlq").msgs == 1
    assert client.hget("rsmq:a-dlq:Q", arrived) == b"new"
    assert client.hget("rsmq:a-dlq:Q", "stray") == b"x"
    await undone(triage)
    assert everything(client) == before


async def test_a_queue_to_which_a_message_comes_at_the_last_moment_is_kept(
    triage: ChangeService, client: Redis, queues: Rsmq, ids: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = RsmqEditor.apply

    async def late(self: RsmqEditor, batch: Batch, token: str) -> str:
        if isinstance(batch, FieldBatch):
            queues.send_message("a-dlq", "new")
        return await honest(self, batch, token)

    monkeypatch.setattr(RsmqEditor, "apply", late)
    report = await done(triage, DeleteQueue(queue="a-dlq"))

    sentence = "the queue was kept: it received messages or was changed at the last moment"
    assert (report.tally.done, dict(report.tally.skipped)) == (5, {sentence: 1})
    assert queues.get_queue_attributes("a-dlq").msgs == 1


async def test_a_queue_whose_messages_are_received_meanwhile_is_kept(
    triage: ChangeService, client: Redis, queues: Rsmq, ids: list[str]
) -> None:
    preview = await triage.preview(DeleteQueue(queue="a-dlq"))
    received = queues.receive_message("a-dlq")
    before = everything(client)

    report = await triage.run(preview).to_end()

    assert received is not None
    assert report.tally.done == 4
    words = "skipped 2 (1 received or changed meanwhile, the queue was kept: it holds messages)"
    assert words in report.sentence
    assert queues.delete_message("a-dlq", received.id)
    assert client.sismember("rsmq:QUEUES", "a-dlq")
    await undone(triage)
    now = everything(client)
    assert {id for id, _ in before[b"rsmq:a-dlq"]} - {id for id, _ in now[b"rsmq:a-dlq"]} == {received.id.encode()}


async def test_a_queue_that_is_deleted_meanwhile_stops_the_run(
    triage: ChangeService, client: Redis, queues: Rsmq, ids: list[str]
) -> None:
    preview = await triage.preview(Move(queue="a-dlq", target="a"))
    queues.delete_queue("a")
    before = everything(client)

    report = await triage.run(preview).to_end()

    assert report.tally.done == 0
    assert dict(report.tally.failed) == {"the target queue does not exist": 5}
    assert everything(client) == before
