"""What is different from the original, beyond what one command shows; `test_side_by_side` has the table of the page."""

import base64

import pytest
from redis import Redis
from rsmq import RedisSMQ

from rsmq_tui.protocol import Rsmq
from tests.cli.rsmqctl.conftest import Ctl
from tests.protocol.keyspace import now_ms, plant, scripts_run

GONE_ID = "g7aoitedg36TbsB8eP2yPY8XgaLwfKN3"


def due_in_s(client: Redis, queue: str, id: str) -> int:
    """How many seconds from now, rounded up to whole minutes, a message becomes visible."""
    return -(-int(client.zscore(f"rsmq:{queue}", id) - now_ms(client)) // 60_000) * 60


def test_a_send_without_delay_keeps_the_queues_where_the_original_made_it_0(ctl: Ctl, client: Redis) -> None:
    ctl("queue", "create", "-n", "later", "-d", "600")
    waiting = ctl("message", "send", "-n", "later", "-m", "a").out.strip()
    at_once = ctl("message", "send", "-n", "later", "-m", "b", "-d", "0").out.strip()

    assert due_in_s(client, "later", waiting) == 600
    assert due_in_s(client, "later", at_once) <= 0


def test_a_receive_with_0_seconds_works_where_the_original_took_the_queues(ctl: Ctl, rsmq: Rsmq, queue: str) -> None:
    id = rsmq.send_message(queue, "a")

    assert [ctl("message", "receive", "-n", queue, "-t", "0").json["rc"] for _ in range(3)] == [1, 2, 3]
    assert ctl("message", "receive", "-n", queue).json["id"] == id
    assert ctl("message", "receive", "-n", queue).out == "No messages on queue: orders\n"


def test_deleting_a_message_that_was_never_received_succeeds_where_a_newer_pyrsmq_says_it_failed(
    ctl: Ctl, client: Redis, rsmq: Rsmq, queue: str
) -> None:
    id = rsmq.send_message(queue, "a")

    done = ctl("message", "delete", "-n", queue, "-i", id)

    assert (done.status, done.out, done.err) == (0, "", "")
    assert client.zcard("rsmq:orders") == 0
    # PyRSMQ 0.6 deletes it too, and says that it did not; the version that the original asks for says that it did.
    id = rsmq.send_message(queue, "a")
    peer = RedisSMQ(client=client).deleteMessage(qname=queue, id=id, quiet=True).exceptions(False)
    assert peer.execute() is False
    assert client.zcard("rsmq:orders") == 0


@pytest.mark.parametrize("command", ["receive", "pop", "peek"])
@pytest.mark.parametrize(
    ("body", "text"),
    [(b"\xff\x00z", "\ufffd\x00z"), (b"gr\xfc\xdfe", "gr\ufffd\ufffde"), (b"\xed\xa0\x80", "\ufffd" * 3)],
)
def test_a_body_that_is_no_utf8_is_printed_where_the_original_crashed(
    ctl: Ctl, rsmq: Rsmq, queue: str, command: str, body: bytes, text: str
) -> None:
    rsmq.send_message(queue, body)

    printed = ctl("message", command, "-n", queue).json

    assert printed["message"] == text
    assert base64.b64decode(printed["message_base64"]) == body
    assert list(printed)[:4] == ["id", "message", "rc", "ts"]
    assert list(printed)[-1] == "message_base64"


def test_an_argument_that_is_no_utf8_is_sent_as_it_is_where_the_original_crashed(
    ctl: Ctl, rsmq: Rsmq, queue: str
) -> None:
    assert ctl("message", "send", "-n", queue, "-m", b"a\xff".decode("utf-8", "surrogateescape")).status == 0

    assert rsmq.receive_message(queue).body == b"a\xff"


def test_an_empty_message_is_sent_where_the_original_refused_it(ctl: Ctl, rsmq: Rsmq, queue: str) -> None:
    assert ctl("message", "send", "-n", queue, "-m", "").status == 0

    assert ctl("message", "receive", "-n", queue).json["message"] == ""


def test_a_message_longer_than_maxsize_is_refused_where_the_original_sent_it(ctl: Ctl, rsmq: Rsmq) -> None:
    rsmq.create_queue("small", maxsize=1024)

    done = ctl("message", "send", "-n", "small", "-m", "x" * 1025)

    assert (done.status, done.out) == (1, "")
    assert done.err == (
        "Failed to send message: the message is longer than the queue's maxsize; `rsmqctl queue set -m` changes that\n"
    )
    # In the canonical client's measure, which is not bytes.
    assert ctl("message", "send", "-n", "small", "-m", "ñ" * 1024).status == 0


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("-t -3", "vt must be between 0 and 9999999"),
        ("-d 10000000", "delay must be between 0 and 9999999"),
        ("-m 1023", "maxsize must be between 1024 and 65536, or -1 for no limit"),
        ("-m 65537", "maxsize must be between 1024 and 65536, or -1 for no limit"),
    ],
)
def test_an_attribute_out_of_range_is_refused_where_the_original_took_its_default(
    ctl: Ctl, client: Redis, given: str, why: str
) -> None:
    done = ctl("queue", "create", "-n", "q", *given.split())

    assert (done.status, done.out, done.err) == (1, "", f"Failed to create queue: q: {why}\n")
    assert client.keys() == []


