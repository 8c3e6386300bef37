"""`rsmq-tui messages list` and `get`: what is in a queue, as JSON lines or words, and nothing is touched."""

import base64
import gzip
import re
import sys

import pytest
from redis import Redis

from rsmq_tui.protocol import Rsmq
from tests.cli.conftest import Command

HOSTILE = [
    b"\x1b[2J\x07\x9b31m",
    b"[/markup] \xff\xfe",
    "\u202eevil\u2066 \ud55c".encode(),
    b"a\nb\r\n\0c",
    b"\xc2\x9b",
]


def test_list_prints_what_matches_as_json_lines(command: Command, orders: Rsmq) -> None:
    found = command("messages", "list", "orders", "--filter", "state:inflight")
    assert (found.status, found.err) == (0, "")
    assert sorted(line["body"] for line in found.lines) == ['{"type": "a", "n": 0}', '{"type": "a", "n": 1}']
    for line in found.lines:
        assert (line["state"], line["rc"], line["size"]) == ("in flight", 1, 21)
        assert line["fr"] >= line["sent_ms"] > 0
    everything = command("messages", "list", "orders").lines
    assert sorted(line["state"] for line in everything) == ["delayed", "in flight", "in flight", *["ready"] * 3]
    assert [line["body_base64"] for line in everything if "body_base64" in line] == ["/wA="]


@pytest.mark.parametrize("action", ["list", "get", "export"])
def test_a_limit_takes_those_due_first(action: str, command: Command, orders: Rsmq, client: Redis) -> None:
    # A scan meets them in another order than the one in which they are due.
    ids = [f"{number:032d}" for number in range(700)]
    dues_ms = [1_700_000_000_000 + number * 7919 % 700 for number in range(700)]
    client.zadd("rsmq:spare", dict(zip(ids, dues_ms, strict=True)))
    client.hset("rsmq:spare:Q", mapping={id: f'{{"n": {number % 2}}}' for number, id in enumerate(ids)})
    first = [id for _, id in sorted(zip(dues_ms, ids, strict=True))]

    narrow = ("--filter", "json.n=1") if action == "get" else ()
    found = command("messages", action, "spare", "--limit", "4", *narrow).lines

    wanted = [id for id in first if int(id) % 2] if narrow else first
    assert [line["id"] for line in found] == wanted[:4]
    assert all(line["rc"] == 0 and line["body"] for line in found)
    last = command("messages", action, "spare", "--filter", f"id:{first[-1]}", "--limit", "1").lines
    assert [line["id"] for line in last] == [first[-1]]


def test_get_takes_a_filter(command: Command, orders: Rsmq) -> None:
    found = command("messages", "get", "orders", "--filter", "state:inflight")
    assert (found.status, found.err) == (0, "")
    assert sorted(line["body"] for line in found.lines) == ['{"type": "a", "n": 0}', '{"type": "a", "n": 1}']
    assert command("messages", "get", "orders", "--filter", "plain", "--raw").out == b"plain"
    none = command("messages", "get", "orders", "--filter", "nothing")
    assert (none.status, none.out, none.err) == (0, b"", "rsmq-tui: no message of orders matches\n")
    assert command("messages", "get", "nope", "--filter", "rc>0").status == 2


def test_get_takes_ids_as_changes_do(command: Command, orders: Rsmq) -> None:
    ids = orders.send_messages("spare", ["a", "b", "c"])
    for arguments in (["spare", "--id", *ids], ["spare", ids[0], "--id", *ids[1:]], ["--id", *ids, "--json", "spare"]):
        assert [line["body"] for line in command("messages", "get", *arguments).lines] == ["a", "b", "c"]


def test_get_decodes_bodies(command: Command, orders: Rsmq) -> None:
    stored = base64.b64encode(gzip.compress(b'{"n": 1, "inner": "[2]"}'))
    id, word = (orders.send_message("spare", text) for text in (stored.decode(), "word"))
    whole, plain = command("messages", "get", "spare", id, word, "--decode", "--json").lines
    assert whole["body"] == '{"n": 1, "inner": [2]}'
    assert whole["decoded"] == ["base64", "gzip", "JSON", "JSON in 1 string"]
    assert (plain["body"], plain["decoded"], whole["size"]) == ("word", [], len(stored))
    assert command("messages", "get", "spare", id, "--decode", "--raw").out == b'{"n": 1, "inner": [2]}'
    assert command("messages", "get", "spare", id, "--raw").out == stored


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "get takes either ids or --filter"),
        (["x" * 32, "--filter", "rc>0"], "get takes either ids or --filter"),
        (["--id", "x" * 32, "--filter", "rc>0"], "get takes either ids or --filter"),
        (["x" * 32, "--limit", "1"], "--limit needs --filter"),
        (["--filter", "customer=7"], 'unknown field "customer". Did you mean json.customer?'),
    ],
)
def test_get_refuses(arguments: list[str], words: str, command: Command, orders: Rsmq) -> None:
    done = command("messages", "get", "orders", *arguments)
    assert (done.status, done.out) == (2, b"")
    assert words in done.err


