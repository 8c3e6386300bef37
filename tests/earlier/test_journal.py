"""A journal of release 0.1 is opened and listed, and each of its changes undone, newest first."""

import json
import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from tests.cli.conftest import Command
from tests.earlier import FOLDER
from tests.protocol.keyspace import everything

CHANGES = 22
# The action, the namespace, the queue and how many messages or items it changed.
LISTED = [
    ("delete", "rsmq", "orders", 3), ("hide", "rsmq", "orders", 2), ("release", "rsmq", "orders", 3),
    ("move", "rsmq", "orders", 2), ("copy", "rsmq", "orders", 2), ("redrive", "rsmq", "dead", 3),
    ("send", "rsmq", "orders", 1), ("set", "rsmq", "mail", 1), ("purge", "rsmq", "mail", 3),
    ("create", "rsmq", "fresh", 1), ("delete-queue", "rsmq", "old", 3), ("delete", "(lists)", "list:queue:jobs", 1),
    ("requeue", "(lists)", "list:queue:jobs", 1), ("ack", "(lists)", "list:queue:jobs", 1),
    ("hide", "(lists)", "list:queue:jobs", 1), ("move", "(lists)", "list:queue:jobs", 1),
    ("move", "(lists)", "list:queue:jobs", 1), ("move", "rsmq", "spare", 1),
    ("send", "(lists)", "list:queue:parked", 1), ("pop", "(lists)", "list:queue:bulk", 4),
    ("trim", "(lists)", "list:queue:bulk", 6), ("purge", "(lists)", "list:queue:bulk", 20),
]  # fmt: skip


def keys_of(when: str) -> dict[bytes, Any]:
    """The server's keys before the first change, or after the last, as ``everything`` returns them."""

    def value_of(kind: str, value: Any) -> Any:
        match kind:
            case "hash":
                return {name.encode("latin-1"): text.encode("latin-1") for name, text in value}
            case "zset":
                return [(member.encode("latin-1"), score) for member, score in value]
            case "set":
                return {member.encode("latin-1") for member in value}
        return [item.encode("latin-1") for item in value]

    stored = json.loads((FOLDER / "server.json").read_text())[when]
    return {key.encode("latin-1"): value_of(*typed) for key, typed in stored.items()}


def restore(client: Redis, keys: dict[bytes, Any]) -> None:
    """Write these keys to the server."""
    for key, value in keys.items():
        if isinstance(value, dict):
            client.hset(key, mapping=value)
        elif isinstance(value, set):
            client.sadd(key, *value)
        elif isinstance(value[0], tuple):
            client.zadd(key, dict(value))
        else:
            client.rpush(key, *value)


def comparable(keys: dict[bytes, Any]) -> dict[bytes, Any]:
    """The keys without what undo does not restore: the order in lists, and that a counter was not there before."""
    found: dict[bytes, Any] = {}
    for key, value in keys.items():
        if isinstance(value, dict):
            found[key] = {name: text for name, text in value.items() if (name, text) != (b"totalsent", b"0")}
        else:
            found[key] = Counter(value) if isinstance(value, list) else value
    return found


@pytest.fixture
def journal(anywhere: Command, client: Redis, redis_url: str, state: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The journal where commands look for it, of this server, which is as the last change left it."""
    # However long ago the changes were made, they are kept.
    monkeypatch.setenv("RSMQ_TUI_JOURNAL_DAYS", "36500")
    folder = state / "rsmq-tui"
    folder.mkdir()
    path = Path(shutil.copy(FOLDER / "journal.sqlite", folder))
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE changes SET server = ?", (redis_url,))
    restore(client, keys_of("after"))
    return path


def test_its_changes_are_listed(anywhere: Command, journal: Path) -> None:
    done = anywhere("journal")
    assert (done.status, done.err) == (0, "")
    listed = done.lines[::-1]
    assert [line["change"] for line in listed] == [*range(1, CHANGES + 1)]
    assert [(line["action"], line["ns"], line["queue"], line["done"]) for line in listed] == LISTED
    assert {(line["state"], line["who"], line["host"], line["skipped"], line["failed"]) for line in listed} == {
        ("done", "ops", "db1", 0, 0)
    }


@pytest.mark.parametrize(
    ("change", "bodies"),
    [(1, ['{"n": 4, "type": "a"}', '{"n": 6, "type": "a"}', '{"n": 8, "type": "a"}']), (12, ['{"job": 6}'])],
)
def test_what_it_deleted_is_shown(anywhere: Command, journal: Path, change: int, bodies: list[str]) -> None:
    lines = anywhere("journal", "show", str(change)).lines
    assert sorted(line["body"] for line in lines) == bodies
    assert {line["outcome"] for line in lines} == {"done"}


def test_undoing_every_change_leaves_the_server_as_it_was(command: Command, client: Redis, journal: Path) -> None:
    assert everything(client) == keys_of("after")
    for change, (_, _, _, count) in reversed([*enumerate(LISTED, 1)]):
        done = command("undo", str(change), "--yes")
        assert (done.status, done.lines[0]["done"], done.lines[0]["skipped"]) == (0, count, 0), (change, done)
    assert comparable(everything(client)) == comparable(keys_of("before"))


def test_messages_received_since_are_left_as_they_are(command: Command, client: Redis, journal: Path) -> None:
    hidden = [member for member, _ in keys_of("after")[b"rsmq:orders"][-2:]]
    client.zadd("rsmq:orders", dict.fromkeys(hidden, 1_000))
    found = everything(client)
    done = command("undo", "2", "--yes")
    assert (done.status, done.lines[0]["done"], done.lines[0]["skipped"]) == (0, 0, 2)
    assert everything(client) == found
