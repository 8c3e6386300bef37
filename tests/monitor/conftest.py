"""Fixtures of the monitor's tests: a poller on the test's server, and a timer that lets no time pass."""

import pytest
from redis import Redis

from rsmq_tui.monitor import RsmqPoller
from rsmq_tui.protocol import Rsmq, RsmqReader
from tests.monitor.timing import FakeClock, Gate, Timer


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def timer(monkeypatch: pytest.MonkeyPatch, clock: FakeClock) -> Timer:
    """The poller's waits take no time; those that it asked for move the clock."""
    return Timer(monkeypatch, clock)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    """An open gate, which counts the polls."""
    return Gate(monkeypatch, is_open=True)


@pytest.fixture
def poller(reader: RsmqReader, clock: FakeClock) -> RsmqPoller:
    return RsmqPoller(reader, clock=clock)


@pytest.fixture(autouse=True)
def nothing_settles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Audits and fixes do not wait for messages that may be half written."""
    monkeypatch.setattr("rsmq_tui.monitor.audit.rsmq.SETTLING_S", 0)


@pytest.fixture
def queues(client: Redis) -> Rsmq:
    return Rsmq(client)


@pytest.fixture(params=["scripts", "plain commands"])
async def either(request: pytest.FixtureRequest, reader: RsmqReader) -> RsmqReader:
    """A reader with scripts, and one without."""
    if request.param == "plain commands":
        reader.inspection._runner.refused = "not here"
    return reader