def test_list_on_a_terminal_is_a_table(command: Command, orders: Rsmq) -> None:
    done = command("messages", "list", "orders", "--filter", "!state:delayed", terminal=True)
    titles, *rows = done.text.splitlines()
    assert titles.split() == ["ID", "STATE", "DUE", "AGE", "RC", "SIZE", "BODY"]
    assert len(rows) == 5
    assert all(len(row) <= 120 for row in rows)
    assert sum("in flight" in row and " in 59m " in row for row in rows) == 2
    assert done.err == "rsmq-tui: 5 messages of 6 in orders\n"


def test_list_says_the_size_of_a_body_that_it_did_not_read(command: Command, orders: Rsmq) -> None:
    orders.send_message("spare", "x" * 5_000_000)
    orders.send_message("spare", "")
    for wanted in ((), ("--filter", "size>=0")):
        rows = command("messages", "list", "spare", *wanted, terminal=True).text.splitlines()[1:]
        # An id may end with a B too.
        bodies = [re.search(r" (?:Mi)?B  (.*)", row) for row in rows]
        shown = sorted("" if body is None else body[1] for body in bodies)
        assert shown == ["", "4.8 MiB: get ID --raw reads it"]


def test_nothing_on_the_server_changes(command: Command, orders: Rsmq, client: Redis) -> None:
    before = {key: client.dump(key) for key in client.scan_iter()}
    id = client.zrange("rsmq:orders", 0, 0)[0].decode()
    for arguments in (["list", "orders"], ["list", "orders", "--group-by", "shape"], ["get", "orders", id]):
        assert command("messages", *arguments).status == 0
    assert {key: client.dump(key) for key in client.scan_iter()} == before


def test_groups(command: Command, orders: Rsmq) -> None:
    counted = command("messages", "list", "orders", "--group-by", "json.type").lines
    assert [(line["group"], line["count"]) for line in counted] == [("(not JSON)", 3), ("a", 2), ("b", 1)]
    assert counted[1]["bytes"] == 42
    assert counted[1]["oldest_age_ms"] >= 0
    shapes = command("messages", "list", "orders", "--group-by", "shape", "--filter", "json", "--limit", "1").lines
    assert [(line["group"], line["count"]) for line in shapes] == [("{n, type}", 3)]
    words = command("messages", "list", "orders", "--group-by", "json.type", terminal=True).text.splitlines()
    assert words[0].split() == ["MESSAGES", "SHARE", "BYTES", "OLDEST", "json.type"]
    assert "50.0%" in words[1]
    refused = command("messages", "list", "orders", "--group-by", "type")
    assert (refused.status, refused.out) == (2, b"")
    assert "group by shape, or by a JSON path" in refused.err


def test_get_prints_whole_messages(command: Command, orders: Rsmq, client: Redis) -> None:
    orders.send_message("spare", "x" * 2_000_000)
    orders.send_message("spare", b"\xff\x00")
    long, raw = (id.decode() for id in client.zrange("rsmq:spare", 0, -1))
    first, second = command("messages", "get", "spare", long, raw).lines
    assert (first["id"], len(first["body"]), first["state"]) == (long, 2_000_000, "ready")
    assert base64.b64decode(second["body_base64"]) == b"\xff\x00"
    assert command("messages", "get", "spare", raw, "--raw").out == b"\xff\x00"
    words = command("messages", "get", "spare", raw, terminal=True)
    assert words.text.endswith("size   2 B\n\n\\xff␀\n\n")
    assert f"id     {raw}\nstate  ready, due " in words.text


def test_get_what_is_not_there(command: Command, orders: Rsmq, client: Redis) -> None:
    id = client.zrange("rsmq:orders", 0, 0)[0].decode()
    done = command("messages", "get", "orders", "nope\x1b[2J", id)
    assert (done.status, len(done.lines)) == (1, 1)
    assert re.fullmatch(r"rsmq-tui: orders on redis://\S+: no message nope␛\[2J; .*\n", done.err)
    assert len(command("messages", "get", "orders", "x" * 100_000).err) < 1_000


def test_the_items_of_a_list_have_no_ids(command: Command, client: Redis) -> None:
    client.lpush("mail", "one")
    done = command("messages", "get", "list:mail", "nope")
    assert (done.status, done.out) == (2, b"")
    assert ": the items of a list have no ids of their own: " in done.err
    assert command("messages", "delete", "list:mail", "--id", "nope").err == done.err

    (item,) = command("messages", "list", "list:mail").lines
    assert command("messages", "get", "list:mail", item["id"]).status == 0
    client.delete("mail")
    client.lpush("mail", "two")
    gone = command("messages", "get", "list:mail", item["id"])
    assert (gone.status, gone.out) == (1, b"")
    assert f": no item {item['id']}; " in gone.err


