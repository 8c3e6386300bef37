"""`rsmq-tui journal` and `undo`: what was done from here, what is kept of it, and taking it back."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from rsmq_tui.protocol import Rsmq
from tests.cli.conftest import Command

Keys = Callable[[], Mapping[bytes, Any]]


def test_before_the_first_change_there_is_nothing(anywhere: Command, state: Path) -> None:
    assert anywhere("journal").out == b""
    told = anywhere("journal", "list", terminal=True)
    assert (told.status, told.out) == (0, b"")
    assert "the journal is empty" in told.err
    assert anywhere("journal", "show", "1").status == 2
    assert not list(state.rglob("journal.sqlite"))


def test_the_list_is_newest_first(command: Command, anywhere: Command, orders: Rsmq, redis_url: str) -> None:
    command("messages", "delete", "orders", "--filter", "plain", "--yes")
    command("messages", "move", "orders", "--limit", "2", "--all", "--to", "spare", "--yes")
    command("undo", "1", "--yes")
    third, second, first = anywhere("journal").lines
    assert (first["action"], first["what"], first["state"]) == ("delete", "match plain, in the whole queue", "undone")
    assert (second["queue"], second["target"], second["done"], second["ns"]) == ("orders", "spare", 2, "rsmq")
    assert (third["action"], third["undoes"], third["state"]) == ("undo", 1, "done")
    assert first["server"].startswith("redis://127.0.0.1:")
    assert [line["change"] for line in anywhere("journal", "list", "--limit", "1").lines] == [3]
    assert [line["change"] for line in anywhere("journal", "--limit", "2").lines] == [3, 2]
    titles, *rows = anywhere("journal", terminal=True).text.splitlines()
    assert titles.split() == ["CHANGE", "WHEN", "STATE", "DONE", "SKIPPED", "FAILED", "WHO", "WHAT"]
    assert [row.split()[0] for row in rows] == ["3", "2", "1"]
    assert "move orders to spare: the 2 due " in rows[1]
    assert anywhere("journal", "--json", terminal=True).lines == [third, second, first]


def test_show_prints_what_is_kept(command: Command, anywhere: Command, orders: Rsmq, client: Redis) -> None:
    command("messages", "delete", "orders", "--filter", "rc>0", "--yes")
    command("messages", "release", "orders", "--all", "--yes")
    command("queues", "set", "orders", "--vt", "7", "--yes")
    lines = anywhere("journal", "show", "1").lines
    assert sorted(line["body"] for line in lines) == ['{"type": "a", "n": 0}', '{"type": "a", "n": 1}']
    assert all((line["edit"], line["outcome"], line["queue"], line["rc"]) == ("remove", "done", "orders", 1)
               for line in lines)  # fmt: skip
    assert anywhere("journal", "show", "1", terminal=True).lines == lines
    rescored = anywhere("journal", "show", "2").lines
    assert len(rescored) == 4
    assert all(int(line["new_score"]) and line["new_id"] == line["id"] for line in rescored)
    (fields,) = anywhere("journal", "show", "3").lines
    assert fields["fields"]["vt"] == ["3600", "7"]


@pytest.mark.parametrize("way", [["undo"], ["undo", "1"], ["undo", "--queue", "orders"], ["journal", "restore", "1"]],
                         ids=" ".join)  # fmt: skip
def test_every_way_back(way: list[str], command: Command, orders: Rsmq, keys: Keys) -> None:
    before = keys()
    command("messages", "delete", "orders", "--all", "--yes")
    changed = keys()
    preview = command(*way, terminal=True)
    assert preview.status == 3
    assert preview.text.startswith("Undo change 1: deleted 6 messages")
    assert keys() == changed
    done = command(*way, "--yes")
    assert (done.status, done.lines[0]["done"], keys()) == (0, 6, before)
    told = command(*way, "--yes")
    assert (told.status, len(told.err.splitlines())) == (2, 1)


def test_what_was_touched_since_is_left_alone_and_told(command: Command, orders: Rsmq, client: Redis) -> None:
    command("messages", "release", "orders", "--filter", "state:delayed", "--yes")
    command("messages", "copy", "orders", "--filter", "plain", "--to", "spare", "--yes")
    assert orders.receive_message("spare") is not None
    done = command("undo", "--yes")
    assert (done.status, done.lines[0]["done"]) == (0, 0)
    assert done.lines[0]["skipped"] == {"received or changed meanwhile": 1}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["undo"], "nothing to undo in namespace rsmq on redis://"),
     (["undo", "--queue", "x"], "nothing to undo in queue x on redis://"),
     (["undo", "7"], "no change 7 in the journal"), (["undo", "0"], "not a whole number"),
     (["undo", "x"], "not a whole number"), (["journal", "restore", "7"], "no change 7"),
     (["journal", "show", "7"], "no change 7"), (["journal", "restore"], "required: CHANGE")],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)  # fmt: skip
def test_refused(arguments: list[str], words: str, command: Command, orders: Rsmq) -> None:
    done = command(*arguments)
    assert (done.status, done.out) == (2, b"")
    assert words in done.err


def test_a_change_on_another_server_stays_there(command: Command, anywhere: Command, orders: Rsmq) -> None:
    command("messages", "delete", "orders", "--all", "--yes")
    done = anywhere("-r", "redis://:hunter2@127.0.0.1:1/0", "undo", "1", "--yes")
    assert done.status == 2
    assert "was made on redis://127.0.0.1:" in done.err
    assert "hunter2" not in done.err
