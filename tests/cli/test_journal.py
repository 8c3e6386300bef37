"""`rsmq-tui journal` and `undo`: what was done from here, what is kept of it, and taking it back."""

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from rsmq_tui.protocol import Rsmq
from rsmq_tui.triage.journal.database import sealed
from tests.cli.conftest import Command

Keys = Callable[[], Mapping[bytes, Any]]


def test_before_the_first_change_there_is_nothing(anywhere: Command, state: Path) -> None:
    assert anywhere("journal").out == b""
    printed = anywhere("journal", "list", terminal=True)
    assert (printed.status, printed.out) == (0, b"")
    assert "the journal is empty" in printed.err
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
    assert titles.split() == ["CHANGE", "WHEN", "UTC", "STATE", "DONE", "SKIPPED", "FAILED", "WHO", "WHAT"]
    assert [row.split()[0] for row in rows] == ["3", "2", "1"]
    assert "move orders to spare: the 2 due " in rows[1]
    for listing in (["journal"], ["journal", "list"]):
        assert f"({first['server']}, ns rsmq)" not in anywhere(*listing, terminal=True, columns=60).text
        wide = anywhere(*listing, "--wide", terminal=True, columns=60).text
        assert f"delete orders: {first['what']} ({first['server']}, ns rsmq)\n" in wide
    assert anywhere("journal", "--json", terminal=True).lines == [third, second, first]


def test_a_long_name_of_a_target_is_whole(command: Command, anywhere: Command, orders: Rsmq) -> None:
    target = f"list:{'x' * 300}"
    copied = command("messages", "copy", "orders", "--limit", "1", "--all", "--to", target, "--yes")
    assert copied.status == 0, copied.err
    assert f"copy orders to {target}: " in anywhere("journal", "--wide", terminal=True).text
    assert f" to {target}, " in command("undo", "1").text


def test_show_prints_what_is_kept(command: Command, anywhere: Command, orders: Rsmq, client: Redis) -> None:
    command("messages", "delete", "orders", "--filter", "rc>0", "--yes")
    command("messages", "release", "orders", "--all", "--yes")
    command("queues", "set", "orders", "--vt", "7", "--yes")
    lines = anywhere("journal", "show", "1").lines
    assert sorted(line["body"] for line in lines) == ['{"type": "a", "n": 0}', '{"type": "a", "n": 1}']
    assert all((line["edit"], line["outcome"], line["queue"], line["rc"]) == ("remove", "done", "orders", 1)
               for line in lines)  # fmt: skip
    for arguments in (["1"], ["1", "--json"], ["--json", "1"]):
        assert anywhere("journal", "show", *arguments, terminal=True).lines == lines
    rescored = anywhere("journal", "show", "2").lines
    assert len(rescored) == 4
    assert all(int(line["new_score"]) and line["new_id"] == line["id"] for line in rescored)
    (fields,) = anywhere("journal", "show", "3").lines
    assert {"name": "vt", "before": "3600", "after": "7"} in fields["fields"]


def test_show_prints_the_bodies_that_an_undo_put_back(command: Command, anywhere: Command, orders: Rsmq) -> None:
    command("messages", "delete", "orders", "--filter", "rc>0", "--yes")
    deleted = {line["id"]: line["body"] for line in anywhere("journal", "show", "1").lines}
    command("undo", "--yes")
    lines = anywhere("journal", "show", "2").lines
    assert {line["edit"] for line in lines} == {"put"}
    assert {line["id"]: line["body"] for line in lines} == deleted


def test_what_a_redo_has_made_again_is_not_undone(command: Command, anywhere: Command, orders: Rsmq) -> None:
    command("messages", "delete", "orders", "--all", "--yes")
    command("undo", "--yes")
    first = anywhere("journal", "show", "2").lines[0]["id"]
    command("undo", "2", "--id", first, "--yes")
    *_, change = anywhere("journal").lines
    assert (change["state"], change["done"], change["undone"], change["redone"]) == ("undone", 6, 5, 1)
    assert "(5 undone)" in anywhere("journal", terminal=True).text
    shown = {(line["id"] == first, line["undone"], line["redone"]) for line in anywhere("journal", "show", "1").lines}
    assert shown == {(True, False, True), (False, True, False)}