def test_raw_bytes_are_not_for_a_terminal(command: Command, orders: Rsmq) -> None:
    refused = command("messages", "get", "orders", "any", "--raw", terminal=True)
    assert (refused.status, refused.out) == (2, b"")
    assert "> FILE" in refused.err


@pytest.mark.parametrize("body", HOSTILE, ids=repr)
def test_hostile_bodies_and_ids_are_harmless(body: bytes, command: Command, orders: Rsmq, client: Redis) -> None:
    for terminal in (False, True):
        client.zadd("rsmq:spare", {body: 1})
        client.hset("rsmq:spare:Q", body, body)
        for arguments in (
            ["list", "spare"],
            ["list", "spare", "--group-by", "shape"],
            ["list", "spare", "--group-by", "json.a"],
            ["get", "spare", body.decode("utf-8", "surrogateescape")],
            ["delete", "spare", "--id", body.decode("utf-8", "surrogateescape")],
            ["delete", "spare", "--id", body.decode("utf-8", "surrogateescape"), "--yes"],
        ):
            done = command("messages", *arguments, terminal=terminal)
            assert done.status in (0, 3)
            for line in (*done.text.split("\n"), *done.err.split("\n")):
                assert line.isprintable()
    (message,) = command("journal", "show", "1").lines
    assert message["id"].encode("utf-8", "surrogateescape") == body


def test_what_a_terminal_has_no_character_for(command: Command, orders: Rsmq, monkeypatch: pytest.MonkeyPatch) -> None:
    orders.send_message("spare", "日本")
    monkeypatch.setattr("rsmq_tui.cli.output.sys", _Ascii(sys))
    assert command("messages", "list", "spare", terminal=True).text.splitlines()[1].endswith("6 B  ??")


class _Ascii:
    """The sys module, whose standard output knows ASCII only."""

    def __init__(self, real: object) -> None:
        self._real = real

    def __getattr__(self, name: str) -> object:
        found = getattr(self._real, name)
        return _AsciiOut(found) if name == "stdout" else found


class _AsciiOut:
    encoding = "ascii"

    def __init__(self, real: object) -> None:
        self._real = real

    def __getattr__(self, name: str) -> object:
        return getattr(self._real, name)


def test_the_longest_bodies_are_read_as_they_are_only(
    command: Command, orders: Rsmq, client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rsmq_tui.protocol.rsmq.pages.BODY_BYTES_MAX", 99)
    (id,) = [message.id for message in orders.receive_messages("orders", 1)]
    body = b"0123456789abcdef" * 7
    client.hset("rsmq:orders:Q", id, body)
    refused = command("messages", "get", "orders", id)
    assert refused.status == 1
    assert "too long to be read; get ID --raw reads it" in refused.err
    read = command("messages", "get", "orders", id, "--raw")
    assert (read.status, read.err) == (0, "")
    assert read.out == body


@pytest.mark.parametrize(
    ("arguments", "wide", "narrow"),
    [
        (("messages", "list", "orders"), "ID STATE DUE AGE RC SIZE BODY", "ID STATE DUE RC BODY"),
        (("messages", "list", "*"), "QUEUE ID STATE DUE AGE RC SIZE BODY", "QUEUE ID STATE BODY"),
        (("journal",), "CHANGE WHEN UTC STATE DONE SKIPPED FAILED WHO WHAT", "CHANGE WHEN UTC STATE DONE WHO WHAT"),
        (("known",), "SINCE UNTIL SERVER QUEUE NOTE", "SINCE UNTIL QUEUE NOTE"),
    ],
)
def test_a_narrow_terminal_leaves_out_columns(
    arguments: tuple[str, ...], wide: str, narrow: str, command: Command, client: Redis
) -> None:
    queues = Rsmq(client)
    queues.create_queue("orders")
    queues.create_queue("mails")
    queues.send_message("orders", "x" * 200)
    queues.send_message("mails", "x" * 200)
    assert command("messages", "hide", "orders", "--all", "--for", "1h", "--yes").status == 0
    assert command("known", "add", "orders", "--note", "x" * 200).status == 0
    for columns, titles in ((120, wide), (80, narrow)):
        lines = command(*arguments, terminal=True, columns=columns).text.splitlines()
        assert lines[0].split() == titles.split()
        assert max(map(len, lines)) <= columns


def test_ids_of_items_are_not_cut_off(command: Command, client: Redis) -> None:
    client.rpush("queue:jobs", *(f"job {number}" for number in range(12)))
    lines = command("messages", "list", "list:queue:jobs", terminal=True, columns=80).text.splitlines()
    ids = [line.split()[0] for line in lines[1:]]
    assert len(ids) == 12
    assert max(map(len, lines)) <= 80
    assert command("messages", "get", "list:queue:jobs", ids[-1]).lines[0]["body"] in lines[-1]
