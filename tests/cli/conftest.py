"""Fixtures of the command line: commands run in this process, with a journal of their own."""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.cli.main import main
from rsmq_tui.protocol import Rsmq
from tests.cli.running import status_of
from tests.protocol.keyspace import everything, plant
from tests.quick_apps import exact_idleness, freed_at_the_end, painted_when_looked_at, painting, parsed_styles

__all__ = ["exact_idleness", "freed_at_the_end", "painted_when_looked_at", "painting", "parsed_styles"]


@pytest.fixture
def frozen() -> Iterator[EmbeddedServer]:
    """A server that accepts connections and answers nothing."""
    with EmbeddedServer() as server:
        os.kill(server.pid, signal.SIGSTOP)
        yield server


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder that takes the place of the user's home, so that the journal is the test's own."""
    home = tmp_path / "home"
    home.mkdir()
    for name in ("HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(home))
    for name in ("REDIS_URL", "RSMQ_NS", "RSMQ_TUI_READ_ONLY", "RSMQ_TUI_JOURNAL_MB", "RSMQ_TUI_JOURNAL_DAYS"):
        monkeypatch.delenv(name, raising=False)
    return home


def write(path: Path, text: str) -> None:
    """Add to a configuration that only its user can read."""
    with path.open("a") as file:
        file.write(text)
    path.chmod(0o600)


@pytest.fixture
def config(tmp_path: Path, redis_url: str, client: Redis) -> Path:
    """A configuration to which a test adds rules, or more about its server, and a queue of two messages there."""
    rsmq = Rsmq(client)
    rsmq.create_queue("orders")
    rsmq.send_messages("orders", ["one", "two"])
    path = tmp_path / "config.toml"
    write(
        path, f'default = "shop"\n[profiles.dead]\nurl = "redis://127.0.0.1:1"\n[profiles.shop]\nurl = "{redis_url}"\n'
    )
    return path


@pytest.fixture
def live_and_dead(redis_url: str, client: Redis, tmp_path: Path) -> Path:
    """A configuration with a server, of which it has the namespaces jobs and mails, and one that does not answer."""
    for ns in ("jobs", "mails"):
        Rsmq(client, ns=ns).create_queue("orders")
    config = tmp_path / "config.toml"
    write(
        config,
        f'[profiles.live]\nurl = "{redis_url}"\nnamespaces = ["jobs", "mails"]\n'
        '[profiles.dead]\nurl = "redis://user:hunter2@127.0.0.1:1/0"\n',
    )
    return config


@dataclass(frozen=True)
class Done:
    """How a command ended, and what it printed."""

    status: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode("utf-8", "surrogateescape")

    @property
    def lines(self) -> list[dict[str, Any]]:
        """What it printed, line by line of JSON."""
        assert self.out.isascii()
        return [json.loads(line) for line in self.text.splitlines()]


Command = Callable[..., Done]


@pytest.fixture
def anywhere(state: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]) -> Command:
    """Run a command without a given server; with ``terminal`` its output is a terminal."""

    def command(*arguments: str, terminal: bool = False, columns: int = 120) -> Done:
        with monkeypatch.context() as patched:
            if terminal:
                patched.setattr(sys.stdout, "isatty", lambda: True, raising=False)
                patched.setenv("COLUMNS", str(columns))
            status = status_of(main, arguments)
        printed = capsysbinary.readouterr()
        err = printed.err.decode()
        assert "Traceback" not in err
        return Done(status, printed.out, err)

    return command


@pytest.fixture
def command(anywhere: Command, redis_url: str) -> Command:
    """Run a command on the test's server."""

    def on_server(*arguments: str, **options: Any) -> Done:
        return anywhere("-r", redis_url, *arguments, **options)

    return on_server


@pytest.fixture
def orders(client: Redis) -> Rsmq:
    """A server with `orders`, 6 messages of which 2 are in flight and 1 is delayed; `spare`, empty; `orders-dlq`, 2."""
    rsmq = Rsmq(client)
    for name in ("orders", "spare", "orders-dlq"):
        rsmq.create_queue(name, vt=3600, maxsize=-1)
    rsmq.send_messages(
        "orders", ['{"type": "a", "n": 0}', '{"type": "a", "n": 1}', '{"type": "b", "n": 2}', b"\xff\x00"]
    )
    assert len(rsmq.receive_messages("orders", 2)) == 2
    rsmq.send_message("orders", "plain", delay=3600)
    rsmq.send_message("orders", "")
    rsmq.send_messages("orders-dlq", ['{"from": {"queue": "orders"}}', '{"from": {"queue": "orders"}}'])
    return rsmq


@pytest.fixture
def keys(client: Redis) -> Callable[[], Mapping[bytes, object]]:
    """Return the content of all keys."""
    return lambda: everything(client)


@pytest.fixture(autouse=True)
def nothing_settles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Audits and fixes do not wait for what may be half written."""
    monkeypatch.setattr("rsmq_tui.monitor.audit.rsmq.SETTLING_S", 0)
    monkeypatch.setattr("rsmq_tui.monitor.audit.lists.SETTLING_S", 0)


@pytest.fixture
def trouble(client: Redis, orders: Rsmq) -> Rsmq:
    """`orders` with two dangling ids and a leaked body, `spare` unlisted, `gone` without keys, `rust` with its ids."""
    for letter in "ab":
        plant(client, "orders", letter * 32, due_ms=1_700_000_000_000)
    client.hset("rsmq:orders:Q", "c" * 32, "leaked")
    client.srem("rsmq:QUEUES", "spare")
    client.sadd("rsmq:QUEUES", "gone")
    orders.create_queue("rust")
    plant(client, "rust", "r" * 30, due_ms=1_700_000_000_000, body="x")
    return orders
