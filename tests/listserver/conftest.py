"""Three servers that understand lists: this one, the embedded Valkey, and redis-server where there is one."""

from collections.abc import Iterator

import pytest
import redis

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.listserver import ListServer
from tests.listserver.peers import Connection
from tests.servers import real


@pytest.fixture(scope="session")
def shared_list_server() -> Iterator[ListServer]:
    with ListServer() as running:
        yield running


@pytest.fixture(scope="session")
def redis_port() -> Iterator[int]:
    """The port of Debian's redis-server, or of a second Valkey without it."""
    with real.real_server() as running:
        yield running.port


@pytest.fixture(params=["listserver", "valkey", "redis"])
def port(request: pytest.FixtureRequest) -> int:
    """The port of each server in turn, without keys."""
    found: int
    match request.param:
        case "listserver":
            found = request.getfixturevalue("shared_list_server").port
        case "valkey":
            server: EmbeddedServer = request.getfixturevalue("server")
            found = server.port
        case _:
            found = request.getfixturevalue("redis_port")
    with redis.Redis(port=found) as admin:
        admin.flushall()
    return found


@pytest.fixture
def own(shared_list_server: ListServer) -> Iterator[Connection]:
    """A connection to this server, which has no keys."""
    connection = Connection(shared_list_server.port)
    connection.call("FLUSHALL")
    yield connection
    connection.close()
