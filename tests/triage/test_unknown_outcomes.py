"""Calls of which nothing tells whether they were carried out: lost with their markers, or behind another server."""

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from redis.exceptions import ConnectionError as LostError

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.protocol import Rsmq
from rsmq_tui.protocol.editing import Batch, VoidedError
from rsmq_tui.protocol.lists.editor import ListEditor
from rsmq_tui.protocol.lists.naming import ListNames
from rsmq_tui.protocol.rsmq.editor import RsmqEditor
from rsmq_tui.protocol.rsmq.edits import FieldBatch
from rsmq_tui.triage import execute
from rsmq_tui.triage.actions import Action, Copy, CreateQueue, Delete, DeleteQueue, Move, Send, SetAttributes
from rsmq_tui.triage.change import ChangeReport, State
from rsmq_tui.triage.errors import TriageError
from rsmq_tui.triage.journal.journal import Journal
from rsmq_tui.triage.rsmq.backend import RsmqBackend
from rsmq_tui.triage.service import ChangeService
from tests.protocol.keyspace import everything
from tests.triage.doing import audit_lines, done, message_actions, undone
from tests.triage.keyspace import kept, markers
from tests.triage.list_doing import A, B, list_changes

MESSAGES = 20
DAY_MS = 86_400_000
ACTIONS = {
    **{name: message_actions("a", "b")[name] for name in ("delete", "hide", "move", "copy")},
    "send": Send(queue="a", bodies=(b"x",) * MESSAGES),
    "set": SetAttributes(queue="a", vt=5),
    "create": CreateQueue(queue="new"),
    "delete the queue": DeleteQueue(queue="empty"),
}


@pytest.fixture(autouse=True)
def some_messages(queues: Rsmq, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execute, "_SETTLE_WAITS_S", (0.01,))
    for name in ("a", "b", "empty"):
        queues.create_queue(name)
    queues.send_messages("a", ["x"] * MESSAGES)


