"""kill -9 at every step of a change, of its undo and of the recovery: nothing lost, nothing doubled, all told."""

import asyncio
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from rsmq_tui.monitor.changes import read_changes
from rsmq_tui.protocol import Rsmq
from rsmq_tui.triage.change import State
from rsmq_tui.triage.journal.journal import Journal
from rsmq_tui.triage.jsonl import to_line
from rsmq_tui.triage.rsmq.backend import RsmqBackend
from rsmq_tui.triage.scope import Named
from rsmq_tui.triage.service import ChangeService
from tests.triage.keyspace import kept, lay, message
from tests.triage.killed import KilledChanges

pytestmark = pytest.mark.slow

MESSAGES = 5


class Scene(KilledChanges):
    """A queue of odd messages, one of which was received before, and one that messages are moved to."""

    def _plant(self) -> None:
        lines = [to_line(message(b"%d" % number, rc=b"03", body=b"\xff"), 0) for number in range(4)]
        (self.folder / "export.jsonl").write_text("\n".join([*lines, lines[0]]))
        self.queues = Rsmq(self.client)
        for name in ("a", "b"):
            self.queues.create_queue(name, vt=1000)
        ids = self.queues.send_messages("a", [f"body {number}" for number in range(MESSAGES - 2)])
        self.queues.receive_message("a")
        self.received = ids[0].encode()
        self.queues.change_message_visibility("a", ids[2], 1000)
        lay(self.client, "a", message(b"\xff odd", rc=b"03", score=b"1.5"), message(b"no body", body=None))
        # One that finds its id in use where it is moved to, and so gets another.
        lay(self.client, "b", message(ids[1].encode(), body=b"other", score=b"inf"))
        self.client.hset("rsmq:a:Q", mapping={"stray": "x", "s" * 32: "leaked"})

    def kept(self) -> dict[bytes, Any]:
        return kept(self.client)

    def consume(self) -> bytes | None:
        """Take the one message that was received before from the queue, if it is there."""
        if not self.client.zrem("rsmq:a", self.received):
            return None
        self.client.hdel("rsmq:a:Q", *(self.received + end for end in (b"", b":rc", b":fr")))
        return self.received

    def service(self) -> ChangeService:
        return ChangeService(RsmqBackend(self._url, "rsmq"), self.folder)


@pytest.fixture
def scene(client: Redis, redis_url: str, memory: Path, forking: "subprocess.Popen[str]") -> Scene:
    return Scene(client, redis_url, memory, forking)


def messages(kept: dict[bytes, Any]) -> list[tuple[bytes | None, bytes | None, bytes | None]]:
    """What every message of all queues is, but for its id and when it becomes visible."""
    found = []
    for key, value in kept.items():
        if not key.endswith(b":Q") and key != b"rsmq:QUEUES":
            fields = kept.get(key + b":Q", {})
            found += [(fields.get(id), fields.get(id + b":rc"), fields.get(id + b":fr")) for id, _ in value]
    return sorted(found, key=repr)


@pytest.mark.parametrize(
    "what", ["delete", "hide", "move to a queue that is made", "import", "delete the queue", "fix"]
)
async def test_a_change_that_is_killed_is_known_and_can_be_undone(scene: Scene, what: str) -> None:
    for kill_at in scene.steps():
        changes = await scene.changes_if_killed(what, kill_at)
        if what.startswith("move"):
            assert messages(scene.kept()) == messages(scene.before)
        if changes and changes[0].can_be_undone:
            assert scene.kept() != scene.before
            assert changes[0].state in (State.DONE, State.INTERRUPTED)
            if what == "delete":
                assert changes[0].done == _deleted(scene)
            await scene.undone()
        else:
            assert scene.killed
        assert scene.kept() == scene.before
        scene.check_all_is_reported()


def _deleted(scene: Scene) -> int:
    """How many messages of the scene are deleted on the server."""
    return MESSAGES - scene.client.zcard("rsmq:a")


@pytest.mark.parametrize(
    ("what", "taken"), [("delete", True), ("move", True), ("send", False), ("delete the queue", False)]
)
async def test_an_undo_that_is_killed_is_finished_by_another(scene: Scene, what: str, taken: bool) -> None:
    for kill_at in scene.steps():
        scene.killed = scene.crasher.undo(what, kill_at)
        # A consumer does not wait for the recovery.
        gone = scene.consume() if taken else None
        await scene.recovered()
        scene.check_all_is_reported()
        if scene.kept() == scene.before:
            # What has put all of it back did not end early, whoever recorded its end.
            assert read_changes([scene.folder / "audit.jsonl"]).changes[-1].is_complete

        first = next(change for change in scene.changes() if change.change == 1)
        if first.can_be_undone:
            await scene.undone(1)
        check_all_but_one(scene, gone)
        scene.check_all_is_reported()


