"""`rsmq-tui messages send`, `export` and `import`: every byte of a body arrives."""

import io
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from redis import Redis

from rsmq_tui.protocol import Rsmq
from tests.cli.conftest import Command
from tests.protocol.keyspace import everything

RAW = bytes(range(256)) + b"\r\n\x00\xff tail"


def _bodies(rsmq: Rsmq, queue: str = "spare") -> list[bytes]:
    return [message.body for message in rsmq.receive_messages(queue, 20)]


def test_bodies_from_the_arguments(command: Command, orders: Rsmq) -> None:
    assert command("messages", "send", "spare", "one", os.fsdecode(b"\xff two"), "--yes", "--", "-three").status == 0
    assert _bodies(orders) == [b"one", b"\xff two", b"-three"]


def test_files_and_standard_input_are_sent_byte_for_byte(
    command: Command, orders: Rsmq, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "body.bin"
    path.write_bytes(RAW)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"\x80 in")))
    assert command("messages", "send", "spare", "--file", str(path), "--file", "-", "--yes").lines[0]["done"] == 2
    assert _bodies(orders) == [RAW, b"\x80 in"]


def test_lines_of_a_file(command: Command, orders: Rsmq, tmp_path: Path) -> None:
    path = tmp_path / "many.txt"
    path.write_bytes(b"one\n\ntw\xff\nthree")
    assert command("messages", "send", "spare", "--lines", str(path), "--yes").status == 0
    assert _bodies(orders) == [b"one", b"tw\xff", b"three"]


@pytest.mark.parametrize(
    "arguments", [[], ["body", "--file", "x"], ["--file", "x", "--lines", "y"], ["--file", "/no/x"]]
)
def test_what_cannot_be_sent(arguments: list[str], command: Command, orders: Rsmq) -> None:
    done = command("messages", "send", "spare", *arguments, "--yes")
    assert (done.status, done.out, len(done.err.splitlines())) == (2, b"", 1)


def test_export_and_import_keep_every_byte_and_field(
    command: Command, orders: Rsmq, client: Redis, tmp_path: Path
) -> None:
    orders.send_messages("orders", [RAW, "x" * 1_500_000, "\u2028 \x1b]0;title\x07"])
    client.hset("rsmq:orders:Q", client.zrange("rsmq:orders", 0, 0)[0] + b":rc", "odd \xff")
    before = everything(client)
    path = tmp_path / "out.jsonl"
    printed = command("messages", "export", "orders", "-o", str(path))
    assert (printed.status, printed.out, printed.err) == (0, b"", f"rsmq-tui: 9 messages of orders in {path}\n")
    assert path.stat().st_mode & 0o077 == 0
    piped = command("messages", "export", "orders")
    assert sorted(piped.text.splitlines()) == sorted(path.read_text().splitlines())
    assert len(piped.lines) == 9
    assert everything(client) == before
    client.delete("rsmq:orders", "rsmq:orders:Q")
    client.hset("rsmq:orders:Q", mapping={"vt": 30, "delay": 0, "maxsize": -1})
    assert command("messages", "import", "orders", str(path), "--yes").lines[0]["done"] == 9
    after = everything(client)
    assert after[b"rsmq:orders"] == before[b"rsmq:orders"]
    kept, was = after[b"rsmq:orders:Q"], before[b"rsmq:orders:Q"]
    assert isinstance(kept, dict)
    assert isinstance(was, dict)
    names = {name for name in was if len(name) >= 32}
    assert {name: kept[name] for name in names} == {name: was[name] for name in names}
    again = command("messages", "import", "orders", str(path), "--yes")
    assert (again.status, again.lines[0]["failed"]) == (1, 9)


def test_export_takes_a_filter_and_a_limit(command: Command, orders: Rsmq) -> None:
    assert len(command("messages", "export", "orders", "--filter", "json.type=a").lines) == 2
    assert len(command("messages", "export", "orders", "--limit", "4").lines) == 4
    assert command("messages", "export", "spare").out == b""


