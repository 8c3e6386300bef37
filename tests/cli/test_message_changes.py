"""`rsmq-tui messages`: a change is previewed, made only with --yes, told, and taken back by undo."""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from rsmq_tui.protocol import Rsmq
from rsmq_tui.triage.execute import RunningChange
from rsmq_tui.triage.scope import Preview
from rsmq_tui.triage.service import ChangeService
from tests.cli.conftest import Command
from tests.triage.consuming import consuming

Keys = Callable[[], Mapping[bytes, Any]]

LINE = {"id": "hod2fot7porQbzi8dKCMLfliniAxFcrG", "score": 1795249967506, "rc": 3, "fr": 1795249937506,
        "body_base64": "/wAbWzJK"}  # fmt: skip
# What is asked for, and how many it is for.
CHANGES = {
    "delete": (["delete", "orders", "--filter", "json.type=a"], 2),
    "delete all": (["delete", "orders", "--all"], 6),
    "delete some": (["delete", "orders", "--all", "--limit", "3"], 3),
    "hide": (["hide", "orders", "--filter", "state:ready", "--seconds", "600"], 3),
    "release": (["release", "orders", "--filter", "state:hidden"], 3),
    "move": (["move", "orders", "--filter", "state:inflight", "--to", "spare"], 2),
    "move and create": (["move", "orders", "--all", "--to", "made-now", "--create"], 6),
    "copy": (["copy", "orders", "--all", "--to", "spare"], 6),
    "copy within": (["copy", "orders", "--filter", "plain", "--to", "orders"], 1),
    "redrive": (["redrive", "orders-dlq", "--all"], 2),
    "redrive to": (["redrive", "orders-dlq", "--all", "--to", "spare"], 2),
    "redrive by body": (["redrive", "orders-dlq", "--all", "--origin", "from.queue"], 2),
    "send": (["send", "orders", "one", "two", "--delay", "60"], 2),
    "import": (["import", "spare", "LINES"], 1),
}  # fmt: skip


def _arguments(name: str, tmp_path: Path) -> list[str]:
    lines = tmp_path / "lines.jsonl"
    lines.write_text(json.dumps(LINE) + "\n")
    return ["messages", *(str(lines) if argument == "LINES" else argument for argument in CHANGES[name][0])]


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("dry", [[], ["--dry-run"]], ids=["without --yes", "dry run"])
def test_a_preview_says_the_number_and_changes_nothing(
    name: str, dry: list[str], command: Command, orders: Rsmq, client: Redis, tmp_path: Path
) -> None:
    before = {key: client.dump(key) for key in client.scan_iter()}
    done = command(*_arguments(name, tmp_path), *dry)
    (line,) = done.lines
    assert (done.status, line["preview"], line["planned"]) == (3, True, CHANGES[name][1])
    assert line["action"] == CHANGES[name][0][0]
    assert {key: client.dump(key) for key in client.scan_iter()} == before


