"""Every action there and back: what it changes, that undo restores every byte, and that undo can be undone."""

from pathlib import Path

import pytest
from redis import Redis

from rsmq_tui.protocol import Rsmq
from rsmq_tui.protocol.editing import Batch
from rsmq_tui.protocol.rsmq.editor import RsmqEditor
from rsmq_tui.protocol.rsmq.edits import EditKind, MessageBatch
from rsmq_tui.triage.actions import Delete, Send
from rsmq_tui.triage.change import State
from rsmq_tui.triage.errors import TriageError
from rsmq_tui.triage.journal.journal import Journal
from rsmq_tui.triage.rsmq.backend import RsmqBackend
from rsmq_tui.triage.service import ChangeService
from tests.protocol.keyspace import everything
from tests.triage.doing import ACTIONS, audit_lines, done, fill, message_actions, undone
from tests.triage.keyspace import markers

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", ACTIONS)
async def test_undo_restores_everything_and_undo_of_that_repeats_it(
    triage: ChangeService, client: Redis, folder: Path, tmp_path: Path, name: str
) -> None:
    fill(client)
    before = everything(client)
    action = ACTIONS[name](tmp_path)

    preview = await triage.preview(action)
    assert everything(client) == before
    report = await triage.run(preview).to_end()
    changed = everything(client)

    assert report.stopped is None
    assert report.tally.handled == preview.count
    assert not report.tally.skipped
    # Only the one that the queue knows already is not imported.
    assert report.tally.failed.total() == (1 if name == "import" else 0)
    assert changed != before
    assert report.undoable

    undo = await triage.preview_undo()
    assert undo.count == report.tally.done
    back = await triage.run(undo).to_end()
    assert back.stopped is None
    assert (back.tally.done, back.tally.skipped, back.tally.failed) == (report.tally.done, {}, {})
    assert everything(client) == before

    again = await undone(triage, back.change)
    assert (again.stopped, again.tally.done) == (None, report.tally.done)
    assert everything(client) == changed

    last = await undone(triage)
    assert (last.stopped, last.tally.done) == (None, report.tally.done)
    assert everything(client) == before
    assert [line["undoes"] for line in audit_lines(folder)] == [None, 1, 2, 3]


@pytest.mark.parametrize("name", ACTIONS)
async def test_every_change_is_written_down(
    triage: ChangeService, client: Redis, folder: Path, tmp_path: Path, name: str
) -> None:
    fill(client)
    action = ACTIONS[name](tmp_path)

    report = await done(triage, action)

    (line,) = audit_lines(folder)
    assert line["action"] == action.name
    assert (line["queue"], line["ns"], line["server"]) == (action.queue, "rsmq", triage.server)
    counts = {"done": report.tally.done, "skipped": 0, "failed": report.tally.failed.total()}
    assert {key: line[key] for key in counts} == counts
    assert (line["ended"], line["change"], line["undoes"]) == ("done", report.change, None)
    journal = Journal(folder / "journal.sqlite")
    (change,) = journal.changes()
    assert (change.name, change.state, change.done) == (action.name, State.DONE, report.tally.done)
    journal.close()
    assert markers(client) == {}


async def test_what_was_undone_is_not_undone_again(triage: ChangeService, client: Redis, queues: Rsmq) -> None:
    queues.create_queue("a")
    first = await done(triage, Send(queue="a", bodies=(b"1",)))
    await done(triage, Send(queue="a", bodies=(b"2",)))

    await undone(triage)
    assert (await triage.preview_undo()).count == 1
    await undone(triage)

    assert client.zcard("rsmq:a") == 0
    with pytest.raises(TriageError, match="nothing to undo in namespace rsmq"):
        await triage.preview_undo()
    with pytest.raises(TriageError, match="was already undone"):
        await triage.preview_undo(first.change)
    with pytest.raises(TriageError, match="no change 99 in the journal"):
        await triage.preview_undo(99)


async def test_the_last_change_of_a_queue_is_undone(triage: ChangeService, client: Redis, queues: Rsmq) -> None:
    for queue in ("a", "b"):
        queues.create_queue(queue)
        await done(triage, Send(queue=queue, bodies=(b"1",)))

    preview = await triage.preview_undo(queue="a")
    await triage.run(preview).to_end()

    assert (client.zcard("rsmq:a"), client.zcard("rsmq:b")) == (0, 1)
    with pytest.raises(TriageError, match="nothing to undo in queue a"):
        await triage.preview_undo(queue="a")


