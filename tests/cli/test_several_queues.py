"""A pattern in place of a queue: messages of many queues are listed, counted, exported and changed by one command."""

import json
import re
from pathlib import Path

import pytest
from redis import Redis

from rsmq_tui.protocol import Rsmq
from rsmq_tui.triage.execute import RunningChange
from rsmq_tui.triage.scope import Preview
from rsmq_tui.triage.service import ChangeService
from tests.cli.conftest import Command

LISTS = ("--lists", "queue:*")
HOSTILE = 'queue:[/red]"\x1b[2J'


@pytest.fixture(autouse=True)
def queues(client: Redis) -> Rsmq:
    """Three RSMQ queues, one of them empty, one that holds a wrong type, and two lists."""
    rsmq = Rsmq(client)
    for name in ("orders-eu", "orders-us", "empty", "mail", "wrong"):
        rsmq.create_queue(name)
    for name, number in (("orders-eu", 6), ("orders-us", 4), ("mail", 3)):
        rsmq.send_messages(name, [f'{{"customer": {n % 2}, "queue": "{name}"}}' for n in range(number)])
    client.set("rsmq:wrong", "x")
    for key in ("queue:push", HOSTILE):
        client.lpush(key, *(f'{{"customer": {n % 2}}}' for n in range(4)))
    return rsmq


def test_messages_of_all_queues_are_listed_with_their_queue(command: Command, client: Redis) -> None:
    done = command("messages", "list", "*", "--filter", "json.customer=1", *LISTS)
    assert done.status == 1
    assert done.err.count("another type of value") == 1
    found = [(line["queue"], json.loads(line["body"])["customer"]) for line in done.lines]
    assert set(found) == {
        *(("orders-eu", 1), ("orders-us", 1), ("mail", 1)),
        *(("list:queue:push", 1), (f"list:{HOSTILE}", 1)),
    }
    assert len(found) == 3 + 2 + 1 + 2 + 2
    client.delete("rsmq:wrong")
    done = command("messages", "list", "*", *LISTS, "--filter", "json.customer=1", terminal=True)
    assert done.status == 0
    assert "\x1b" not in done.text
    assert [line.split()[0] for line in done.text.splitlines()[:4]] == ["QUEUE", "mail", "orders-eu", "orders-eu"]
    assert "3 messages of 6 in orders-eu" in done.err
    assert "10 messages of 21 in 5 of 5 queues" in done.err
    # A pattern may name the queues of one kind; lists need not be in the profile.
    for pattern, queues in (
        ("orders-*", {"orders-eu", "orders-us"}),
        ("rsmq:m*", {"mail"}),
        ("list:queue:p*", {"list:queue:push"}),
        ("orders-[eE]?", {"orders-eu"}),
    ):
        assert {line["queue"] for line in command("messages", "list", pattern).lines} == queues
    assert len(command("messages", "list", "*", "--limit", "5").lines) == 5
    assert command("messages", "list", "orders-eu").lines[0].keys().isdisjoint({"queue"})


@pytest.mark.parametrize("pattern", ["r*", "l*", "*:[om]*", "?s*"])
def test_a_pattern_without_a_prefix_is_compared_with_names_alone(command: Command, pattern: str) -> None:
    done = command("messages", "delete", pattern, "--all", "--yes", *LISTS)
    assert (done.status, done.out) == (2, b"")
    assert done.err.endswith(f" matches {pattern}\n")


