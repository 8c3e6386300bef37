"""What the original does not have: namespaces, set, peek, list, counts, bodies from files, words for people."""

import base64
import json
from pathlib import Path

import pytest
from redis import Redis
from rsmq import RedisSMQ

from rsmq_tui.protocol import Rsmq
from tests.cli.rsmqctl.conftest import Ctl
from tests.protocol.keyspace import everything, now_ms, plant


@pytest.fixture
def peer(client: Redis) -> RedisSMQ:
    return RedisSMQ(client=client)


NONE = "No messages on queue: orders\n"


@pytest.mark.parametrize("by", ["--ns", "env"])
def test_another_namespace(ctl: Ctl, client: Redis, by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    there = ["--ns", "{jobs}"] if by == "--ns" else []
    if by == "env":
        monkeypatch.setenv("RSMQ_NS", "{jobs}")
    assert ctl(*there, "queue", "create", "-n", "q").status == 0
    id = ctl(*there, "message", "send", "-n", "q", "-m", "a").out.strip()

    assert client.smembers("{jobs}:QUEUES") == {b"q"}
    for command in ("peek", "list", "receive"):
        assert ctl("message", command, "-n", "q", *there).json["id"] == id
    assert ctl(*there, "queue", "describe", "-n", "no").err == "No such queue in namespace {jobs}: no\n"
    assert ctl("--ns", "rsmq", "queue", "list").out == "[]\n"


def test_set_changes_what_is_given_and_prints_all(ctl: Ctl, rsmq: Rsmq, queue: str) -> None:
    done = ctl("queue", "set", "-n", queue, "-t", "5", "--maxsize", "-1")

    assert list(done.json.items())[:3] == [("vt", 5.0), ("delay", 0.0), ("maxsize", -1)]
    assert (done.status, done.out) == (0, ctl("queue", "describe", "-n", queue).out)
    assert ctl("queue", "set", "-n", queue, "-d", "0").json["delay"] == 0
    found = rsmq.get_queue_attributes(queue)
    assert (found.vt, found.delay, found.maxsize) == (5, 0, -1)


def test_set_without_anything_to_set(ctl: Ctl, queue: str) -> None:
    done = ctl("queue", "set", "-n", queue)
    assert (done.status, done.out) == (2, "")
    assert done.err == "rsmqctl: queue set takes at least one of -t, -d and -m\n"


def test_peek_prints_what_is_next_and_changes_nothing(ctl: Ctl, client: Redis, rsmq: Rsmq, queue: str) -> None:
    first, second = rsmq.send_messages(queue, ["a", "b"])
    rsmq.send_message(queue, "later", delay=600)
    before = everything(client)

    peeked = ctl("message", "peek", "-n", queue).json
    many = ctl("message", "peek", "-n", queue, "--count", "9").lines

    assert {name: peeked[name] for name in ("id", "message", "rc", "ts", "state", "size")} == {
        "id": first, "message": "a", "rc": 0, "ts": None, "state": "ready", "size": 1,
    }  # fmt: skip
    assert peeked["due_ms"] == client.zscore("rsmq:orders", first)
    assert [message["id"] for message in many] == [first, second]
    assert everything(client) == before


def test_peek_finds_a_hidden_message_by_its_id(ctl: Ctl, client: Redis, rsmq: Rsmq, queue: str) -> None:
    rsmq.send_message(queue, "a")
    received = rsmq.receive_message(queue)

    peeked = ctl("message", "peek", "-n", queue, "-i", received.id).json

    assert (peeked["state"], peeked["rc"], peeked["ts"]) == ("in flight", 1, received.fr_ms)
    assert ctl("message", "peek", "-n", queue).out == NONE
    gone = ctl("message", "peek", "-n", queue, "-i", "nowhere")
    assert (gone.status, gone.out, gone.err) == (1, "", "No such message on queue orders: nowhere\n")


def test_peek_prints_whole_bodies(ctl: Ctl, rsmq: Rsmq, queue: str) -> None:
    rsmq.send_message(queue, "é" * 20_000)
    assert ctl("message", "peek", "-n", queue).json["message"] == "é" * 20_000


def test_list_prints_every_message_in_order_with_its_state(ctl: Ctl, client: Redis, rsmq: Rsmq, queue: str) -> None:
    rsmq.send_message(queue, "a")
    in_flight = rsmq.receive_message(queue)
    ready = rsmq.send_message(queue, "a" + "€" * 200)
    delayed = rsmq.send_message(queue, b"\xff", delay=100_000)
    before = everything(client)

    rows = ctl("message", "list", "-n", queue).lines

    assert [(row["id"], row["state"], row["rc"], row["size"]) for row in rows] == [
        (ready, "ready", 0, 601),
        (in_flight.id, "in flight", 1, 1),
        (delayed, "delayed", 0, 1),
    ]
    # Cut within a character, which is no reason to take it for something else than text.
    assert rows[0]["preview"] == "a" + "€" * 79
    assert "preview_base64" not in rows[0]
    assert base64.b64decode(rows[2]["preview_base64"]) == b"\xff"
    assert abs(rows[0]["sent_ms"] - now_ms(client)) < 60_000
    assert everything(client) == before


def test_list_goes_over_pages_up_to_a_count_and_says_how_many_there_are(ctl: Ctl, rsmq: Rsmq, queue: str) -> None:
    ids = rsmq.send_messages(queue, ["x"] * 250)

    default, some, every = (
        ctl("message", "list", "-n", queue, *more) for more in ([], ["--count", "201"], ["--count", "999"])
    )

    assert [row["id"] for row in default.lines] == ids[:100]
    assert default.err == "rsmqctl: 100 of 250 messages; --count N prints more\n"
    assert [row["id"] for row in some.lines] == ids[:201]
    assert ([row["id"] for row in every.lines], every.err) == (ids, "")


def test_list_and_peek_read_queues_of_any_name(ctl: Ctl, client: Redis) -> None:
    plant(client, "jöb.1 x", "short", due_ms=1, body="a")
    client.sadd("rsmq:QUEUES", "empty one")

    assert ctl("message", "list", "-n", "jöb.1 x").json["id"] == "short"
    assert ctl("message", "peek", "-n", "jöb.1 x").json["message"] == "a"
    assert ctl("message", "list", "-n", "empty one").out == "No messages on queue: empty one\n"
    assert ctl("message", "list", "-n", "no one").err == "No such queue: no one\n"


def test_describe_reads_queues_of_any_name_that_is_listed(ctl: Ctl, client: Redis, peer: RedisSMQ) -> None:
    peer.createQueue(qname="jöb.1 x", vt=15.5, delay=2, maxsize=2048).execute()
    for body in "abc":
        peer.sendMessage(qname="jöb.1 x", message=body, delay=0).execute()
    peer.popMessage(qname="jöb.1 x").execute()
    peer.receiveMessage(qname="jöb.1 x").vt(600).execute()

    described = ctl("queue", "describe", "-n", "jöb.1 x")

    assert described.json == peer.getQueueAttributes(qname="jöb.1 x").execute()
    assert list(described.json) == list(peer.getQueueAttributes(qname="jöb.1 x").execute())
    assert ctl("queue", "describe", "-n", "jöb.2").err == "No such queue: jöb.2\n"


@pytest.mark.parametrize("command", ["receive", "pop"])
def test_many_at_once(ctl: Ctl, rsmq: Rsmq, queue: str, command: str) -> None:
    ids = rsmq.send_messages(queue, ["x"] * 130)

    taken = ctl("message", command, "-n", queue, "--count", "120").lines
    rest = ctl("message", command, "-n", queue, "--count", "120").lines

    assert [message["id"] for message in taken] == ids[:120]
    assert [message["id"] for message in rest] == ids[120:]
    assert list(rest[0]) == ["id", "message", "rc", "ts"]
    assert ctl("message", command, "-n", queue, "--count", "2").out == NONE
    assert rsmq.get_queue_attributes(queue).msgs == (130 if command == "receive" else 0)


@pytest.mark.parametrize("there", [3, 100, 130])
def test_many_at_once_that_come_round_again_are_printed_once(ctl: Ctl, rsmq: Rsmq, queue: str, there: int) -> None:
    ids = rsmq.send_messages(queue, ["x"] * there)

    taken = ctl("message", "receive", "-n", queue, "--count", "1000", "-t", "0").lines

    assert sorted(message["id"] for message in taken) == sorted(ids)
    assert len({message["rc"] for message in taken}) == 1
    # The last call may get some again; no further one is made.
    assert rsmq.get_queue_attributes(queue).totalrecv <= -(-(there + 1) // 100) * 100
    if there < 100:
        assert rsmq.get_queue_attributes(queue).totalrecv == there


@pytest.mark.parametrize("content", [b"", b"plain", b"line\n", b"\x00\xff\xfe", "grüße".encode(), b"x" * 60_000])
@pytest.mark.parametrize("by", ["file", "stdin"])
def test_a_body_from_a_file_is_sent_byte_for_byte(
    ctl: Ctl, rsmq: Rsmq, queue: str, tmp_path: Path, content: bytes, by: str
) -> None:
    path = tmp_path / "body"
    path.write_bytes(content)

    done = ctl("message", "send", "-n", queue, "--body-file", str(path) if by == "file" else "-", stdin=content)

    assert (done.status, done.err) == (0, "")
    received = rsmq.receive_message(queue)
    assert (received.id, received.body) == (done.out.strip(), content)


def test_one_body_and_no_more(ctl: Ctl, queue: str) -> None:
    done = ctl("message", "send", "-n", queue, "-m", "a", "--body-file", "b")
    assert (done.status, done.out) == (2, "")
    assert done.err == "rsmqctl: message send takes a body: give either -m TEXT or --body-file FILE\n"


def test_a_file_that_is_not_there(ctl: Ctl, queue: str, tmp_path: Path) -> None:
    done = ctl("message", "send", "-n", queue, "--body-file", str(tmp_path / "no\x1b[31m"))
    assert done.status == 1
    assert done.err.endswith("/no␛[31m: No such file or directory\n")


def test_json_alone(ctl: Ctl, rsmq: Rsmq, queue: str) -> None:
    sent = ctl("--output", "json", "message", "send", "-n", queue, "-m", "a").json
    changed = ctl("message", "visibility", "-n", queue, "-i", sent["id"], "-t", "0", "--output", "json").json
    received = ctl("message", "receive", "-n", queue, "--output=json")
    none = ctl("message", "receive", "-n", queue, "--output=json")

    assert list(sent) == ["id"]
    assert changed == {"id": sent["id"], "vt": 0}
    assert received.json["id"] == sent["id"]
    assert (none.status, none.out, none.err) == (0, "", NONE)


def test_words_for_people(ctl: Ctl, rsmq: Rsmq, queue: str) -> None:
    id = rsmq.send_message(queue, b"two\nlines \xff \x1b[31m")
    described = ctl("--output", "text", "queue", "describe", "-n", queue).out
    peeked = ctl("--output", "text", "message", "peek", "-n", queue).out
    listed = ctl("--output", "text", "message", "list", "-n", queue).out
    received = ctl("--output", "text", "message", "receive", "-n", queue).out

    assert ctl("--output", "text", "queue", "list").out == "orders\n"
    assert described.splitlines()[0].split() == ["vt", "3600", "s"]
    assert [line.split()[0] for line in described.splitlines()] == list(
        json.loads(ctl("queue", "describe", "-n", queue).out)
    )
    for text in (peeked, received):
        assert f"id    {id}\n" in text
        assert text.endswith("\n\ntwo\nlines \\xff ␛[31m\n\n")
    assert "rc    1, first received 2" in received
    assert "state ready, " in peeked
    assert listed.splitlines()[1].startswith(f"{id}  ready ")
    assert ctl("--output", "text", "message", "receive", "-n", queue).out == NONE
    assert ctl("--output", "text", "message", "list", "-n", queue).out.count("in flight") == 1


def test_durations_may_have_units(ctl: Ctl, client: Redis, rsmq: Rsmq) -> None:
    assert ctl("queue", "create", "-n", "q", "-t", "1h", "-d", "2m").status == 0
    assert client.hmget("rsmq:q:Q", "vt", "delay") == [b"3600", b"120"]
    assert ctl("queue", "set", "-n", "q", "-t", "1h30m", "-d", "0").json["vt"] == 5400.0
    id = ctl("message", "send", "-n", "q", "-m", "a", "-d", "0").out.strip()
    before_ms = client.time()[0] * 1000
    assert ctl("message", "receive", "-n", "q", "-t", "2h").json["id"] == id
    assert client.zscore("rsmq:q", id) >= before_ms + 7_200_000
    done = ctl("message", "visibility", "-n", "q", "-i", id, "-t", "10m")
    assert done.out == f"Message ID: {id} visibility timeout set to 600s\n"
    assert client.zscore("rsmq:q", id) < before_ms + 7_200_000


@pytest.mark.parametrize("id", ["short", "A" * 22, "123e4567-e89b-12d3-a456-426614174000", "-n", "\udcff"])
def test_what_was_received_can_be_hidden_and_deleted_whatever_its_id(
    id: str, ctl: Ctl, client: Redis, rsmq: Rsmq, queue: str
) -> None:
    raw = id.encode("utf-8", "surrogateescape")
    client.zadd("rsmq:orders", {raw: 1})
    client.hset("rsmq:orders:Q", raw, "a")

    assert ctl("message", "receive", "-n", queue, "-t", "0").json["id"] == id
    assert ctl("message", "visibility", "-n", queue, "-i", id, "-t", "0").status == 0
    assert ctl("message", "delete", "-n", queue, "-i", id).status == 0
    assert client.exists("rsmq:orders") == 0
    assert not client.hexists("rsmq:orders:Q", raw)