async def test_changes_of_another_namespace_or_server_are_not_undone_here(
    triage: ChangeService, client: Redis, redis_url: str, folder: Path
) -> None:
    Rsmq(client, "jobs").create_queue("a")
    triage.watch("jobs")
    await done(triage, Send(queue="a", bodies=(b"1",)))
    assert client.zcard("jobs:a") == 1

    triage.watch("rsmq")
    with pytest.raises(TriageError, match="nothing to undo"):
        await triage.preview_undo()
    elsewhere = ChangeService(RsmqBackend(redis_url.replace("/0", "/1"), "jobs"), folder)
    with pytest.raises(TriageError, match="was made on"):
        await elsewhere.preview_undo(1)
    await elsewhere.aclose()

    # By its number it goes back to where it was made.
    await undone(triage, 1)
    assert client.zcard("jobs:a") == 0


async def test_undo_of_what_somebody_has_touched_says_so(triage: ChangeService, client: Redis, queues: Rsmq) -> None:
    queues.create_queue("a", vt=1000)
    await done(triage, Send(queue="a", bodies=(b"received", b"popped", b"left")))
    received = queues.receive_message("a")
    queues.pop_message("a")
    now = everything(client)

    report = await undone(triage)

    assert report.tally.done == 1
    assert dict(report.tally.skipped) == {"received or changed meanwhile": 1, "gone meanwhile": 1}
    assert "removed 1, skipped 2" in report.sentence
    assert received is not None
    assert everything(client)[b"rsmq:a"] == [pair for pair in now[b"rsmq:a"] if pair[0] == received.id.encode()]


async def test_undo_of_a_delete_leaves_an_id_that_came_back_alone(
    triage: ChangeService, client: Redis, queues: Rsmq
) -> None:
    queues.create_queue("a")
    ids = queues.send_messages("a", ["one", "two"])
    await done(triage, Delete(queue="a"))
    client.zadd("rsmq:a", {ids[0]: 5})

    report = await undone(triage)

    assert report.tally.done == 1
    assert dict(report.tally.failed) == {"its id is already in use there": 1}
    assert client.zscore("rsmq:a", ids[0]) == 5
    assert client.hget("rsmq:a:Q", ids[1]) == b"two"


async def test_a_refused_action_is_told_and_changes_nothing(triage: ChangeService, client: Redis, folder: Path) -> None:
    before = everything(client)

    for action, words in (
        (Delete(queue="nowhere"), "Queue not found"),
        (Delete(queue="QUEUES"), "QUEUES is the name of the index"),
        (Delete(queue="no such\x1b[2J"), "Invalid qname format"),
        (Send(queue="nowhere", bodies=(b"x",)), "Queue not found"),
        (Send(queue="nowhere", bodies=()), "nothing to send"),
    ):
        with pytest.raises(TriageError, match=words):
            await triage.preview(action)
    assert everything(client) == before
    assert audit_lines(folder) == []


async def test_a_server_that_is_gone_is_told(folder: Path) -> None:
    service = ChangeService(RsmqBackend("redis://127.0.0.1:1/0", "rsmq"), folder)

    with pytest.raises(TriageError, match="connection refused"):
        await service.preview(Delete(queue="a"))
    await service.aclose()


@pytest.mark.parametrize("name", message_actions("a", "b"))
async def test_no_call_carries_more_than_the_server_does_in_a_millisecond(
    triage: ChangeService, client: Redis, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    limits = {EditKind.REMOVE: 170, EditKind.PUT: 170, EditKind.RESCORE: 250, EditKind.MOVE: 100}
    carried: list[tuple[EditKind, int]] = []
    apply = RsmqEditor.apply

    async def noted(editor: RsmqEditor, batch: Batch, token: str) -> str:
        if isinstance(batch, MessageBatch):
            carried.append((batch.kind, batch.size))
        return await apply(editor, batch, token)

    monkeypatch.setattr(RsmqEditor, "apply", noted)
    fill(client)
    await done(triage, message_actions("a", "b")[name])
    await undone(triage)
    assert carried
    assert all(size <= limits[kind] for kind, size in carried)
