"""Fixtures of `rsmqctl`: commands run in this process, on the test's server."""

import io
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from rsmq_tui.cli.rsmqctl.main import main
from rsmq_tui.protocol import Rsmq
from tests.cli.running import status_of


@dataclass(frozen=True)
class Done:
    """How a command ended, and what it printed."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        """What it printed, line by line of JSON."""
        assert self.out.isascii()
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def json(self) -> dict[str, Any]:
        (line,) = self.lines
        return line


Ctl = Callable[..., Done]


@pytest.fixture
def anywhere(state: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]) -> Ctl:
    """Run `rsmqctl` on no server in particular; ``stdin`` are the bytes that it may read."""

    # A configuration of the test's own, which is none.
    monkeypatch.setenv("XDG_CONFIG_HOME", str(state / "config"))
    monkeypatch.delenv("RSMQ_TUI_CONFIG", raising=False)

    def ctl(*arguments: str, stdin: bytes = b"") -> Done:
        with monkeypatch.context() as patched:
            patched.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
            status = status_of(main, arguments)
        printed = capsysbinary.readouterr()
        return Done(status, printed.out.decode(), printed.err.decode())

    return ctl


@pytest.fixture
def ctl(anywhere: Ctl, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Ctl:
    """Run `rsmqctl` on the test's server, which the environment names."""
    monkeypatch.setenv("REDIS_URL", redis_url)
    return anywhere


@pytest.fixture
def rsmq(client: Redis) -> Rsmq:
    return Rsmq(client)


@pytest.fixture
def queue(rsmq: Rsmq) -> str:
    """A queue of a day's visibility timeout, without messages."""
    rsmq.create_queue("orders", vt=3600)
    return "orders"