def test_they_are_counted_grouped_and_got(command: Command, client: Redis, queues: Rsmq) -> None:
    client.delete("rsmq:wrong")
    counted = command("messages", "list", "*", *LISTS, "--filter", "json.customer=0", "--count")
    assert counted.status == 0
    assert {line["queue"]: (line["matched"], line["depth"]) for line in counted.lines} == {
        "mail": (2, 3),
        "orders-eu": (3, 6),
        "orders-us": (2, 4),
        "list:queue:push": (2, 4),
        f"list:{HOSTILE}": (2, 4),
    }
    assert command("messages", "list", "mail", "--filter", "nothing", "--count").lines == [
        {"queue": "mail", "matched": 0, "depth": 3, "not_searched": 0}
    ]
    printed = command("messages", "list", "orders-*", "--count", terminal=True)
    assert [line.split() for line in printed.text.splitlines()] == [
        ["MATCHES", "DEPTH", "QUEUE"],
        ["6", "6", "orders-eu"],
        ["4", "4", "orders-us"],
    ]
    groups = command("messages", "list", "*", *LISTS, "--group-by", "json.customer").lines
    assert {group["group"]: group["count"] for group in groups} == {"0": 11, "1": 10}
    got = command("messages", "get", "orders-*", "--filter", "json.customer=1", "--limit", "4").lines
    assert [line["queue"] for line in got] == ["orders-eu"] * 3 + ["orders-us"]
    # A queue of which something could not be searched is counted too, and named.
    queues.set_queue_attributes("empty", maxsize=-1)
    queues.send_message("empty", "x" * 1_500_000)
    counted = command("messages", "list", "*", "--filter", "json.customer=0", "--count")
    assert {"queue": "empty", "matched": 0, "depth": 1, "not_searched": 1} in counted.lines
    assert "1 message of empty could not be searched: the body is too long." in counted.err
    preview = command("messages", "delete", "*", "--filter", "json.customer=0", terminal=True)
    assert "Too long to search: 1 message of empty." in preview.text
    assert re.search(r"^  on +redis://", preview.text, re.MULTILINE)


@pytest.mark.parametrize("instead", [(), ("--count",), ("--group-by", "shape")])
def test_that_nothing_matches_is_said_where_the_output_is_json(
    command: Command, client: Redis, instead: tuple[str, ...]
) -> None:
    client.delete("rsmq:wrong")
    done = command("messages", "list", "*", "--filter", "rc>90", *instead)
    assert (done.status, done.out) == (0, b"")
    assert done.err == "rsmq-tui: 0 messages of 13 in 0 of 3 queues\n"
    assert command("messages", "list", "*", "--filter", "json.customer=1", *instead).err == ""


def test_they_are_exported_to_one_file_that_import_reads(command: Command, client: Redis, tmp_path: Path) -> None:
    client.delete("rsmq:wrong")
    file = tmp_path / "all.jsonl"
    done = command("messages", "export", "*", *LISTS, "--filter", "json.customer=1", "-o", str(file))
    assert (done.status, "10 messages of 5 queues" in done.err) == (0, True)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert {line["queue"] for line in lines} >= {"orders-eu", f"list:{HOSTILE}"}
    of_queues = tmp_path / "queues.jsonl"
    assert command("messages", "export", "orders-*", "-o", str(of_queues)).status == 0
    Rsmq(client).create_queue("spare")
    (report,) = command("messages", "import", "spare", str(of_queues), "--yes").lines
    assert report["done"] == 10


