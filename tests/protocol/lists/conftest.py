"""Fixtures of the list queues' tests: each server at hand, and both clients."""

import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack

import pytest
import redis
import redis.asyncio

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.protocol import AsyncListQueue, ListNames, ListQueue
from rsmq_tui.protocol.lists.client import USUAL_NAMES
from tests.protocol.either import Either
from tests.protocol.lists.wire import Tap, Wire
from tests.servers.real import real_server

# The embedded Valkey, and what the system has.
SERVERS = ["embedded", *(["redis-server"] if shutil.which("redis-server") else [])]

# Each client once and each server once: enough where what is sent has been compared byte by byte elsewhere.
each_once = pytest.mark.parametrize(
    ("any_server", "kind"), [("embedded", "sync"), (SERVERS[-1], "async")], indirect=True, scope="session"
)

MakeQueue = Callable[..., Either]


@pytest.fixture(scope="session", params=SERVERS)
def any_server(request: pytest.FixtureRequest) -> Iterator[int]:
    """The port of each server in turn."""
    with ExitStack() as stack:
        if request.param == "embedded":
            running: EmbeddedServer = request.getfixturevalue("server")
            yield running.port
        else:
            yield stack.enter_context(real_server(program=shutil.which("redis-server"))).port


@pytest.fixture
def port(any_server: int) -> int:
    """The port of a server without keys."""
    with redis.Redis(port=any_server) as admin:
        admin.flushall()
    return any_server


@pytest.fixture
def db(port: int) -> Iterator[redis.Redis]:
    with redis.Redis(port=port) as connected:
        yield connected


@pytest.fixture
async def adb(port: int) -> AsyncIterator[redis.asyncio.Redis]:
    async with redis.asyncio.Redis(port=port) as connected:
        yield connected


@pytest.fixture
def wire(port: int) -> Iterator[Wire]:
    with Wire(port) as connected:
        yield connected


@pytest.fixture
def wires(port: int) -> Iterator[Callable[[], Wire]]:
    """Makes further connections."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(Wire(port))


@pytest.fixture
def tap(port: int) -> Iterator[Tap]:
    with Tap(port) as tapped:
        yield tapped


@pytest.fixture(params=["sync", "async"])
def kind(request: pytest.FixtureRequest) -> str:
    """Which of the two clients."""
    return str(request.param)


@pytest.fixture
def make_queue(kind: str, db: redis.Redis, adb: redis.asyncio.Redis) -> MakeQueue:
    def make(name: str | bytes = "orders", names: ListNames = USUAL_NAMES) -> Either:
        if kind == "sync":
            return Either(ListQueue(db, name, names=names))
        return Either(AsyncListQueue(adb, name, names=names))

    return make


@pytest.fixture
def queue(make_queue: MakeQueue) -> Either:
    return make_queue()
