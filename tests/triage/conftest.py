"""Fixtures of the tests of changes: a service that makes them, and their queues."""

import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from redis import Redis

from rsmq_tui.protocol import Rsmq
from rsmq_tui.triage.rsmq.backend import RsmqBackend
from rsmq_tui.triage.service import ChangeService
from tests.killing import forking_from

SHARED_MEMORY = Path("/dev/shm")


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: a journal waits for the disk at every step."""
    if not os.access(SHARED_MEMORY, os.W_OK):
        yield tmp_path
        return
    with TemporaryDirectory(dir=SHARED_MEMORY, prefix="rsmq-tui-") as folder:
        yield Path(folder)


@pytest.fixture
def folder(memory: Path) -> Path:
    """Where the journal and the audit log will be; it is not there yet."""
    return memory / "state"


@pytest.fixture
async def triage(redis_url: str, folder: Path) -> AsyncIterator[ChangeService]:
    service = ChangeService(RsmqBackend(redis_url, "rsmq"), folder)
    yield service
    await service.aclose()


@pytest.fixture
def queues(client: Redis) -> Rsmq:
    return Rsmq(client)


@pytest.fixture(autouse=True)
def nothing_settles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Audits and fixes do not wait for messages that may be half written."""
    monkeypatch.setattr("rsmq_tui.monitor.audit.rsmq.SETTLING_S", 0)


@pytest.fixture(scope="module")
def forking() -> Iterator["subprocess.Popen[str]"]:
    """The process from which those are forked that are killed in a change."""
    with forking_from("tests.triage.crashing") as process:
        yield process