@pytest.mark.parametrize("what", ["move", "hide"])
async def test_an_undo_of_a_part_that_is_killed_is_finished_by_another(scene: Scene, what: str) -> None:
    for kill_at in scene.steps():
        ids = sorted(id.decode("utf-8", "surrogateescape") for id, _ in scene.before[b"rsmq:a"])
        scene.killed = scene.crasher.undo(what, kill_at, ids[:3])
        await scene.recovered()
        scene.check_all_is_reported()

        first = next(change for change in scene.changes() if change.change == 1)
        # What is not of the part is as the change left it, and what is counts as undone once.
        assert 0 <= first.undone <= 3
        assert (first.is_part_undone, first.can_be_undone) == (first.undone > 0, True)
        service = scene.service()
        if first.undone < 3:
            part = await service.run(await service.preview_undo(1, scope=Named(tuple(ids[:3])))).to_end()
            assert part.tally.done == 3 - first.undone
        await service.aclose()
        await scene.undone(1)
        assert scene.kept() == scene.before


def check_all_but_one(scene: Scene, id: bytes | None) -> None:
    """Everything is as it was, but for what a consumer has taken."""
    expected, now = dict(scene.before), scene.kept()
    if id is None:
        assert now == expected
        return
    expected[b"rsmq:a"] = [pair for pair in scene.before[b"rsmq:a"] if pair[0] != id]
    mine = {id, id + b":rc", id + b":fr"}
    fields = {name: value for name, value in scene.before[b"rsmq:a:Q"].items() if name not in mine}
    expected[b"rsmq:a:Q"] = fields
    assert now == expected


async def test_a_recovery_that_is_killed_is_finished_by_another(scene: Scene) -> None:
    for kill_at in scene.steps():
        # After the journal has been written twice, and a batch was carried out of which it does not know.
        assert scene.crasher.run("delete", 4)
        scene.killed = scene.crasher.run("recover", kill_at)
        await scene.recovered()
        scene.check_all_is_reported()

        (change,) = scene.changes()
        assert change.state is State.INTERRUPTED
        assert change.done == _deleted(scene)
        if change.can_be_undone:
            await scene.undone()
        assert scene.kept() == scene.before


async def test_two_recoveries_at_once_find_the_same(scene: Scene) -> None:
    for kill_at in range(2, 8):
        assert scene.crasher.run("delete", kill_at)
        services = [scene.service() for _ in range(3)]
        await asyncio.gather(*(service.recover() for service in services))
        scene.check_all_is_reported()
        (change,) = scene.changes()
        assert change.done == _deleted(scene)
        if change.can_be_undone:
            await scene.undone()
        assert scene.kept() == scene.before
        for service in services:
            await service.aclose()
        scene.begin()


async def test_a_call_that_arrives_after_the_recovery_is_not_carried_out(scene: Scene) -> None:
    """The process is gone, but what it has sent may be on its way still."""
    assert scene.crasher.run("delete", 2)
    journal = Journal(scene.folder / "journal.sqlite")
    (entry, *_) = list(journal.entries(1))
    journal.close()
    await scene.recovered()
    service = scene.service()

    with pytest.raises(Exception, match=entry.token):
        await service._editor.apply(entry.batch, entry.token)

    assert scene.kept() == scene.before
    await service.aclose()


@pytest.mark.parametrize("what", ["delete", "delete the queue"])
async def test_nothing_that_was_consumed_after_the_kill_comes_back(scene: Scene, what: str) -> None:
    for kill_at in scene.steps():
        scene.killed = scene.crasher.run(what, kill_at)
        # All that the change has left goes, as no marker can tell, before anybody starts rsmq-tui again.
        consumed = {id for id, _ in scene.client.zrange("rsmq:a", 0, -1, withscores=True)}
        for id in consumed:
            scene.client.zrem("rsmq:a", id)
            scene.client.hdel("rsmq:a:Q", *(id + end for end in (b"", b":rc", b":fr")))

        await scene.recover_and_undo()

        back = {id for id, _ in scene.client.zrange("rsmq:a", 0, -1, withscores=True)}
        all_of_them = {id for id, _ in scene.before[b"rsmq:a"]}
        assert (back & consumed, back | consumed) == (set(), all_of_them)
        scene.check_all_is_reported()


async def test_nothing_that_a_busy_consumer_took_comes_back(scene: Scene) -> None:
    """A consumer takes messages all the time, before the kill and after it, and writes down what it took."""
    for kill_at in range(2, 30, 6):
        scene.queues.send_messages("a", [f"more {number}" for number in range(60)])
        all_of_them = {id for id, _ in scene.client.zrange("rsmq:a", 0, -1, withscores=True)}
        consumed: set[bytes] = set()
        ended = threading.Event()
        consumer = threading.Thread(target=_consume, args=(scene.client, consumed, ended))
        consumer.start()
        scene.crasher.run("delete", kill_at)
        ended.set()
        await asyncio.to_thread(consumer.join)

        service = scene.service()
        await service.recover()
        (change,) = scene.changes()
        if change.can_be_undone:
            await service.run(await service.preview_undo()).to_end()
        await service.aclose()

        back = {id for id, _ in scene.client.zrange("rsmq:a", 0, -1, withscores=True)}
        assert (back & consumed, back | consumed) == (set(), all_of_them)
        assert change.unsure == 0
        scene.begin()


def _consume(client: Redis, consumed: set[bytes], ended: threading.Event) -> None:
    while True:
        # Whoever sees the end looks once more.
        is_last = ended.is_set()
        taken = client.zpopmin("rsmq:a")
        for id, _ in taken:
            consumed.add(id)
            client.hdel("rsmq:a:Q", *(id + end for end in (b"", b":rc", b":fr")))
        if is_last and not taken:
            return