@pytest.mark.parametrize(
    ("arguments", "times"),
    [
        (["hide", "orders", "--all", "--for", "10m"], (600, None)),
        (["hide", "list:queue:jobs", "--all", "--for", "1h"], (3600, None)),
        (["send", "orders", "one", "--delay", "1m"], (None, 60)),
        (["send", "orders", "one", "--delay", "0"], (None, 0)),
        (["send", "orders", "one"], (None, None)),
        (["send", "list:queue:jobs", "one", "--front"], (None, None)),
        (["delete", "orders", "--all"], (None, None)),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_preview_as_json_has_the_times_that_were_given(
    arguments: list[str], times: tuple[int | None, int | None], command: Command, orders: Rsmq, client: Redis
) -> None:
    client.lpush("queue:jobs:processing", "job")
    (preview,) = command("messages", *arguments, "--json").lines
    assert (preview["for_s"], preview["delay_s"]) == times


@pytest.mark.parametrize("name", CHANGES)
def test_yes_makes_the_change_and_undo_takes_it_back(
    name: str, command: Command, orders: Rsmq, keys: Keys, tmp_path: Path
) -> None:
    before = keys()
    done = command(*_arguments(name, tmp_path), "--yes")
    arguments, number = CHANGES[name]
    (report,) = done.lines
    assert (done.status, done.err) == (0, "")
    assert report == report | {"action": arguments[0], "queue": arguments[1], "planned": number, "done": number,
                               "skipped": 0, "failed": 0, "reasons": [], "unknown": 0, "unsure": 0,
                               "change": 1, "stopped": None}  # fmt: skip
    after = keys()
    assert after != before
    preview = command("undo")
    assert (preview.status, keys()) == (3, after)
    undone = command("undo", "--yes")
    assert (undone.status, undone.lines[0]["action"], undone.lines[0]["failed"]) == (0, "undo", 0)
    assert keys() == before


@pytest.mark.parametrize("name", CHANGES)
def test_a_terminal_reads_words(name: str, command: Command, orders: Rsmq, tmp_path: Path) -> None:
    arguments = _arguments(name, tmp_path)
    preview = command(*arguments, terminal=True)
    assert preview.status == 3
    assert f"{CHANGES[name][1]} message" in preview.text.splitlines()[0]
    assert preview.text.splitlines()[-1] == "Nothing was changed; --yes applies this change."
    done = command(*arguments, "--yes", terminal=True)
    assert done.status == 0
    (sentence,) = done.text.splitlines()
    made = "; queue made-now was created" if "--create" in arguments else ""
    assert f" {CHANGES[name][1]}, skipped 0, failed 0{made}; rsmq-tui undo 1 reverts it" in sentence
    as_json = command("messages", "delete", "orders", "--all", "--json", terminal=True)
    assert as_json.lines[0]["preview"]


def test_what_a_change_did(command: Command, orders: Rsmq, client: Redis, tmp_path: Path) -> None:
    assert command(*_arguments("move", tmp_path), "--yes").status == 0
    assert orders.get_queue_attributes("spare").msgs == 2
    moved = client.hgetall("rsmq:spare:Q")
    assert [value for name, value in moved.items() if name.endswith(b":rc")] == [b"1", b"1"]
    assert command(*_arguments("import", tmp_path), "--yes").status == 0
    id = str(LINE["id"])
    assert client.hmget("rsmq:spare:Q", id, f"{id}:rc", f"{id}:fr") == [b"\xff\x00\x1b[2J", b"3", b"1795249937506"]
    assert client.zscore("rsmq:spare", id) == LINE["score"]


@pytest.mark.parametrize("name", CHANGES)
def test_the_rows_of_a_preview_stand_below_each_other(
    name: str, command: Command, orders: Rsmq, tmp_path: Path
) -> None:
    lines = command(*_arguments(name, tmp_path), terminal=True).text.splitlines()
    rows = lines[1 : lines.index("")]
    begins = [found.end() for row in rows if (found := re.match(r"  \w*  +", row))]
    assert (len(begins), len(set(begins))) == (len(rows), 1)


def test_ids_that_are_there_and_one_that_is_not(command: Command, orders: Rsmq, client: Redis) -> None:
    ids = [id.decode() for id in client.zrange("rsmq:orders", 0, 1)]
    (preview,) = command("messages", "delete", "orders", "--id", *ids, "nope").lines
    assert (preview["planned"], preview["not_there"]) == (2, 1)
    done = command("messages", "delete", "orders", "--id", ids[0], ids[0], "nope", "--id", ids[1], "--yes")
    (report,) = done.lines
    assert (done.status, report["planned"], report["not_there"]) == (1, preview["planned"], preview["not_there"])
    assert (report["done"], report["skipped"], report["reasons"]) == (2, 0, [])
    (recorded,) = command("journal", "--limit", "1").lines
    assert [recorded[key] for key in ("planned", "done", "skipped")] == [2, 2, 0]
    assert client.zcard("rsmq:orders") == 4
    printed = command("messages", "delete", "orders", "--id", "nope", "--yes", terminal=True)
    assert (printed.status, printed.text) == (1, "orders: deleted 0, skipped 0, failed 0\n")
    assert printed.err == "rsmq-tui: 1 id is not in the queue.\nrsmq-tui: nothing was deleted\n"
    assert [line["change"] for line in command("journal").lines] == [1]


@pytest.mark.parametrize(
    "action", [["delete"], ["hide", "--for", "9"], ["release"], ["move", "--to", "spare"]], ids=" ".join
)
def test_an_id_that_is_not_there_is_status_1(action: list[str], command: Command, orders: Rsmq, client: Redis) -> None:
    name, *options = action
    hidden = client.zrange("rsmq:orders", -1, -1)[0].decode()
    for ids, done in ([hidden, "nope"], 1), (["nope"], 0):
        changed = command("messages", name, "orders", "--id", *ids, *options, "--yes")
        assert (changed.status, changed.lines[0]["done"], changed.lines[0]["not_there"]) == (1, done, 1)


def test_some_that_fail_are_status_1_with_their_reason(command: Command, orders: Rsmq) -> None:
    orders.create_queue("narrow", maxsize=1024)
    orders.send_message("orders", "x" * 2000)
    done = command("messages", "move", "orders", "--all", "--to", "narrow", "--yes")
    (report,) = done.lines
    assert (done.status, report["done"]) == (1, 6)
    assert report["failed"] == 1
    assert report["reasons"] == [{"outcome": "failed", "reason": "longer than the target's maxsize", "count": 1}]
    done = command("messages", "send", "narrow", "x" * 1025, "--yes")
    assert (done.status, done.lines) == (2, [])
    assert "narrow --maxsize N changes that" in done.err


def test_a_limit_takes_those_due_first(command: Command, orders: Rsmq, client: Redis) -> None:
    ids = [id.decode() for id in client.zrange("rsmq:orders", 0, -1)]
    matching = [id for id in ids if b"type" in (client.hget("rsmq:orders:Q", id) or b"")]
    # The last that was sent is due first.
    client.zadd("rsmq:orders", {matching[-1]: 1_600_000_000_000})
    narrow = ("messages", "delete", "orders", "--filter", "json.type", "--limit", "2")
    shown = command(*narrow)
    assert shown.status == 3
    (preview,) = shown.lines
    assert preview["what"] == f"the 2 due first of {len(matching)} that match json.type, in the whole queue"
    done = command(*narrow, "--yes")
    assert (done.lines[0]["done"], client.zcard("rsmq:orders")) == (2, 4)
    left = {id.decode() for id in client.zrange("rsmq:orders", 0, -1)}
    assert set(ids) - left == {matching[-1], matching[0]}


def test_help_says_what_a_limit_means(command: Command) -> None:
    printed = " ".join(command("messages", "move", "--help").out.decode().split())
    assert (
        "at most N messages: those due first, for release among the hidden ones; of a list queue, those taken next"
        in printed
    )


def test_poison_is_what_the_profile_calls_so(
    anywhere: Command, orders: Rsmq, client: Redis, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "config.toml"
    path.write_text(f'[profiles.strict]\nurl = "{redis_url}"\nthresholds = {{ poison_rc = 1 }}\n')
    path.chmod(0o600)
    monkeypatch.setenv("RSMQ_TUI_CONFIG", str(path))
    poison = ("--profile", "strict", "messages")
    listed = anywhere(*poison, "list", "orders", "--filter", "state:poison")
    assert len(listed.lines) == 2
    (preview,) = anywhere(*poison, "delete", "orders", "--filter", "state:poison").lines
    assert preview["planned"] == 2
    written = anywhere(*poison, "export", "orders", "--filter", "state:poison")
    assert len(written.lines) == 2


def test_a_poison_queue_is_emptied_beside_its_consumer(command: Command, client: Redis, redis_url: str) -> None:
    queues = Rsmq(client)
    for name in ("hot", "parked"):
        queues.create_queue(name)
    ids = queues.send_messages("hot", ["poison"] * 12)
    with consuming(redis_url, "hot", vt_s=0) as consumer:
        consumer.wait_for(ids, 5)
        (line,) = command("messages", "move", "hot", "--filter", "rc>=5", "--to", "parked", "--yes").lines
    assert (line["done"], line["skipped"], line["failed"]) == (12, 0, 0)
    assert command("undo", "--yes").status == 0
    assert {id: int(client.hget("rsmq:hot:Q", f"{id}:rc")) for id in ids} == {
        id: message.rc for id, message in consumer.last.items()
    }


def _received_after_the_preview(orders: Rsmq, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A preview is all the time that a consumer of `hot` needs."""
    honest = ChangeService.run

    def received_meanwhile(self: ChangeService, preview: Preview) -> RunningChange:
        orders.receive_messages("hot", count, vt=100)
        return honest(self, preview)

    monkeypatch.setattr(ChangeService, "run", received_meanwhile)


def test_named_messages_are_changed_even_if_received(
    command: Command, client: Redis, orders: Rsmq, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders.create_queue("hot")
    ids = orders.send_messages("hot", ["x"] * 3)
    _received_after_the_preview(orders, 2, monkeypatch)
    arguments = ["messages", "delete", "hot", "--id", *ids]
    done = command(*arguments, "--yes", terminal=True)
    assert "deleted 1, skipped 2 (received or changed meanwhile)" in done.text
    assert (
        f"skipped, because received or changed since the preview: {ids[0]} {ids[1]}; --even-if-received "
        "includes such messages" in done.err
    )
    orders.change_message_visibility("hot", ids[0], 0)
    (line,) = command(*arguments, "--even-if-received", "--yes").lines
    assert line["done"] == 2
    assert orders.get_queue_attributes("hot").msgs == 0


@pytest.mark.parametrize("left", [0, 1])
def test_a_change_that_changed_nothing_says_so(
    command: Command, orders: Rsmq, client: Redis, monkeypatch: pytest.MonkeyPatch, left: int
) -> None:
    orders.create_queue("hot")
    ids = orders.send_messages("hot", ["x"] * 3)
    honest = ChangeService.run

    def deleted_meanwhile(self: ChangeService, preview: Preview) -> RunningChange:
        for id in ids[left:]:
            orders.delete_message("hot", id)
        return honest(self, preview)

    monkeypatch.setattr(ChangeService, "run", deleted_meanwhile)
    done = command("messages", "move", "hot", "--id", *ids, "--to", "spare", "--yes", terminal=True)
    assert done.text.startswith(f"hot: moved {left}, skipped {3 - left} (gone meanwhile), failed 0")
    assert done.err == ("" if left else "rsmq-tui: nothing was moved\n")
    shown = command("journal", "show", "1")
    assert sorted(line["outcome"] for line in shown.lines) == ["done"] * left + ["gone"] * (3 - left)
    assert shown.err == ("" if left else "rsmq-tui: change 1 has changed nothing: 3 skipped, 0 failed\n")


def test_an_undo_without_a_preview_does_not_go_on_to_a_change_of_another_kind(
    command: Command, client: Redis, orders: Rsmq, monkeypatch: pytest.MonkeyPatch
) -> None:
    command("messages", "delete", "orders", "--all", "--yes")
    client.rpush("mail", "x", "y")
    honest = ChangeService.run

    def taken_meanwhile(self: ChangeService, preview: Preview) -> RunningChange:
        client.lpop("mail", 2)
        return honest(self, preview)

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(ChangeService, "run", taken_meanwhile)
        assert command("messages", "delete", "list:mail", "--all", "--yes").lines[0]["done"] == 0
    refused = command("undo", "--yes")
    assert refused.status == 2
    assert "change 2, the last one, changed nothing" in refused.err


@pytest.mark.parametrize("arguments", [["1"], ["--queue", "orders"]], ids=" ".join)
def test_an_undo_without_a_preview_does_not_go_on_to_an_older_change(
    command: Command, orders: Rsmq, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    command("messages", "delete", "orders", "--all", "--yes")
    orders.create_queue("hot")
    ids = orders.send_messages("hot", ["x"] * 3)
    with monkeypatch.context() as meanwhile:
        _received_after_the_preview(orders, 3, meanwhile)
        assert command("messages", "delete", "hot", "--id", *ids, "--yes").lines[0]["done"] == 0
    assert command("undo").status == 3
    refused = command("undo", "--yes")
    assert (refused.status, refused.text) == (2, "")
    assert "change 2, the last one, changed nothing" in refused.err
    assert "`rsmq-tui undo 1 --yes` applies it" in refused.err
    assert command("undo", *arguments, "--yes").status == 0


@pytest.mark.parametrize(("most", "left_out"), [(1000, 0), (5, 0), (3, 2)])
def test_ids_of_those_that_were_received_are_printed_up_to_a_limit(
    command: Command, orders: Rsmq, monkeypatch: pytest.MonkeyPatch, most: int, left_out: int
) -> None:
    orders.create_queue("hot")
    ids = orders.send_messages("hot", ["x"] * 5)
    _received_after_the_preview(orders, 5, monkeypatch)
    monkeypatch.setattr("rsmq_tui.cli.changes._IDS_PRINTED", most)
    (line,) = command("messages", "delete", "hot", "--id", *ids, "--yes").lines
    assert (line["skipped"], line["changed_ids"], line["changed_ids_left_out"]) == (5, ids[:most], left_out)


def test_a_preview_of_nothing_promises_nothing(command: Command, orders: Rsmq) -> None:
    done = command("messages", "delete", "orders", "--filter", "body:nowhere", terminal=True)
    assert done.status == 3
    assert done.text.splitlines()[-1] == "Nothing matches; there is nothing to do."
    assert "undo" not in done.text
    assert "--yes" not in done.text