def test_a_change_is_previewed_made_and_undone_queue_by_queue(
    command: Command, client: Redis, queues: Rsmq, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.delete("rsmq:wrong")
    arguments = ("messages", "delete", "*", *LISTS, "--filter", "json.customer=1")
    preview = command(*arguments)
    assert preview.status == 3
    assert {line["queue"]: line["planned"] for line in preview.lines} == {
        "mail": 1,
        "orders-eu": 3,
        "orders-us": 2,
        "list:queue:push": 2,
        f"list:{HOSTILE}": 2,
    }
    printed = command(*arguments, terminal=True)
    assert printed.text.startswith("Delete 10 messages in 5 queues\n")
    assert "orders-eu: 3, now 3 ready" in printed.text
    assert "Messages changed since this preview are skipped and counted." in printed.text
    assert client.zcard("rsmq:orders-eu") == 6

    honest, received = ChangeService.run, list[str]()

    def received_meanwhile(self: ChangeService, preview: Preview) -> RunningChange:
        if preview.action.queue == "orders-eu":
            received.extend(message.id for message in queues.receive_messages("orders-eu", 3, vt=100))
        return honest(self, preview)

    monkeypatch.setattr(ChangeService, "run", received_meanwhile)
    before = {name: client.zcard(f"rsmq:{name}") for name in ("mail", "orders-us")}
    done = command(*arguments, "--yes")
    assert done.status == 0
    by_queue = {line["queue"]: line for line in done.lines}
    # One of the three that a consumer has received since matches, and is not deleted.
    assert (by_queue["orders-eu"]["done"], by_queue["orders-eu"]["skipped"]) == (2, 1)
    assert all(client.zscore("rsmq:orders-eu", id) for id in received)
    assert client.llen("queue:push") == 2
    changes = [line["change"] for line in by_queue.values()]
    assert len(set(changes)) == 5
    for change in reversed(changes):
        assert command("undo", str(change), "--yes").status == 0
    assert {name: client.zcard(f"rsmq:{name}") for name in before} == before
    assert client.zcard("rsmq:orders-eu") == 6
    # Into one queue of them: that queue is left out, and the preview says why.
    moved = command("messages", "move", "orders-*", "--all", "--to", "orders-us", "--yes", terminal=True)
    assert (moved.status, "left out: orders-us: the target is the queue itself" in moved.err) == (1, True)
    assert "1 queue: moved 4" in moved.text


def test_a_name_that_is_a_pattern_of_others_is_refused(command: Command, client: Redis) -> None:
    client.delete("rsmq:wrong")
    for key in ("queue:a[1]", "queue:a1"):
        client.lpush(key, "x")
    for options in ((), LISTS):
        named = "queue:a[1]" if options else "list:queue:a[1]"
        done = command("messages", "delete", named, *options, "--all", "--yes")
        assert done.status == 2
        assert f"{named.replace('[', '[[]')} names that queue" in done.err
    assert command("messages", "delete", "list:queue:a[[]1]", "--all", "--yes").status == 0
    assert (client.llen("queue:a[1]"), client.llen("queue:a1")) == (0, 1)


def test_received_messages_are_included_on_request(
    command: Command, client: Redis, queues: Rsmq, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = ChangeService.run

    def received_meanwhile(self: ChangeService, preview: Preview) -> RunningChange:
        queues.receive_messages(preview.action.queue, 1, vt=100)
        return honest(self, preview)

    monkeypatch.setattr(ChangeService, "run", received_meanwhile)
    arguments = ("messages", "delete", "orders-*", "--all", "--yes")
    assert [(line["done"], line["skipped"]) for line in command(*arguments).lines] == [(5, 1), (3, 1)]
    assert [line["done"] for line in command(*arguments, "--even-if-received").lines] == [1, 1]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("list", "nothing-*"), "no queue with messages"),
        (("delete", "*", "--id", "x"), "for one queue"),
        (("delete", "*", "--all", "--limit", "3"), "for one queue"),
        (("get", "*", "x"), "ids are of one queue"),
        (("get", "*", "--id", "x"), "ids are of one queue"),
        (("ack", "orders-*", "--all"), "ack is for list queues"),
        (("list", "*", "--count", "--group-by", "shape"), "--count"),
    ],
)
def test_what_is_for_one_queue_refuses_a_pattern(command: Command, arguments: tuple[str, ...], why: str) -> None:
    done = command("messages", *arguments)
    assert done.status == 2
    assert why in done.err


def test_the_only_queue_that_matches_is_named_if_it_is_refused(command: Command) -> None:
    done = command("messages", "delete", "wron*", "--all")
    assert (done.status, done.out) == (2, b"")
    assert done.err.endswith("/0: wrong: A key of this queue holds another type of value\n")