class Losing:
    """Loses the replies of calls, with or without carrying them out, and what they left on the server."""

    def __init__(self, client: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
        self._client, self._patch = client, monkeypatch
        self.markers_too = True
        self.written: bytes | None = None
        self.sent: list[tuple[Batch, str]] = []

    def lose(self, *, carried_out: bool = True, link: bool = False) -> None:
        """From now on; ``link`` loses the questions afterwards as well."""
        apply = RsmqEditor.apply

        async def losing(editor: RsmqEditor, batch: Batch, token: str) -> str:
            self.sent.append((batch, token))
            if carried_out:
                await apply(editor, batch, token)
            marker = f"{editor.ns}:rsmq-tui:{token}"
            if self.written is not None:
                self._client.set(marker, self.written)
            if self.markers_too:
                self._client.delete(marker, f"{marker}announced")
            raise LostError("lost")

        async def refusing(editor: RsmqEditor, token: str) -> str | None:
            raise LostError("lost")

        self._patch.setattr(RsmqEditor, "apply", losing)
        if link:
            self._patch.setattr(RsmqEditor, "settle", refusing)

    def lose_all_at(self, kind: type[Batch]) -> None:
        """The server loses all data before it executes a batch of that kind."""
        apply = RsmqEditor.apply

        async def losing(editor: RsmqEditor, batch: Batch, token: str) -> str:
            if isinstance(batch, kind):
                self._client.flushall()
                raise LostError("lost")
            return await apply(editor, batch, token)

        self._patch.setattr(RsmqEditor, "apply", losing)

    def find(self) -> None:
        """No more."""
        self._patch.undo()


@pytest.fixture
def losing(client: Redis) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        yield Losing(client, patch)


def later(monkeypatch: pytest.MonkeyPatch, ms: int) -> None:
    """Let the local clock be so much later."""
    now_ms = time.time_ns() // 1_000_000
    monkeypatch.setattr("rsmq_tui.triage.journal.journal.now_ms", lambda: now_ms + ms)


async def lost(triage: ChangeService, action: Action, losing: Losing, **how: bool) -> ChangeReport:
    preview = await triage.preview(action)
    losing.lose(**how)
    try:
        return await triage.run(preview).to_end()
    finally:
        losing.find()


@pytest.mark.parametrize("link", [False, True])
@pytest.mark.parametrize("name", ACTIONS)
async def test_what_was_done_can_be_undone_without_its_marker(
    triage: ChangeService, client: Redis, losing: Losing, name: str, link: bool
) -> None:
    before = everything(client)

    report = await lost(triage, ACTIONS[name], losing, link=link)

    assert report.stopped is not None
    assert report.undoable
    assert everything(client) != before
    if name == "delete":
        with pytest.raises(TriageError, match="may have been consumed instead of deleted, so they are not"):
            await triage.preview_undo(report.change)
    preview = await triage.preview_undo(report.change, unsettled=name == "delete")
    doubt = "may have been consumed instead of deleted" if name == "delete" else "It is not certain that"
    assert any(doubt in note for note in preview.notes)
    assert preview.count == (MESSAGES if name in ("delete", "hide", "move", "copy", "send") else 1)
    assert (await triage.run(preview).to_end()).stopped is None
    assert kept(client) == before


@pytest.mark.parametrize("link", [False, True])
@pytest.mark.parametrize("name", ACTIONS)
async def test_what_is_all_as_it_was_was_not_carried_out(
    triage: ChangeService, client: Redis, losing: Losing, folder: Path, name: str, link: bool
) -> None:
    before = everything(client)

    report = await lost(triage, ACTIONS[name], losing, carried_out=False, link=link)
    await triage.recover()

    assert report.tally.done == report.tally.unsure == 0
    assert kept(client) == before
    with closing(Journal(folder / "journal.sqlite")) as journal:
        (change,) = journal.changes()
    assert (change.done, change.unsure, change.touched, change.doubt) == (0, 0, False, "")


async def test_what_somebody_took_meanwhile_is_unsettled_and_comes_back_only_when_asked_for(
    triage: ChangeService, client: Redis, queues: Rsmq, losing: Losing
) -> None:
    preview = await triage.preview(Delete(queue="a"))
    queues.receive_messages("a", 2)
    (id, *_) = client.zrange("rsmq:a", 0, 0)
    client.zrem("rsmq:a", id)
    client.hdel("rsmq:a:Q", *(id + end for end in (b"", b":rc", b":fr")))
    losing.lose(carried_out=False, link=True)
    report = await triage.run(preview).to_end()
    losing.find()

    assert f"{MESSAGES} unknown (checked at the next start)" in report.sentence
    (change,) = await triage.recover()

    assert (change.done, change.unsure, change.skipped) == (1, 1, MESSAGES - 1)
    assert change.doubt == "it is not certain that 1 of 1 was deleted"
    with pytest.raises(TriageError, match=r"1 message of change 1 may have been consumed .* undo 1 --unsettled puts"):
        await triage.preview_undo()
    assert client.zcard("rsmq:a") == MESSAGES - 1
    report = await triage.run(await triage.preview_undo(1, unsettled=True)).to_end()
    assert report.tally.done == 1
    assert client.zcard("rsmq:a") == MESSAGES


@pytest.mark.parametrize("action", [Copy(queue=A, target=B), Move(queue=A, target=B)], ids=lambda action: action.past)
async def test_items_that_others_may_have_put_there_are_left_alone_unless_asked_for(
    client: Redis, redis_url: str, folder: Path, monkeypatch: pytest.MonkeyPatch, action: Action
) -> None:
    client.rpush(A, "x", "y")
    client.rpush(B, "x")
    lists = list_changes(redis_url, ListNames(), folder)
    preview = await lists.preview(action)

    async def losing(editor: ListEditor, batch: Batch, token: str) -> str:
        client.delete(*client.keys("*:rsmq-tui:*"))
        # A consumer takes what it was to move.
        if not isinstance(action, Copy):
            client.lrem(A, 0, "x")
        raise LostError("lost")

    with monkeypatch.context() as patch:
        patch.setattr(ListEditor, "apply", losing)
        report = await lists.run(preview).to_end()

    assert (report.tally.done, report.tally.unsure) == (1, 1)
    doubt = f"1 message of change 1 may have been sent by another client instead of {action.past}"
    with pytest.raises(TriageError) as caught:
        await lists.preview_undo(1)
    assert str(caught.value) == f"{doubt}, so it is left alone; rsmq-tui undo 1 --unsettled undoes it, too"
    asked = await lists.preview_undo(1, unsettled=True)
    assert f"{doubt}: it is undone anyway." in asked.notes
    assert (asked.count, asked.bodies) == (1, (b"x",) if isinstance(action, Copy) else ())
    assert (await lists.run(asked).to_end()).tally.done == 1
    assert (sorted(client.lrange(A, 0, -1)), client.llen(B)) == ([b"x", b"y"], 0)
    await lists.aclose()


async def test_what_is_settled_comes_back_and_what_is_unsettled_can_follow(
    triage: ChangeService, client: Redis, queues: Rsmq, monkeypatch: pytest.MonkeyPatch
) -> None:
    queues.send_messages("a", ["x"] * 600)
    before = everything(client)
    preview = await triage.preview(Delete(queue="a"))
    numbers, apply = count(1), RsmqEditor.apply

    async def losing_the_third(editor: RsmqEditor, batch: Batch, token: str) -> str:
        number = next(numbers)
        outcome = await apply(editor, batch, token)
        if number == 3:
            marker = f"rsmq:rsmq-tui:{token}"
            client.delete(marker, f"{marker}announced")
            raise LostError("lost")
        return outcome

    monkeypatch.setattr(RsmqEditor, "apply", losing_the_third)
    report = await triage.run(preview).to_end()
    monkeypatch.undo()
    unsettled = report.tally.unsure
    settled = report.tally.done - unsettled
    assert (settled + unsettled, unsettled > 0, settled > 0) == (MESSAGES + 600, True, True)

    plain = await triage.preview_undo()
    assert (plain.count, client.zcard("rsmq:a")) == (settled, 0)
    assert (await triage.run(plain).to_end()).tally.done == settled
    with pytest.raises(TriageError, match="was already undone"):
        await triage.preview_undo(1)
    rest = await triage.preview_undo(1, unsettled=True)
    assert rest.count == unsettled
    assert (await triage.run(rest).to_end()).tally.done == unsettled
    assert kept(client) == before


async def test_a_flushed_server_settles_nothing(triage: ChangeService, client: Redis, losing: Losing) -> None:
    losing.markers_too = False
    await lost(triage, Delete(queue="a"), losing, link=True)
    client.flushall()

    (change,) = await triage.recover()

    assert (change.done, change.unsure) == (MESSAGES, MESSAGES)


async def test_a_server_that_evicts_keys_settles_nothing_without_a_marker(folder: Path, losing: Losing) -> None:
    with EmbeddedServer() as server, closing(Redis.from_url(server.url)) as client:
        queues = Rsmq(client)
        queues.create_queue("a")
        queues.send_messages("a", ["x"] * MESSAGES)
        service = ChangeService(RsmqBackend(server.url, "rsmq"), folder)
        losing.markers_too = False
        await lost(service, Delete(queue="a"), losing, link=True)
        client.delete(*(key for key in markers(client) if not key.endswith(b"announced")))
        client.config_set("maxmemory-policy", "allkeys-random")
        client.config_set("maxmemory", client.info("memory")["used_memory"] + 1_000_000)
        for number in count():
            client.set(f"other {number}", "x" * 100_000)
            if client.info("stats")["evicted_keys"]:
                break

        (change,) = await service.recover()
        await service.aclose()

    assert (change.done, change.unsure) == (MESSAGES, MESSAGES)


@pytest.mark.parametrize("written", [b"x", b"d", b"d" * MESSAGES + b"d", b"d" * MESSAGES + b";no", b"\xff" * MESSAGES])
@pytest.mark.parametrize("link", [False, True])
async def test_what_somebody_wrote_to_a_marker_tells_nothing(
    triage: ChangeService, client: Redis, losing: Losing, link: bool, written: bytes
) -> None:
    before = everything(client)
    losing.markers_too, losing.written = False, written

    report = await lost(triage, Delete(queue="a"), losing, link=link)
    await triage.recover()

    assert report.stopped is not None
    with pytest.raises(TriageError, match="may have been consumed instead of deleted, so they are not"):
        await triage.preview_undo(report.change)
    back = await triage.run(await triage.preview_undo(report.change, unsettled=True)).to_end()
    assert back.tally.done == MESSAGES
    # The marker itself stays: it forbids a call that is on its way.
    assert {key: value for key, value in kept(client).items() if key not in markers(client)} == before


TYPES: dict[str, Callable[[Redis, str], object]] = {
    "hash": lambda client, key: client.hset(key, "a", "b"),
    "list": lambda client, key: client.rpush(key, "a"),
    "zset": lambda client, key: client.zadd(key, {"a": 1}),
}


@pytest.mark.parametrize("kind", TYPES)
async def test_a_marker_of_another_type_tells_nothing_and_stops_no_other_recovery(
    triage: ChangeService, client: Redis, queues: Rsmq, losing: Losing, kind: str
) -> None:
    queues.send_messages("b", ["x"] * 3)
    before = everything(client)
    losing.markers_too = False
    # Every preview settles what is unsettled.
    previews = [await triage.preview(Delete(queue=queue)) for queue in ("a", "b")]
    losing.lose(link=True)
    first, second = [await triage.run(preview).to_end() for preview in previews]
    losing.find()
    (marker,) = (key for key, left in markers(client).items() if left == b"d" * MESSAGES)
    client.delete(marker)
    TYPES[kind](client, marker.decode())

    recovered = {change.change: change for change in await triage.recover()}

    assert recovered.keys() == {first.change, second.change}
    assert recovered[first.change or 0].doubt == "it is not certain that 20 of 20 were deleted"
    assert recovered[second.change or 0].doubt == ""
    assert (await undone(triage, second.change)).tally.done == 3
    with pytest.raises(TriageError, match="may have been consumed instead of deleted, so they are not"):
        await triage.preview_undo(first.change)
    back = await triage.run(await triage.preview_undo(first.change, unsettled=True)).to_end()
    assert back.tally.done == MESSAGES
    assert {key: value for key, value in kept(client).items() if key != marker} == before
    assert await triage.recover() == []


async def test_a_server_that_is_out_of_memory_loses_no_message(
    triage: ChangeService, client: Redis, losing: Losing
) -> None:
    before = everything(client)
    preview = await triage.preview(Delete(queue="a"))
    losing.markers_too = False
    losing.lose()
    client.config_set("maxmemory", 1)
    try:
        report = await triage.run(preview).to_end()
    finally:
        client.config_set("maxmemory", 0)
        losing.find()

    assert client.zcard("rsmq:a") == 0
    assert report.undoable
    await triage.recover()
    assert (await undone(triage)).tally.done == MESSAGES
    assert kept(client) == before


async def test_the_counts_and_the_audit_log_learn_what_was_found_out_later(
    triage: ChangeService, losing: Losing, folder: Path
) -> None:
    losing.markers_too = False
    report = await lost(triage, Delete(queue="a"), losing, link=True)
    assert (report.tally.done, report.tally.unknown, report.undoable) == (0, MESSAGES, True)

    (change,) = await triage.recover()
    assert await triage.recover() == []

    assert (change.state, change.done, change.unsure, change.can_be_undone) == (State.STOPPED, MESSAGES, 0, True)
    lines = audit_lines(folder)
    assert [(line["change"], line["done"]) for line in lines] == [(report.change, 0), (report.change, MESSAGES)]
    assert lines[1]["ended"] == "settled"


async def test_markers_that_are_not_needed_expire_from_another_day_on(
    triage: ChangeService, client: Redis, losing: Losing, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await lost(triage, Delete(queue="a"), losing, carried_out=False)
    assert list(markers(client).values()) == [b""]

    async def refusing(editor: RsmqEditor, tokens: Any) -> None:
        raise LostError("lost")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RsmqEditor, "forget", refusing)
        assert (await done(triage, Delete(queue="a"))).stopped is None
    assert len(markers(client)) == 2
    await triage.recover()
    assert len(markers(client)) == 2
    assert {client.ttl(key) for key in markers(client)} == {-1}
    later(monkeypatch, DAY_MS + 1000)

    await triage.recover()

    assert len(markers(client)) == 2
    assert all(0 < client.pttl(key) <= DAY_MS for key in client.scan_iter(match="*:rsmq-tui:*"))
    with closing(sqlite3.connect(folder / "journal.sqlite")) as db:
        assert db.execute("SELECT * FROM markers").fetchall() == []


async def test_markers_expire_after_the_clock_was_set_back(
    triage: ChangeService, client: Redis, losing: Losing, monkeypatch: pytest.MonkeyPatch
) -> None:
    await lost(triage, Delete(queue="a"), losing, carried_out=False)
    later(monkeypatch, -3_600_000)
    await triage.recover()
    assert {client.ttl(key) for key in markers(client)} == {-1}

    later(monkeypatch, -30 * DAY_MS)
    await triage.recover()

    assert all(0 < client.pttl(key) <= DAY_MS for key in markers(client))


async def test_a_call_that_arrives_after_the_local_clock_has_jumped_is_refused(
    triage: ChangeService, client: Redis, losing: Losing, monkeypatch: pytest.MonkeyPatch
) -> None:
    losing.markers_too = False
    report = await lost(triage, ACTIONS["send"], losing, carried_out=False)
    assert (report.tally.done, report.tally.unknown) == (0, 0)
    before = kept(client)

    later(monkeypatch, 30 * DAY_MS)
    await triage.recover()

    ((batch, token),) = losing.sent
    with pytest.raises(VoidedError):
        await triage._editor.apply(batch, token)
    assert kept(client) == before


async def test_a_server_that_loses_its_data_at_the_last_step_of_a_deletion_gets_the_queue_back(
    triage: ChangeService, client: Redis, losing: Losing
) -> None:
    client.delete("rsmq:b", "rsmq:b:Q", "rsmq:empty", "rsmq:empty:Q")
    client.srem("rsmq:QUEUES", "b", "empty")
    before = everything(client)
    preview = await triage.preview(DeleteQueue(queue="a"))
    losing.lose_all_at(FieldBatch)
    report = await triage.run(preview).to_end()
    losing.find()
    assert (report.tally.done, report.tally.unsure, client.zcard("rsmq:a")) == (MESSAGES + 1, 1, 0)

    preview = await triage.preview_undo(report.change)
    back = await triage.run(preview).to_end()

    assert "It is not certain that 1 of 21 was deleted: another client may have done it." in preview.notes
    assert (back.stopped, back.tally.done) == (None, MESSAGES + 1)
    assert kept(client) == before


async def test_a_server_that_refuses_to_let_markers_expire_is_asked_again_a_day_later(
    triage: ChangeService, client: Redis, losing: Losing, monkeypatch: pytest.MonkeyPatch
) -> None:
    await lost(triage, Delete(queue="a"), losing, carried_out=False)
    later(monkeypatch, DAY_MS + 1000)
    client.acl_setuser("default", enabled=True, commands=["-expire"])
    try:
        await triage.recover()
    finally:
        client.acl_setuser("default", enabled=True, commands=["+expire"])
    # Markers of other namespaces come first meanwhile.
    await triage.recover()
    assert {client.ttl(key) for key in markers(client)} == {-1}
    later(monkeypatch, 2 * DAY_MS + 2000)

    await triage.recover()

    assert all(0 < client.pttl(key) <= DAY_MS for key in markers(client))


@asynccontextmanager
async def another_server_behind(port: int, other: EmbeddedServer) -> AsyncIterator[None]:
    """Somebody else's server is now at the address of one that is gone."""

    async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(65_536):
            sink.write(data)
        sink.close()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        other_reader, other_writer = await asyncio.open_connection("127.0.0.1", other.port)
        await asyncio.gather(pump(reader, other_writer), pump(other_reader, writer))

    server = await asyncio.start_server(connected, "127.0.0.1", port)
    try:
        yield
    finally:
        server.close()


async def test_another_server_at_the_same_address_is_told_and_decides_nothing(folder: Path, losing: Losing) -> None:
    with EmbeddedServer() as first, EmbeddedServer() as other:
        url, port = first.url, first.port
        queues = Rsmq(Redis.from_url(url))
        queues.create_queue("a")
        queues.send_messages("a", ["x"] * MESSAGES)
        service = ChangeService(RsmqBackend(url, "rsmq"), folder)
        losing.markers_too = False
        await lost(service, Delete(queue="a"), losing, link=True)
        await service.recover()
        assert len((await service.preview_undo()).notes) == 1
        await undone(service)
        await lost(service, Delete(queue="a"), losing, link=True)
        await service.aclose()
        first.stop()
        Rsmq(Redis.from_url(other.url)).create_queue("a")

        async with another_server_behind(port, other):
            service = ChangeService(RsmqBackend(url, "rsmq"), folder)
            (change,) = await service.recover()
            with pytest.raises(TriageError, match="may have been consumed"):
                await service.preview_undo()
            preview = await service.preview_undo(unsettled=True)
            await service.aclose()

    assert (change.done, change.unsure, change.can_be_undone) == (MESSAGES, MESSAGES, True)
    assert preview.count == MESSAGES
    assert any("was restarted or replaced since the change" in note for note in preview.notes)


async def test_a_server_that_does_not_say_who_it_is_is_believed(client: Redis, redis_url: str, folder: Path) -> None:
    client.acl_setuser("mute", enabled=True, passwords=["+p"], keys=["*"], commands=["+@all", "-info"])
    service = ChangeService(RsmqBackend(redis_url.replace("://", "://mute:p@"), "rsmq"), folder)
    await done(service, Delete(queue="a"))

    assert len((await service.preview_undo()).notes) == 1
    assert (await undone(service)).tally.done == MESSAGES
    await service.aclose()
    client.acl_deluser("mute")
