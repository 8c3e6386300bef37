"""Servers that the configuration file names."""

from pathlib import Path

import pytest
from redis import Redis

from rsmq_tui.protocol import Rsmq
from tests.cli.rsmqctl.conftest import Ctl
from tests.protocol.keyspace import everything


@pytest.fixture
def config(tmp_path: Path, redis_url: str) -> str:
    path = tmp_path / "servers.toml"
    path.write_text(
        f'default = "here"\n[profiles.here]\nurl = "{redis_url}"\n'
        f'[profiles.careful]\nurl = "{redis_url}"\nread_only = true\nnamespaces = ["jobs"]\n'
    )
    path.chmod(0o600)
    return str(path)


def test_a_profile_names_the_server_and_its_namespace(anywhere: Ctl, client: Redis, config: str) -> None:
    Rsmq(client, "jobs").create_queue("q")

    for arguments in (["--profile", "careful", "queue", "list"], ["queue", "list", "--profile=careful"]):
        assert anywhere("--config", config, *arguments).out == '["q"]\n'
    assert anywhere("--config", config, "--profile", "careful", "--ns", "rsmq", "queue", "list").out == "[]\n"
    message = anywhere("--config", config, "--profile", "careful", "message", "peek", "-n", "q")
    assert (message.status, message.out) == (0, "No messages on queue: q\n")


def test_a_read_only_profile_refuses_changes(anywhere: Ctl, client: Redis, config: str) -> None:
    Rsmq(client, "jobs").create_queue("q")
    before = everything(client)

    for arguments in (["message", "send", "-m", "a"], ["message", "receive"], ["queue", "delete"]):
        done = anywhere("--config", config, "--profile", "careful", *arguments, "-n", "q")
        assert (done.status, done.out) == (1, "")
        assert done.err.startswith(f"rsmqctl: this is read-only, and `{arguments[0]} {arguments[1]}` would change")
    assert everything(client) == before


def test_the_default_profile_is_used_where_nothing_names_a_server(
    anywhere: Ctl, rsmq: Rsmq, queue: str, config: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert anywhere("queue", "list", "--config", config).out == '["orders"]\n'
    monkeypatch.setenv("REDIS_URL", "redis://127.0.0.1:1")
    assert anywhere("queue", "list", "--config", config).status == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--profile", "no"], "there is no profile no"),
        (["--profile", "here", "-r", "redis://a"], "both name a server"),
        (["--profile", "here,careful"], "one server at a time"),
    ],
)
def test_a_profile_that_cannot_be_used_is_a_usage_error(
    anywhere: Ctl, config: str, arguments: list[str], words: str
) -> None:
    done = anywhere("--config", config, *arguments, "queue", "list")
    assert (done.status, done.out) == (2, "")
    (line,) = done.err.splitlines()
    assert line.startswith("rsmqctl: ")
    assert words in line