def test_an_export_that_fails_leaves_no_file(anywhere: Command, command: Command, orders: Rsmq, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    assert anywhere("-r", "redis://127.0.0.1:1", "messages", "export", "orders", "-o", str(folder / "a")).status == 2
    assert command("messages", "export", "nope", "-o", str(folder / "a")).status == 2
    assert list(folder.iterdir()) == []
    (folder / "a").write_text("before")
    assert command("messages", "export", "nope", "-o", str(folder / "a"), "--force").status == 2
    assert [path.read_text() for path in folder.iterdir()] == ["before"]
    assert command("messages", "export", "orders", "-o", str(tmp_path / "no" / "folder")).status == 2
    assert command("messages", "export", "orders", "-o", "/dev/null").status == 0


def test_an_export_overwrites_only_when_it_is_told_to(command: Command, orders: Rsmq, tmp_path: Path) -> None:
    path, link = tmp_path / "a.jsonl", tmp_path / "link.jsonl"
    path.write_text("before")
    link.symlink_to(path)
    for name in (path, link):
        refused = command("messages", "export", "orders", "-o", str(name))
        assert (refused.status, refused.out) == (2, b"")
        assert refused.err == f"rsmq-tui: {name} already exists: --force overwrites it\n"
        assert path.read_text() == "before"
    assert command("messages", "export", "orders", "-o", str(link), "--force").status == 0
    assert (link.is_symlink(), len(path.read_text().splitlines())) == (True, 6)
    assert sorted(tmp_path.glob("*.jsonl")) == [path, link]


@pytest.mark.parametrize(
    ("content", "words"),
    [("{}", 'line 1: no "id"'), ("nonsense \x1b[2J", "line 1: not a JSON object"), ("", "has no messages"),
     ('{"id": "a", "score": 1}\n{"id": "b", "score": "x"}', 'line 2: "score" is not a number')],
    ids=["no id", "no json", "empty", "bad score"],
)  # fmt: skip
def test_an_import_of_something_else_says_where(
    content: str, words: str, command: Command, orders: Rsmq, client: Redis, tmp_path: Path
) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text(content)
    before = everything(client)
    done = command("messages", "import", "orders", str(path), "--yes")
    assert (done.status, done.out) == (2, b"")
    assert words in done.err
    assert "\x1b" not in done.err
    assert everything(client) == before


def test_a_name_of_a_file_that_is_too_long_is_refused(command: Command, orders: Rsmq, tmp_path: Path) -> None:
    path = tmp_path / ("x" * 256)
    done = command("messages", "import", "orders", str(path), "--yes")
    assert (done.status, done.out, done.err) == (2, b"", f"rsmq-tui: {path}: File name too long\n")


def test_what_has_any_id_is_exported_imported_deleted_and_undone(
    command: Command, orders: Rsmq, client: Redis, tmp_path: Path
) -> None:
    ids = [b"short", b"A" * 22, b"123e4567-e89b-12d3-a456-426614174000", b"\xff\xfe", b"", b"-n", b"a", b"a:rc", b"vt"]
    for number, id in enumerate(ids):
        client.zadd("rsmq:spare", {id: 1_700_000_000_000 + number})
    client.hset("rsmq:spare:Q", mapping={id: b"body of " + id for id in ids[:-1]})
    before, path = everything(client), tmp_path / "spare.jsonl"
    assert command("messages", "export", "spare", "-o", str(path)).status == 0

    for change in ("delete", "move"):
        to = ("--to", "orders-dlq") if change == "move" else ()
        assert command("messages", change, "spare", "--all", *to, "--yes").lines[0]["done"] == len(ids)
        assert client.exists("rsmq:spare") == 0
        assert client.hlen("rsmq:spare:Q") == 5
        assert command("undo", "--yes").lines[0]["done"] == len(ids)
        assert everything(client) == before

    client.delete("rsmq:spare")
    client.hdel("rsmq:spare:Q", *ids[:-1])
    assert command("messages", "import", "spare", str(path), "--yes").lines[0]["done"] == len(ids)
    assert everything(client) == before


def test_what_list_and_journal_show_print_can_be_imported(command: Command, orders: Rsmq, tmp_path: Path) -> None:
    listed = command("messages", "list", "orders")
    command("messages", "delete", "orders", "--all", "--yes")
    shown = command("journal", "show", "1")
    path = tmp_path / "in.jsonl"
    for queue, done in (("orders", listed), ("spare", shown)):
        path.write_bytes(done.out)
        assert command("messages", "import", queue, str(path), "--yes").lines[0]["done"] == 6
    assert sorted(_bodies(orders)) == sorted(_bodies(orders, "orders"))
    assert json.loads(shown.text.splitlines()[0])["outcome"] == "done"


def test_a_list_whose_bodies_were_too_long_is_no_export(command: Command, orders: Rsmq, tmp_path: Path) -> None:
    orders.send_message("spare", "x" * 1_500_000)
    listed = command("messages", "list", "spare")
    assert (listed.lines[0]["too_long"], listed.lines[0]["size"]) == (True, 1_500_000)
    path = tmp_path / "in.jsonl"
    path.write_bytes(listed.out)
    done = command("messages", "import", "orders", str(path), "--yes")
    assert done.status == 2
    assert "its body was too long to be listed: export it" in done.err
    printed = command("messages", "delete", "spare", "--filter", "x", "--yes")
    assert (printed.status, printed.lines[0]["planned"]) == (0, 0)
    assert printed.err == "rsmq-tui: 1 message could not be searched: the body is too long.\n"


def test_a_preview_shows_what_would_be_sent(command: Command, orders: Rsmq) -> None:
    printed = command("messages", "send", "spare", "one \x1b[2J", "two", "three", "four", terminal=True).text
    assert "one ␛[2J" in printed
    assert "two" in printed
    assert "and 1 more message" in printed