@pytest.mark.parametrize("way", [["undo"], ["undo", "1"], ["undo", "--queue", "orders"], ["journal", "restore", "1"]],
                         ids=" ".join)  # fmt: skip
def test_every_way_back(way: list[str], command: Command, orders: Rsmq, keys: Keys) -> None:
    before = keys()
    command("messages", "delete", "orders", "--all", "--yes")
    changed = keys()
    preview = command(*way, terminal=True)
    assert preview.status == 3
    assert preview.text.startswith("Undo change 1: deleted 6 messages")
    assert preview.text.count("change 1:") == 1
    assert keys() == changed
    done = command(*way, "--yes")
    assert (done.status, done.lines[0]["done"], keys()) == (0, 6, before)
    printed = command(*way, "--yes")
    assert (printed.status, len(printed.err.splitlines())) == (2, 1)


@pytest.mark.parametrize("way", [["undo"], ["undo", "1"], ["journal", "restore", "1"]], ids=" ".join)
def test_a_part_of_a_change_is_undone(
    way: list[str], command: Command, anywhere: Command, orders: Rsmq, client: Redis, keys: Keys
) -> None:
    before = keys()
    command("messages", "delete", "orders", "--all", "--yes")
    ids = {line["body"]: line["id"] for line in anywhere("journal", "show", "1").lines if "body" in line}
    plain, empty = ids["plain"], ids[""]
    preview = command(*way, "--id", plain, empty, "no such id", terminal=True)
    assert preview.status == 3
    assert preview.text.startswith("Undo 2 of 6 messages of change 1: deleted, every message of the queue\n")
    assert "1 id is not among the messages of change 1." in preview.text
    (preview_line,) = command(*way, "--id", plain, empty, "no such id").lines
    assert (preview_line["planned"], preview_line["whole"], preview_line["not_there"]) == (2, 6, 1)

    (report,) = command(*way, "--id", plain, empty, "--yes").lines
    assert (report["planned"], report["whole"], report["done"], report["skipped"]) == (2, 6, 2, 0)
    assert sorted(client.zrange("rsmq:orders", 0, -1)) == sorted([plain.encode(), empty.encode()])
    undone = {line["id"] for line in anywhere("journal", "show", "1").lines if line["undone"]}
    assert undone == {plain, empty}
    part, change = anywhere("journal").lines
    assert (change["undone"], change["done"], change["state"], change["part"]) == (2, 6, "done", False)
    assert (part["part"], part["undoes"]) == (True, 1)
    assert "part undone" in anywhere("journal", terminal=True).text
    assert "delete orders (2 undone): every" in anywhere("journal", terminal=True).text

    matched = command(*way, "--filter", "json.type=a", "--yes")
    assert (matched.status, matched.lines[0]["done"]) == (0, 2)
    (rest,) = command(*way, "--yes").lines
    assert (rest["planned"], rest["whole"], rest["done"]) == (2, None, 2)
    assert keys() == before


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--filter", "rc>"], "rc>"),
        (["--filter", "rc>99"], "change 1 of orders: no message that it has deleted matches rc>99"),
        (["--id", "x"], "change 1 of orders: no message that it has deleted is selected: 1 id is not in it"),
        (["--id", "x", "--filter", "rc>1"], "--filter"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)  # fmt: skip
def test_a_part_that_is_none_is_refused(options: list[str], words: str, command: Command, orders: Rsmq) -> None:
    command("messages", "delete", "orders", "--all", "--yes")
    refused = command("undo", "1", *options, "--yes")
    assert (refused.status, refused.out) == (2, b"")
    assert words in refused.err


