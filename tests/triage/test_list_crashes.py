"""kill -9 at every step of a change of list queues and of its undo: nothing lost, nothing doubled, all told."""

import subprocess
from collections import Counter
from pathlib import Path

import pytest
from redis import Redis

from rsmq_tui.protocol import Rsmq
from rsmq_tui.protocol.lists.naming import ListNames
from rsmq_tui.triage.service import ChangeService
from tests.triage.keyspace import kept
from tests.triage.killed import KilledChanges
from tests.triage.list_doing import NAMES, lay, lease, list_changes, read, take

pytestmark = pytest.mark.slow

NAME = NAMES["right"]
ITEMS = [b"0", b"same", b"same", b"\xff", b"4"]


class Scene(KilledChanges):
    """A list queue with items in processing, one of them taken twice over, and queues that items are moved to."""

    def _plant(self) -> None:
        Rsmq(self.client).create_queue("b")
        lay(self.client, NAME, "queue:a", ITEMS)
        lay(self.client, NAME, "queue:b", [b"b"])
        lay(self.client, NAME, "queue:a:processing", [b"w 1", b"w 2", b"same"])
        self.client.zadd("queue:a:leases", {lease("a", b"w 1"): 2**41, lease("b", b"same"): 1})

    def service(self) -> ChangeService:
        return list_changes(self._url, ListNames(), self.folder)

    def bodies(self) -> Counter[bytes]:
        lists = (read(self.client, NAME, key) for key in ("queue:a", "queue:b", "queue:a:processing"))
        sent = [value for name, value in self.client.hgetall("rsmq:b:Q").items() if len(name) == 32]
        return Counter([item for items in lists for item in items] + sent)


@pytest.fixture
def scene(client: Redis, redis_url: str, memory: Path, forking: "subprocess.Popen[str]") -> Scene:
    return Scene(client, redis_url, memory, forking)


@pytest.mark.parametrize("what", ["list: to RSMQ", "list: requeue"])
async def test_a_change_that_is_killed_is_known_and_can_be_undone(scene: Scene, what: str) -> None:
    for kill_at in scene.steps():
        changes = await scene.changes_if_killed(what, kill_at)
        assert scene.bodies() == Counter([*ITEMS, b"b", b"w 1", b"w 2", b"same"])
        if changes and changes[0].can_be_undone:
            assert kept(scene.client) != scene.before
            assert changes[0].unsure == 0
            await scene.undone()
        else:
            assert scene.killed
        assert {**kept(scene.client), b"rsmq:b:Q": 0} == {**scene.before, b"rsmq:b:Q": 0}
        scene.check_all_is_reported()


@pytest.mark.parametrize(("what", "taken"), [("list: delete", True), ("list: move", False)])
async def test_an_undo_that_is_killed_is_finished_by_another(scene: Scene, what: str, taken: bool) -> None:
    for kill_at in scene.steps():
        scene.killed = scene.crasher.undo(what, kill_at)
        # A consumer does not wait for the recovery.
        gone = [item for item in take(scene.client, NAME, "queue:a") if item is not None] if taken else []
        await scene.recovered()
        scene.check_all_is_reported()

        first = next(change for change in scene.changes() if change.change == 1)
        if first.can_be_undone:
            await scene.undone(1)
        assert scene.bodies() + Counter(gone) == Counter([*ITEMS, b"b", b"w 1", b"w 2", b"same"])
        if not taken:
            assert kept(scene.client) == scene.before
        scene.check_all_is_reported()


async def test_nothing_that_was_consumed_after_the_kill_comes_back(scene: Scene) -> None:
    for kill_at in scene.steps():
        scene.killed = scene.crasher.run("list: delete", kill_at)
        consumed = Counter(take(scene.client, NAME, "queue:a", scene.client.llen("queue:a")))

        await scene.recover_and_undo()

        assert Counter(read(scene.client, NAME, "queue:a")) + consumed == Counter(ITEMS)
        scene.check_all_is_reported()
