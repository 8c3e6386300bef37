"""The connections to one address: all of them are closed, whatever becomes of one."""

import pytest
from redis import Redis

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.protocol import Address, Traffic
from rsmq_tui.protocol.connections.pool import ConnectionManager
from tests.waiting import wait_until


def connections(server: EmbeddedServer) -> int:
    with Redis.from_url(server.url) as admin:
        return len(admin.client_list()) - 1


@pytest.mark.parametrize("failing", ["tracked", "pool"])
async def test_all_are_closed_though_one_cannot_be(
    server: EmbeddedServer, redis_url: str, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    before = connections(server)
    manager = ConnectionManager(Address(redis_url), timeout_s=5, traffic=Traffic())
    first, second = (manager._connection(name, None, None) for name in ("first", "second"))
    for link in (first, second):
        await link.runner.ask(("PING",))
        await link.tracked.begin(("TIME",))
    assert connections(server) == before + 4
    part = getattr(first, failing)
    close = part.aclose

    async def fails() -> None:
        await close()
        raise OSError("first")

    async def fails_too() -> None:
        await second_close()
        raise OSError("second")

    second_close = second.tracked.aclose
    monkeypatch.setattr(part, "aclose", fails)
    monkeypatch.setattr(second.tracked, "aclose", fails_too)
    with pytest.raises(OSError, match="first"):
        await manager.aclose()

    wait_until(lambda: connections(server) == before, what="all connections to be closed")