def test_what_was_touched_since_is_left_alone_and_told(command: Command, orders: Rsmq, client: Redis) -> None:
    command("messages", "release", "orders", "--filter", "state:delayed", "--yes")
    command("messages", "copy", "orders", "--filter", "plain", "--to", "spare", "--yes")
    assert "Now it" not in command("undo", terminal=True).text
    assert orders.receive_message("spare") is not None
    preview = command("undo", terminal=True)
    assert (preview.status, "Now it applies to 0 of 1; 1 has changed since and is skipped." in preview.text) == (
        3,
        True,
    )
    done = command("undo", "--yes")
    assert (done.status, done.lines[0]["done"]) == (0, 0)
    assert done.lines[0]["skipped"] == 1
    assert done.lines[0]["reasons"] == [{"outcome": "skipped", "reason": "received or changed meanwhile", "count": 1}]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["undo"], "nothing to undo in namespace rsmq on redis://"),
     (["undo", "--queue", "x"], "nothing to undo in queue x on redis://"),
     (["undo", "7"], "no change 7 in the journal"), (["undo", "0"], "not a whole number"),
     (["undo", "x"], "not a whole number"), (["journal", "restore", "7"], "no change 7"),
     (["journal", "show", "7"], "no change 7"), (["journal", "restore"], "Missing argument 'CHANGE'")],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)  # fmt: skip
def test_refused(arguments: list[str], words: str, command: Command, orders: Rsmq) -> None:
    done = command(*arguments)
    assert (done.status, done.out) == (2, b"")
    assert words in done.err


@pytest.mark.parametrize(
    "arguments", [["undo", "99"], ["undo", "99", "--yes"], ["journal", "restore", "99"]], ids=" ".join
)
def test_a_change_that_is_not_there_is_no_matter_of_a_server(
    arguments: list[str], command: Command, orders: Rsmq
) -> None:
    command("messages", "delete", "orders", "--all", "--yes")
    done = command(*arguments)
    assert done.status == 2
    assert done.err == "rsmq-tui: no change 99 in the journal: rsmq-tui journal lists them\n"


def test_undo_without_a_preview_says_that_it_is_another_server(command: Command, orders: Rsmq, state: Path) -> None:
    command("messages", "delete", "orders", "--all", "--yes")
    (journal,) = state.rglob("journal.sqlite")
    with closing(sqlite3.connect(journal)) as db, db:
        db.row_factory = sqlite3.Row
        row = {**db.execute("SELECT * FROM changes").fetchone(), "run_id": "0" * 40}
        db.execute("UPDATE changes SET run_id = ?, checksum = ?", (row["run_id"], sealed("changes", row)))
    (note,) = command("undo", "--yes").lines[0]["notes"]
    assert "was restarted or replaced since the change" in note


def test_undo_says_that_a_queue_that_was_made_is_removed(command: Command, orders: Rsmq) -> None:
    command("messages", "move", "orders", "--all", "--to", "new", "--create", "--yes")
    printed = (
        "which the change created, is removed if it is empty then and nobody else has used it; otherwise it is kept."
    )
    assert f"Queue new, {printed}" in command("undo", terminal=True).text
    assert f"Queue new, {printed}" in command("undo").lines[0]["notes"]
    done = command("undo", "--yes", terminal=True)
    assert "; queue new, which the change created, was removed; rsmq-tui undo 2 reverts it" in done.text
    assert command("undo", "2", "--yes").lines[0]["notes"] == ["queue new was created again"]
    assert command("undo", "1", "--yes").lines[0]["notes"] == ["queue new, which the change created, was removed"]


