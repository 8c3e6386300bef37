"""Names, ids and bodies that want to get at the terminal or at the program: nothing passes, nothing crashes."""

import json

import pytest
from redis import Redis

from rsmq_tui.protocol import Rsmq
from tests.cli.rsmqctl.conftest import Ctl
from tests.protocol.keyspace import plant

BODIES = [
    b"\x1b]0;owned\x07\x1b[2J",
    "\u202eevil\u2066\u200b".encode(),
    b"[/foo][bold red]x",
    b"\x00\r\n\x7f\x9b31m",
    b"{not json",
    "e\u0301".encode() + "\u0301".encode() * 50,
    b"\xff" * 500,
    "\ufffd".encode(),
    b"x" * 2_000_000,
]
NAMES = ["\x1b[31mred", "a\nb", "../x", "[/foo]", "x" * 3000, "\u202ex", "-n", "--help", "a:b", "q\udcff"]


def harmless(text: str) -> bool:
    return all(line.isprintable() for line in text.split("\n"))


@pytest.mark.parametrize("body", BODIES, ids=lambda body: repr(body[:10]))
@pytest.mark.parametrize("output", ["json", "text"])
def test_a_hostile_body(ctl: Ctl, client: Redis, rsmq: Rsmq, output: str, body: bytes) -> None:
    rsmq.create_queue("orders", maxsize=-1)
    rsmq.send_messages("orders", [body] * 2)

    for command in ("list", "peek", "receive", "pop"):
        done = ctl("message", command, "-n", "orders", "--output", output)
        assert (done.status, done.err) == (0, "")
        assert harmless(done.out)
        if output == "json":
            assert done.out.isascii()
            fields = json.loads(done.out.splitlines()[0])
            if command != "list":
                assert fields["message"] == body.decode("utf-8", "replace")
            assert ("message_base64" in fields) is (command != "list" and body in (BODIES[3], BODIES[6]))


@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name[:10]))
@pytest.mark.parametrize("command", [
    ["queue", "create"], ["queue", "delete"], ["queue", "describe"], ["queue", "set", "-t", "1"],
    ["message", "send", "-m", "a"], ["message", "receive"], ["message", "pop"],
    ["message", "list"], ["message", "peek"],
])  # fmt: skip
def test_a_hostile_queue_name(ctl: Ctl, client: Redis, command: list[str], name: str) -> None:
    done = ctl(*command, "-n", name)

    if name in ("-n", "--help") and command[1] == "create":
        assert done.status == 0
        return
    assert (done.status, done.out) == (1, "")
    (line,) = done.err.splitlines()
    assert line.isprintable()
    assert len(line) < 600
    assert client.keys() == []


@pytest.mark.parametrize("id", [*NAMES, ""], ids=lambda name: ascii(name[:10]))
@pytest.mark.parametrize("command", [["delete"], ["visibility", "-t", "1"], ["peek"]])
def test_a_hostile_id(ctl: Ctl, queue: str, command: list[str], id: str) -> None:
    done = ctl("message", *command, "-n", queue, "-i", id)

    assert (done.status, done.out) == (1, "")
    (line,) = done.err.splitlines()
    assert line.isprintable()


def test_hostile_names_ids_and_fields_that_lie_there(ctl: Ctl, client: Redis) -> None:
    for name in NAMES:
        client.sadd("rsmq:QUEUES", name.encode("utf-8", "surrogateescape"))
    plant(client, "orders", "\x1b[2J\n", due_ms=1, body=b"\x1b[31m", rc="x", fr="\x1b")
    plant(client, "orders", "far", due_ms=10**300, body=b"a")
    client.zadd("rsmq:orders", {b"\xff\xfe": "inf", b"past": "-inf"})
    client.hset("rsmq:orders:Q", mapping={"vt": "30", "delay": "1e400", "maxsize": "\x1b[31m", "totalsent": "x"})

    names = ctl("queue", "list")
    assert names.out.isascii()
    assert json.loads(names.out) == sorted(NAMES)
    for output in ("json", "text"):
        for command in (
            ["queue", "list"],
            ["queue", "describe"],
            ["message", "list"],
            ["message", "peek", "--count", "9"],
        ):
            named = [] if command[1] == "list" and command[0] == "queue" else ["-n", "orders"]
            done = ctl(*command, *named, "--output", output)
            assert (done.status, done.err) == (0, "")
            assert harmless(done.out)
    listed = ctl("message", "list", "-n", "orders").lines
    assert [row["id"] for row in listed] == ["past", "\x1b[2J\n", "far", "\udcff\udcfe"]
    assert listed[-1]["due_ms"] is None
    assert ctl("message", "receive", "-n", "orders").json["id"] == "\x1b[2J\n"


def test_a_hostile_namespace(ctl: Ctl, client: Redis) -> None:
    assert ctl("--ns", "\x1b[31m", "queue", "list").out == "[]\n"
    done = ctl("--ns", "\x1b[31m\udcff", "queue", "describe", "-n", "x")
    assert done.err == "No such queue in namespace ␛[31m\\xff: x\n"
