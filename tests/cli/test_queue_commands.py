"""`rsmq-tui queues`: listed in one look; made, changed, emptied and removed only with --yes, and undone."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from rsmq_tui.protocol import Rsmq
from tests.cli.conftest import Command

Keys = Callable[[], Mapping[bytes, Any]]

CHANGES = {
    "create": ["create", "made", "--vt", "5", "--delay", "2", "--maxsize", "-1"],
    "set": ["set", "orders", "--vt", "99"],
    "delete": ["delete", "orders"],
    "purge": ["purge", "orders"],
}


@pytest.mark.parametrize("name", CHANGES)
def test_only_yes_changes_and_undo_takes_back(
    name: str, command: Command, orders: Rsmq, client: Redis, keys: Keys
) -> None:
    raw, before = {key: client.dump(key) for key in client.scan_iter()}, keys()
    for dry in ([], ["--dry-run"]):
        preview = command("queues", *CHANGES[name], *dry)
        assert (preview.status, preview.lines[0]["preview"]) == (3, True)
    assert command("queues", *CHANGES[name], terminal=True).status == 3
    assert {key: client.dump(key) for key in client.scan_iter()} == raw
    done = command("queues", *CHANGES[name], "--yes")
    (report,) = done.lines
    assert (done.status, report["stopped"], report["failed"]) == (0, None, 0)
    assert report["done"] == report["planned"]
    assert keys() != before
    assert command("undo", "1", "--yes").status == 0
    assert keys() == before


def test_what_they_do(command: Command, orders: Rsmq) -> None:
    command("queues", *CHANGES["create"], "--yes")
    made = orders.get_queue_attributes("made")
    assert (made.vt, made.delay, made.maxsize) == (5, 2, -1)
    preview = command("queues", *CHANGES["set"], terminal=True)
    assert "that  vt 3,600 s -> 99 s" in preview.text
    command("queues", *CHANGES["set"], "--yes")
    assert orders.get_queue_attributes("orders").vt == 99
    assert command("queues", "purge", "orders", "--yes").lines[0]["done"] == 6
    assert orders.get_queue_attributes("orders").msgs == 0
    command("queues", "delete", "orders", "--yes")
    assert "orders" not in orders.list_queues()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["create", "orders"], "orders on redis://SERVER/0: Queue exists"),
        (["set", "orders"], "orders on redis://SERVER/0: nothing to change: give a vt, a delay or a maxsize"),
        (
            ["set", "nope", "--vt", "1"],
            "no such queue in namespace rsmq; rsmq-tui queues list shows the existing queues",
        ),
        (["delete", "nope"], "no such queue in namespace rsmq"),
        (["purge", "nope"], "no such queue in namespace rsmq"),
        (["create", "bad name"], "Invalid qname format: a name has 1 to 160 characters of A-Z, a-z, 0-9, - and _"),
        (["create", ""], "(no name) on redis://SERVER/0: No qname supplied: a name has 1 to 160 characters"),
        (["create", "queue:mail"], "0-9, - and _; a Redis List is written list:queue:mail"),
        (["delete", "ord*"], "0-9, - and _; a pattern of queues is for messages only: rsmq-tui messages"),
        (["create", "x", "--maxsize", "5"], "maxsize must be between 1024 and 65536, or -1 for no limit"),
        (["delete", "QUEUES"], "QUEUES is the name of the index"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_refused(arguments: list[str], words: str, command: Command, orders: Rsmq, redis_url: str, keys: Keys) -> None:
    before = keys()
    for yes in ([], ["--yes"]):
        done = command("queues", *arguments, *yes)
        assert (done.status, done.out) == (2, b"")
        (line,) = done.err.splitlines()
        assert words.replace("redis://SERVER", redis_url.rstrip("/").removesuffix("/0")) in line
    assert keys() == before


def test_a_queue_with_an_empty_name_is_shown_as_such(command: Command, orders: Rsmq, client: Redis) -> None:
    for arguments in ["messages", "get", "", "x"], ["messages", "delete", "", "--all"], ["who", ""]:
        assert command(*arguments).err.startswith("rsmq-tui: (no name) on redis://")
    client.sadd("rsmq:QUEUES", "")
    client.hset("rsmq::Q", mapping={"vt": 30, "delay": 0, "maxsize": 65536})
    client.zadd("rsmq:", {"x": 1})
    assert re.search(r"broken .*  \(no name\)$", command("queues", "list", terminal=True).text, re.MULTILINE)
    assert "CRITICAL: (no name): " in command("check").text


def test_list(command: Command, orders: Rsmq, client: Redis) -> None:
    client.sadd("rsmq:QUEUES", b"\x1b[2J\xff")
    lines = command("queues", "list").lines
    assert [line["name"] for line in lines] == ["\x1b[2J\udcff", "orders", "orders-dlq", "spare"]
    assert (lines[1]["depth"], lines[1]["ready"], lines[1]["hidden"], lines[1]["verdict"]) == (6, 3, 3, "ok")
    done = command("queues", "list", terminal=True)
    titles, broken, *rest = done.text.splitlines()
    assert titles.split() == ["VERDICT", "READY", "HIDDEN", "DEPTH", "WAITING", "VT", "DELAY", "QUEUE"]
    assert broken.startswith("broken")
    assert broken.endswith("  ␛[2J\\xff")
    assert all(line.isprintable() for line in rest)
    assert len(rest) == 3
    # Columns are as wide as their values: names of queues are whole in an ordinary terminal.
    client.sadd("rsmq:QUEUES", "invoices-of-customers")
    shown = command("queues", "list", terminal=True, columns=80).text.splitlines()
    assert max(map(len, shown)) <= 80
    assert any(line.endswith("  invoices-of-customers") for line in shown)


def test_list_of_several_namespaces_names_them(anywhere: Command, live_and_dead: Path) -> None:
    chosen = ("--config", str(live_and_dead), "--profile", "live", "queues", "list")
    assert [(line["ns"], line["name"]) for line in anywhere(*chosen).lines] == [("jobs", "orders"), ("mails", "orders")]
    titles, *rows = anywhere(*chosen, terminal=True).text.splitlines()
    assert titles.split()[-2:] == ["NAMESPACE", "QUEUE"]
    assert [row.split()[-2:] for row in rows] == [["jobs", "orders"], ["mails", "orders"]]
    (line,) = anywhere(*chosen, "--ns", "mails").lines
    assert line["ns"] == "mails"


@pytest.mark.parametrize("terminal", [True, False], ids=["terminal", "pipe"])
def test_list_of_nothing_says_what_next(command: Command, client: Redis, terminal: bool) -> None:
    def said() -> str:
        done = command("--ns", "jobs", "queues", "list", terminal=terminal)
        assert (done.status, done.out) == (0, b"")
        beginning, _, hint = done.err.partition("; ")
        assert beginning.startswith("rsmq-tui: no queues in namespace jobs on ")
        return hint

    assert said() == "rsmq-tui queues create creates one\n"
    client.lpush("mail", "one")
    assert said() == "to see its Redis Lists as queues: rsmq-tui --lists 'mail'\n"
    Rsmq(client).create_queue("orders")
    assert said() == "other namespaces (--ns): rsmq\n"
    unnamed = command("--ns", "", "queues", "list", terminal=terminal).err
    assert unnamed.startswith("rsmq-tui: no queues in namespace (no prefix) on ")
    assert command("queues", "list", terminal=terminal).err == ""