def test_a_change_on_another_server_stays_there(command: Command, anywhere: Command, orders: Rsmq) -> None:
    command("messages", "delete", "orders", "--all", "--yes")
    done = anywhere("-r", "redis://:hunter2@127.0.0.1:1/0", "undo", "1", "--yes")
    assert done.status == 2
    assert "was made on redis://127.0.0.1:" in done.err
    assert "hunter2" not in done.err


# What has a word to say about a journal, and what has not.
_READERS = [["journal"], ["journal", "show", "1"], ["journal", "restore", "1", "--yes"], ["undo", "--yes"],
            ["messages", "delete", "orders", "--all", "--yes"]]  # fmt: skip


def _text(path: Path) -> None:
    path.write_text("no journal " * 1000)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _foreign(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE mine (one TEXT)")


@pytest.mark.parametrize("spoil", [_text, _folder, _foreign])
def test_a_journal_that_is_none_is_one_sentence(
    spoil: Callable[[Path], None], command: Command, orders: Rsmq, keys: Keys, state: Path
) -> None:
    command("messages", "delete", "orders", "--filter", "plain", "--yes")
    (path,) = state.rglob("journal.sqlite")
    for file in path.parent.glob("journal.sqlite-*"):
        file.unlink()
    spoil(path)
    before = keys()
    for arguments in _READERS:
        printed = command(*arguments)
        assert (printed.status, printed.out, len(printed.err.splitlines())) == (2, b"", 1)
        assert f"the journal {path} cannot be used" in printed.err
    assert keys() == before


def test_a_damaged_change_is_listed_and_named(command: Command, orders: Rsmq, keys: Keys, state: Path) -> None:
    command("messages", "delete", "orders", "--filter", "plain", "--yes")
    command("messages", "delete", "orders", "--filter", "json.type=b", "--yes")
    (path,) = state.rglob("journal.sqlite")
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE batches SET edits = CAST(replace(edits, 'plain', 'plaim') AS BLOB) WHERE change = 1")
    before = keys()
    words = "change 1 is damaged in the journal and set aside; it cannot be undone, the others can"
    for arguments in (["undo", "1", "--yes"], ["journal", "show", "1"], ["undo", "1", "--yes"]):
        printed = command(*arguments)
        assert (printed.status, printed.out) == (2, b"")
        assert words in printed.err
    assert keys() == before
    listed = command("journal")
    assert [line["state"] for line in listed.lines] == ["done", "damaged"]
    assert listed.err == f"rsmq-tui: {words}\n"
    assert command("undo", "--yes").lines[0]["done"] == 1


@pytest.mark.parametrize("number", ["0", "9" * 18, "9" * 30])
def test_a_number_that_no_change_has(number: str, command: Command, orders: Rsmq) -> None:
    command("messages", "delete", "orders", "--filter", "plain", "--yes")
    for arguments in (["undo", number], ["journal", "show", number], ["journal", "--limit", number]):
        assert command(*arguments).status in (0, 2)


def test_messages_that_may_have_been_consumed_come_back_when_asked_for(
    command: Command, orders: Rsmq, client: Redis, state: Path
) -> None:
    command("messages", "delete", "orders", "--filter", "plain", "--yes")
    (path,) = state.rglob("journal.sqlite")
    with closing(sqlite3.connect(path)) as db, db:
        # As if it had ended before it knew, on a server that was restarted without its data.
        db.execute("UPDATE batches SET outcome = NULL")
        db.execute("UPDATE changes SET state = 'running', done = 0, pid = 999999999")
    plain = command("undo")
    assert (plain.status, plain.out) == (2, b"")
    assert "1 message of change 1 may have been consumed instead of deleted, so it is not put back" in plain.err
    assert "rsmq-tui undo 1 --unsettled puts it back" in plain.err
    preview = command("undo", "1", "--unsettled", terminal=True)
    assert "may have been consumed instead of deleted: it is put back anyway." in preview.text
    assert command("journal", "restore", "1", "--unsettled", "--yes").lines[0]["done"] == 1
    assert client.zcard("rsmq:orders") == 6
