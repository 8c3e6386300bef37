"""Every sentence of an error, on stderr and in one line, with its exit status; and what a read-only server refuses."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from redis import Redis

from rsmq_tui.listserver import ListServer
from rsmq_tui.protocol import Rsmq
from tests.cli.rsmqctl.conftest import Ctl
from tests.protocol.keyspace import everything
from tests.protocol.responder import Responder

ID = "g7aoitedg36TbsB8eP2yPY8XgaLwfKN3"
SECRET = "hunter2"

CHANGES = {
    "queue create": ["queue", "create", "-n", "new"],
    "queue set": ["queue", "set", "-n", "orders", "-t", "1"],
    "queue delete": ["queue", "delete", "-n", "orders"],
    "message send": ["message", "send", "-n", "orders", "-m", "a"],
    "message receive": ["message", "receive", "-n", "orders"],
    "message pop": ["message", "pop", "-n", "orders"],
    "message delete": ["message", "delete", "-n", "orders", "-i", ID],
    "message visibility": ["message", "visibility", "-n", "orders", "-i", ID, "-t", "1"],
}
READS = {
    "queue list": ["queue", "list"],
    "queue describe": ["queue", "describe", "-n", "orders"],
    "message peek": ["message", "peek", "-n", "orders"],
    "message peek -i": ["message", "peek", "-n", "orders", "-i", ID],
    "message list": ["message", "list", "-n", "orders"],
}
ALL = CHANGES | READS


@pytest.mark.parametrize("command", [command for command in ALL if command not in ("queue create", "queue list")])
def test_a_queue_that_is_not_there(ctl: Ctl, client: Redis, command: str) -> None:
    done = ctl(*ALL[command])
    assert (done.status, done.out, done.err) == (1, "", "No such queue: orders\n")
    assert client.keys() == []


def test_a_queue_that_is_already_there(ctl: Ctl, client: Redis, queue: str) -> None:
    before = everything(client)
    done = ctl("queue", "create", "-n", queue, "-t", "1")
    assert (done.status, done.out, done.err) == (1, "", "Queue already exists: orders\n")
    assert everything(client) == before


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["delete", "-i", ID], f"Failed to delete message ID: {ID}"),
        (["delete", "-i", "bad"], "Failed to delete message ID: bad"),
        (["delete", "-i", ""], "Failed to delete message ID: "),
        (["delete", "-i", "vt"], "Failed to delete message ID: vt"),
        (["visibility", "-t", "5", "-i", ID], f"Failed to change visibility timeout for message ID: {ID}"),
        (["visibility", "-t", "5", "-i", "bad"], "Failed to change visibility timeout for message ID: bad"),
        (["peek", "-i", ID], f"No such message on queue orders: {ID}"),
        (["send", "-m", "a", "-d", "-1"], "Failed to send message: delay must be between 0 and 9999999"),
    ],
)
def test_what_cannot_be_done_to_a_message(ctl: Ctl, queue: str, arguments: list[str], sentence: str) -> None:
    done = ctl("message", *arguments, "-n", queue)
    assert (done.status, done.out, done.err) == (1, "", f"{sentence}\n")


@pytest.mark.parametrize("command", ["receive", "pop", "peek", "list"])
def test_no_message_is_no_error(ctl: Ctl, queue: str, command: str) -> None:
    done = ctl("message", command, "-n", queue)
    assert (done.status, done.out, done.err) == (0, "No messages on queue: orders\n", "")


@pytest.mark.parametrize("command", [command for command in ALL if command not in ("queue create", "queue list")])
def test_a_key_of_another_type(ctl: Ctl, client: Redis, queue: str, command: str) -> None:
    client.set("rsmq:orders", "x")
    done = ctl(*ALL[command])
    assert (done.status, done.out) == (1, "")
    (line,) = done.err.splitlines()
    assert line.startswith("Failed to ")
    assert line.endswith("another type of value than RSMQ's")
    assert client.get("rsmq:orders") == b"x"


def test_an_index_of_another_type(ctl: Ctl, client: Redis) -> None:
    client.set("rsmq:QUEUES", "x")
    done = ctl("queue", "list")
    assert (done.status, done.out, done.err) == (1, "", "rsmqctl: the index rsmq:QUEUES is not a set of names\n")
    created = ctl("queue", "create", "-n", "orders")
    assert (created.status, created.err) == (
        1,
        "Failed to create queue: orders: a key of this queue holds another type of value than RSMQ's\n",
    )
    assert client.keys() == [b"rsmq:QUEUES"]


# Read-only.


@pytest.mark.parametrize("command", CHANGES)
@pytest.mark.parametrize("by", ["before", "behind", "env"])
def test_read_only_refuses_every_change(
    ctl: Ctl, client: Redis, rsmq: Rsmq, queue: str, command: str, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rsmq.send_message(queue, "a")
    before = everything(client)
    if by == "env":
        monkeypatch.setenv("RSMQ_TUI_READ_ONLY", "1")

    done = ctl(*["--read-only"] * (by == "before"), *CHANGES[command], *["--read-only"] * (by == "behind"))

    assert (done.status, done.out) == (1, "")
    assert done.err == (
        f"rsmqctl: this is read-only, and `{command}` would change the queue; `message peek`, `message "
        "list` and `queue describe` only read\n"
    )
    assert everything(client) == before


@pytest.mark.parametrize("command", [command for command in READS if not command.endswith("-i")])
def test_read_only_reads(ctl: Ctl, rsmq: Rsmq, queue: str, command: str) -> None:
    rsmq.send_message(queue, "a")
    assert (ctl("--read-only", *READS[command]).status, ctl(*READS[command]).status) == (0, 0)


# The server.


def sentence(ctl: Ctl, *arguments: str, status: int = 1) -> str:
    done = ctl(*arguments)
    assert (done.status, done.out) == (status, "")
    (line,) = done.err.splitlines()
    assert line.startswith("rsmqctl: ")
    assert SECRET not in line
    return line


@pytest.mark.parametrize("command", ALL)
def test_a_server_that_is_not_there(anywhere: Ctl, command: str) -> None:
    line = sentence(anywhere, "-r", f"redis://bob:{SECRET}@127.0.0.1:1/3", *ALL[command])
    deed = "change" if command in CHANGES else "read"
    assert line == (
        f"rsmqctl: cannot {deed} redis://127.0.0.1:1/3: connection refused; check that the server is "
        "running, and the host and port"
    )


@pytest.mark.parametrize(
    "url",
    [
        "nonsense",
        f"http://:{SECRET}@host",
        f"redis://:{SECRET}#x@host",
        f"redis://h?socket_timeout={SECRET}",
        "unix://",
    ],
)
@pytest.mark.parametrize("command", ["queue list", "message pop", "message peek"])
def test_a_url_that_cannot_be_one(anywhere: Ctl, url: str, command: str) -> None:
    assert "not a Redis URL" in sentence(anywhere, "-r", url, *ALL[command], status=2)


REPLIES: Mapping[bytes, str] = {
    b"-LOADING Redis is loading the dataset in memory": "loading its data into memory; try again when it has finished",
    b"-NOAUTH Authentication required.": "the server requires a password; put it in the URL",
    b"-NOPERM this user has no permissions to run the 'evalsha' command": "this user may not do that; grant it +@read",
    b"-OOM command not allowed when used memory > 'maxmemory'.": "out of memory; free memory or raise maxmemory",
    b"-READONLY You can't write against a read only replica.": "the server is a read-only replica; ",
    b"-ERR it \x1b[31mhurts": "it ␛[31mhurts; see the server's log",
    b"+OK": "; check whether a Redis server is listening on that port",
    b":7": "; check whether a Redis server is listening on that port",
    b"*0": "; check whether a Redis server is listening on that port",
    b"$-1": "; check whether a Redis server is listening on that port",
    b"HTTP/1.1 400 Bad Request": "; check whether a Redis server is listening on that port",
    b"": "the server closed the connection; check whether it was restarted",
}


@pytest.mark.parametrize("reply", REPLIES, ids=lambda reply: reply[:12].decode())
@pytest.mark.parametrize("command", ["queue describe", "message send", "message receive", "message peek"])
def test_a_server_that_answers_otherwise(anywhere: Ctl, command: str, reply: bytes) -> None:
    with Responder(reply) as server:
        line = sentence(anywhere, "-r", server.url, *ALL[command])
    assert REPLIES[reply] in line
    if reply.startswith(b"-READONLY"):
        assert ("point the URL at the primary" in line) is (command in CHANGES)


@pytest.mark.parametrize(("command", "is_unsure"), [("message pop", True), ("queue describe", False)])
def test_a_change_whose_reply_was_lost_says_so(
    anywhere: Ctl, list_server: ListServer, command: str, is_unsure: bool
) -> None:
    with list_server.fault("drop-before"):
        line = sentence(anywhere, "-r", list_server.url, *ALL[command])
    assert line.endswith(" It is not known whether the change was made.") is is_unsure
    assert ("; check whether it was restarted. It is not known" in line) is is_unsure


def test_a_change_that_never_left_does_not_say_so(anywhere: Ctl, list_server: ListServer, tmp_path: Path) -> None:
    sentinel = list_server
    with sentinel.fault("drop-before"):
        config = tmp_path / "config.toml"
        config.write_text(f'[profiles.ha]\nsentinels = ["127.0.0.1:{sentinel.port}"]\nsentinel_service = "mymaster"\n')
        line = sentence(anywhere, "--config", str(config), "--profile", "ha", *ALL["message pop"])
    assert line.startswith(f"rsmqctl: cannot change sentinel://127.0.0.1:{sentinel.port}/mymaster/0: ")
    assert "not known" not in line


def test_a_server_that_is_not_there_for_a_name_that_is_none(anywhere: Ctl) -> None:
    line = sentence(anywhere, "-r", "redis://127.0.0.1:1", "queue", "describe", "-n", "a.b")
    assert line.startswith("rsmqctl: cannot read redis://127.0.0.1:1/0: connection refused; ")


def test_a_user_who_may_only_read(anywhere: Ctl, client: Redis, redis_url: str, queue: str) -> None:
    client.execute_command("ACL", "SETUSER", "looker", "on", f">{SECRET}", "~*", "+@read", "+@connection", "+time")
    url = redis_url.replace("redis://", f"redis://looker:{SECRET}@")
    line = sentence(anywhere, "-r", url, *ALL["message pop"])
    assert line.endswith(
        "this user may not do that; grant it +@read +@write +@scripting +time on the keys of the namespace"
    )
    reading = sentence(anywhere, "-r", url, *ALL["queue describe"])
    assert reading.endswith("this user may not do that; grant it +@read +@scripting +time on the keys of the namespace")
    assert anywhere("-r", url, "queue", "list").out == '["orders"]\n'
    assert anywhere("-r", url, "message", "list", "-n", queue).status in (0, 1)


# -v.


def test_verbose_adds_where_it_came_up_and_nothing_that_could_be_secret(anywhere: Ctl) -> None:
    url = f"redis://bob:{SECRET}@127.0.0.1:1"
    plain, verbose = anywhere("-r", url, "queue", "list"), anywhere("-v", "-r", url, "queue", "list")

    assert (plain.status, verbose.status) == (1, 1)
    *places, line = verbose.err.splitlines()
    assert f"{line}\n" == plain.err
    assert any(re.match(r'  File ".*rsmqctl/queue\.py", line', place) for place in places)
    assert "ConnectionError at:" in places
    assert SECRET not in verbose.err


def test_verbose_changes_nothing_of_what_goes_well(ctl: Ctl, queue: str) -> None:
    assert ctl("-v", "queue", "describe", "-n", queue) == ctl("queue", "describe", "-n", queue)
