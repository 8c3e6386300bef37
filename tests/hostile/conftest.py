"""Fixtures of the hostile tests: retries that do not make a test wait, and a watch over what is on the server."""

from collections.abc import Iterator

import pytest
from redis import Redis

from rsmq_tui.cli.demo import EmbeddedServer
from tests.hostile.payloads import fill
from tests.hostile.proxy import Proxy
from tests.quick_apps import freed_at_the_end, painted_when_looked_at, painting, parsed_styles

__all__ = ["freed_at_the_end", "painted_when_looked_at", "painting", "parsed_styles"]


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """The poller retries as it always does, only sooner."""
    monkeypatch.setattr("rsmq_tui.monitor.poller.RETRY_FIRST_S", 0.05)
    monkeypatch.setattr("rsmq_tui.monitor.poller.RETRY_MAX_S", 0.05)


@pytest.fixture(autouse=True)
def no_themes_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp()))


@pytest.fixture
def orders(client: Redis) -> Redis:
    """A server with a queue of two messages."""
    fill(client)
    return client


@pytest.fixture
def proxy(server: EmbeddedServer, orders: Redis) -> Iterator[Proxy]:
    """What the dashboard connects to in place of that server."""
    with Proxy(server.port) as running:
        yield running
