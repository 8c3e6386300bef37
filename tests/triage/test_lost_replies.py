"""Connections that break between a call and its reply: each batch is carried out exactly once all the same."""

import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from redis import Redis

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.protocol import Rsmq
from rsmq_tui.triage import execute
from rsmq_tui.triage.actions import Delete, DeleteQueue, Send
from rsmq_tui.triage.rsmq.backend import RsmqBackend
from rsmq_tui.triage.service import ChangeService
from tests.hostile.proxy import Proxy
from tests.protocol.keyspace import everything
from tests.triage.doing import audit_lines, done, message_actions, undone
from tests.triage.keyspace import kept, markers

pytestmark = pytest.mark.slow

MESSAGES = 2_600
ACTIONS = {
    **{name: message_actions("a", "b")[name] for name in ("delete", "hide", "move", "copy")},
    "send": Send(queue="a", bodies=(b"x",) * MESSAGES),
    "delete the queue": DeleteQueue(queue="a"),
}


@pytest.fixture
def proxy(redis_url: str, server: EmbeddedServer, queues: Rsmq) -> Iterator[Proxy]:
    for name in ("a", "b"):
        queues.create_queue(name)
    queues.send_messages("a", ["x"] * MESSAGES)
    with Proxy(server.port) as between:
        yield between


def losing(every: int, most: int) -> Callable[[bytes], tuple[bytes, bool]]:
    """Lose one reply in so many, at most so often, and the connection with it."""
    count, lost, lock = 0, 0, threading.Lock()

    def change(data: bytes) -> tuple[bytes, bool]:
        nonlocal count, lost
        with lock:
            count += 1
            if count % every == 0 and lost < most:
                lost += 1
                return b"", True
        return data, False

    return change


class LosingOutcomes:
    """Loses so many replies that tell what became of a batch, bulk strings of letters, each with its connection."""

    def __init__(self, most: int) -> None:
        self.left = most

    def __call__(self, data: bytes) -> tuple[bytes, bool]:
        if self.left and re.match(rb"\$\d+\r\nd+\r\n", data):
            self.left -= 1
            return b"", True
        return data, False


@pytest.mark.parametrize("name", ACTIONS)
async def test_a_lost_reply_is_asked_for_again(proxy: Proxy, client: Redis, folder: Path, name: str) -> None:
    before = everything(client)
    service = ChangeService(RsmqBackend(proxy.url, "rsmq"), folder)
    preview = await service.preview(ACTIONS[name])
    losing = LosingOutcomes(1 if name == "send" else 3)
    proxy.change(losing)

    report = await service.run(preview).to_end()

    assert report.stopped is None
    assert report.tally.done == report.tally.handled == preview.count
    assert markers(client) == {}
    assert losing.left == 0
    losing.left = 1
    back = await undone(service)
    assert (back.stopped, back.tally.done) == (None, preview.count)
    assert everything(client) == before
    assert losing.left == 0
    assert [line["done"] for line in audit_lines(folder)] == [preview.count] * 2
    await service.aclose()


@pytest.mark.parametrize(
    ("name", "every"), [("delete", 2), ("move", 2), ("delete", 3), ("move", 5), ("delete", 7), ("move", 11)]
)
async def test_whatever_is_lost_what_is_said_is_what_was_done(
    proxy: Proxy, client: Redis, folder: Path, name: str, every: int
) -> None:
    before = everything(client)
    service = ChangeService(RsmqBackend(proxy.url, "rsmq"), folder)
    preview = await service.preview(ACTIONS[name])
    proxy.change(losing(every, 4))

    report = await service.run(preview).to_end()
    proxy.forward()
    recovered = await service.recover()

    left = client.zcard("rsmq:a")
    change = max(line["change"] for line in audit_lines(folder)) if report.change is None else report.change
    done_in_all = recovered[0].done if recovered else report.tally.done
    assert done_in_all == MESSAGES - left
    if name == "move":
        assert client.zcard("rsmq:b") == MESSAGES - left
    if left < MESSAGES:
        await undone(service, change)
    assert kept(client) == before
    await service.aclose()


async def test_a_server_that_goes_away_stops_the_change_and_what_was_done_is_found_out_later(
    proxy: Proxy, client: Redis, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execute, "_SETTLE_WAITS_S", (0.01, 0.02))
    before = everything(client)
    service = ChangeService(RsmqBackend(proxy.url, "rsmq"), folder)
    run = service.run(await service.preview(Delete(queue="a")))
    async for tally in run:
        if tally.done:
            proxy.refuse()

    assert run.report is not None
    assert run.report.stopped is not None
    assert "connection refused" in run.report.stopped or "closed the connection" in run.report.stopped
    proxy.listen()
    await service.recover()
    left = client.zcard("rsmq:a")
    assert 0 < left < MESSAGES
    assert markers(client).keys() == {key for key, value in markers(client).items() if not value}
    back = await undone(service, run.report.change)
    assert back.tally.done == MESSAGES - left
    assert kept(client) == before
    again = await done(service, Delete(queue="a"))
    assert again.tally.done == MESSAGES
    await service.aclose()