def test_a_negative_visibility_timeout_is_refused_where_the_original_wrote_a_time_in_the_past(
    ctl: Ctl, client: Redis, rsmq: Rsmq, queue: str
) -> None:
    id = rsmq.send_message(queue, "a")
    before = client.zscore("rsmq:orders", id)

    received = ctl("message", "receive", "-n", queue, "-t", "-5")
    changed = ctl("message", "visibility", "-n", queue, "-i", id, "-t", "-6")

    assert (received.status, changed.status) == (1, 1)
    assert received.err == "Failed to receive a message: vt must be between 0 and 9999999\n"
    assert changed.err.endswith(f"message ID: {id}: vt must be between 0 and 9999999\n")
    assert client.zscore("rsmq:orders", id) == before


@pytest.mark.parametrize("name", ["a.b", "with space", "jöb", "x" * 161, "abc\n", "QUEUES"])
def test_a_name_that_other_clients_refuse_is_refused_where_the_original_made_the_queue(
    ctl: Ctl, client: Redis, name: str
) -> None:
    done = ctl("queue", "create", "-n", name)

    assert done.status == 1
    assert len(done.err.splitlines()) == 1
    assert "a queue's name has 1 to 160 letters, digits, _ and -" in done.err
    assert client.keys() == []


def test_what_is_left_of_a_queue_can_be_deleted_where_the_original_did_not_find_it(ctl: Ctl, client: Redis) -> None:
    client.zadd("rsmq:rest", {GONE_ID: 1})

    assert ctl("queue", "delete", "-n", "rest").status == 0
    assert client.keys() == []


def test_an_unreadable_attribute_is_null_where_the_original_did_not_find_the_queue(ctl: Ctl, client: Redis) -> None:
    client.hset("rsmq:odd:Q", mapping={"vt": "abc", "delay": "0.5", "maxsize": "1"})

    described = ctl("queue", "describe", "-n", "odd").json

    assert (described["vt"], described["delay"], described["created"]) == (None, 0.0, None)


def test_each_command_is_one_round_trip_where_the_original_made_two_to_five(
    ctl: Ctl, client: Redis, rsmq: Rsmq, queue: str
) -> None:
    def cost(*arguments: str, status: int = 0) -> int:
        # The first time the server learns the script.
        ctl(*arguments)
        before = scripts_run(client)
        assert ctl(*arguments).status == status
        return scripts_run(client) - before

    first, second = rsmq.send_messages(queue, ["later"] * 2, delay=600)
    rsmq.send_messages(queue, ["a"] * 10)
    assert cost("queue", "describe", "-n", queue) == 1
    assert cost("queue", "create", "-n", queue, status=1) == 1
    assert cost("queue", "set", "-n", queue, "-t", "3600") == 1
    assert cost("message", "send", "-n", queue, "-m", "c") == 1
    assert cost("message", "receive", "-n", queue) == 1
    assert cost("message", "receive", "-n", queue, "--count", "2") == 1
    assert cost("message", "pop", "-n", queue) == 1
    assert cost("message", "visibility", "-n", queue, "-i", first, "-t", "600") == 1
    rsmq.delete_message(queue, first)
    before = scripts_run(client)
    assert ctl("message", "delete", "-n", queue, "-i", second).status == 0
    assert scripts_run(client) - before == 1


def test_what_it_describes_is_what_the_originals_library_reads(ctl: Ctl, client: Redis, rsmq: Rsmq) -> None:
    rsmq.create_queue("q", vt=15, delay=5, maxsize=2048)
    rsmq.send_messages("q", ["a", "b"], delay=600)
    rsmq.send_message("q", "c", delay=0)
    ctl("message", "pop", "-n", "q")

    theirs = RedisSMQ(client=client).getQueueAttributes(qname="q").execute()

    ours = ctl("queue", "describe", "-n", "q").json
    assert list(ours.items()) == list(theirs.items())
    assert isinstance(ours["vt"], float)


def test_what_it_receives_is_what_the_originals_library_reads(ctl: Ctl, client: Redis, rsmq: Rsmq, queue: str) -> None:
    rsmq.send_message(queue, "grüße 😀")
    ours = ctl("message", "receive", "-n", queue, "-t", "0").json
    theirs = RedisSMQ(client=client).receiveMessage(qname=queue).execute()

    assert list(ours) == list(theirs)
    assert ours["message"].encode() == theirs["message"]
    assert (ours["id"].encode(), ours["ts"], ours["rc"] + 1) == (theirs["id"], theirs["ts"], theirs["rc"])


def test_a_message_without_a_body_is_passed_over_where_the_original_crashed(
    ctl: Ctl, client: Redis, rsmq: Rsmq, queue: str
) -> None:
    plant(client, queue, GONE_ID, due_ms=1)
    id = rsmq.send_message(queue, "a")

    assert ctl("message", "peek", "-n", queue).json["id"] == id
    assert ctl("message", "receive", "-n", queue).json["id"] == id
