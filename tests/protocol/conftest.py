"""Fixtures of the protocol's tests: a test that takes ``queues`` runs once with each of the two clients."""

import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
import redis
import redis.asyncio

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.protocol import AsyncRsmq, Rsmq
from rsmq_tui.protocol.rsmq.editor import RsmqEditor
from tests.protocol.either import Either

MakeQueues = Callable[..., Either]
SERVERS = ["embedded", *(["redis-server"] if shutil.which("redis-server") else [])]


@pytest.fixture(params=["sync", "async"])
def make_queues(request: pytest.FixtureRequest, client: redis.Redis, aclient: redis.asyncio.Redis) -> MakeQueues:
    def make(ns: str = "rsmq", *, realtime: bool = False) -> Either:
        if request.param == "sync":
            return Either(Rsmq(client, ns, realtime))
        return Either(AsyncRsmq(aclient, ns, realtime))

    return make


@pytest.fixture
def queues(make_queues: MakeQueues) -> Either:
    return make_queues()


@pytest.fixture
async def orders(queues: Either) -> Either:
    """The client, with a queue ``orders``."""
    await queues.create_queue("orders")
    return queues


@pytest.fixture
async def editor(redis_url: str) -> AsyncIterator[RsmqEditor]:
    editor = RsmqEditor(redis_url)
    yield editor
    await editor.aclose()


@pytest.fixture(scope="module", params=SERVERS)
def either_server(request: pytest.FixtureRequest) -> Iterator[EmbeddedServer]:
    """The embedded Valkey and, where there is one, Redis: their tables are built in different ways."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param != "embedded":
            program = Path(shutil.which("redis-server") or "")
            patch.setattr("rsmq_tui.cli.demo.server.find_server", lambda: program)
        with EmbeddedServer() as running:
            yield running
