"""List queues on the command line: `list:KEY`, or --lists; previews, changes, undo, and moves between the kinds."""

from itertools import count
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from rsmq_tui.monitor.filters.search import INCOMPLETE
from rsmq_tui.protocol import Rsmq
from rsmq_tui.protocol.lists.pages import ListRanges
from tests.cli.conftest import Command
from tests.triage.list_doing import lease

KEY = "queue:orders"
LISTED = f"list:{KEY}"


@pytest.fixture(autouse=True)
def orders(client: Redis) -> None:
    client.lpush(KEY, *(f'{{"id": {number}}}' for number in range(5)))


def items(client: Redis, key: str = KEY) -> list[bytes]:
    return client.lrange(key, 0, -1)[::-1]


def body(number: int) -> bytes:
    return b'{"id": %d}' % number


def test_a_preview_changes_nothing(command: Command, client: Redis) -> None:
    done = command("messages", "pop", LISTED, "--count", "2")
    assert done.status == 3
    (line,) = done.lines
    assert (line["action"], line["queue"], line["planned"], line["ns"]) == ("pop", LISTED, 2, "(lists)")
    assert line["what"] == "the 2 items that would be taken next"
    assert items(client) == [body(number) for number in range(5)]


@pytest.mark.parametrize("named", [[LISTED], ["--lists", "queue:*", KEY]])
def test_delete_by_filter_and_undo(command: Command, client: Redis, named: list[str]) -> None:
    done = command("messages", "delete", *named, "--filter", "json.id>2", "--yes")
    assert (done.status, done.lines[0]["done"]) == (0, 2)
    assert items(client) == [body(0), body(1), body(2)]
    assert command("undo", "--yes", "--queue", LISTED).lines[0]["done"] == 2
    # They are taken next.
    assert items(client) == [body(number) for number in (3, 4, 0, 1, 2)]


def test_undo_by_number_and_of_the_last_change_of_lists(command: Command, client: Redis) -> None:
    before = items(client)
    assert command("messages", "pop", LISTED, "--yes").status == 0
    assert command("undo", "1", "--yes").status == 0
    assert items(client) == before
    assert command("messages", "trim", LISTED, "--keep", "1", "--yes").lines[0]["done"] == 4
    assert items(client) == [body(4)]
    assert command("undo", "--lists", "queue:*", "--yes").lines[0]["done"] == 4
    assert items(client) == before
    assert [line["ns"] for line in command("journal").lines] == ["(lists)"] * 4
    assert {line["edit"] for line in command("journal", "show", "3").lines} == {"list-remove"}


def test_undo_takes_back_the_last_change_of_either_kind(command: Command, client: Redis) -> None:
    Rsmq(client).create_queue("parked")
    assert command("messages", "send", "parked", "one", "--yes").status == 0
    assert command("messages", "pop", LISTED, "--yes").status == 0
    assert command("undo", "--yes").lines[0]["queue"] == LISTED
    assert len(items(client)) == 5
    assert command("undo", "--yes").lines[0]["queue"] == "parked"
    assert client.zcard("rsmq:parked") == 0
    # One that is made again is as recent as that, whatever its number.
    assert [command("undo", undo, "--yes").status for undo in ("3", "4")] == [0, 0]
    assert command("undo", "--yes").lines[0]["queue"] == "parked"


@pytest.mark.parametrize("to", ["queue:copy", "list:queue:copy"])
def test_queues_and_targets_are_printed_as_commands_take_them(command: Command, client: Redis, to: str) -> None:
    Rsmq(client).create_queue("parked")
    moves = [
        command("messages", "move", LISTED, "--all", "--limit", "1", "--to", to, "--yes"),
        command("messages", "move", LISTED, "--all", "--limit", "1", "--to", "rsmq:parked", "--yes"),
        command("messages", "move", "parked", "--all", "--to", "list:queue:copy", "--yes"),
    ]
    previewed = command("messages", "move", LISTED, "--all", "--to", to).lines
    wanted = [(LISTED, "list:queue:copy"), (LISTED, "rsmq:rsmq/parked"), ("parked", "list:queue:copy")]

    assert [(line["queue"], line["target"]) for done in moves for line in done.lines] == wanted
    assert [(line["queue"], line["target"]) for line in previewed] == wanted[:1]
    changes = command("journal", "list").lines
    assert [(line["queue"], line["target"]) for line in reversed(changes)] == wanted
    shown = [command("journal", "show", str(line["change"])).lines[0] for line in reversed(changes)]
    wanted[1] = (LISTED, "rsmq:rsmq/parked")
    assert [(line["queue"], line["target"]) for line in shown] == wanted
    undone = command("undo", "1", "--yes").lines[0]
    assert (undone["queue"], undone["target"]) == (LISTED, None)


def test_every_command_takes_a_reference(command: Command, client: Redis) -> None:
    rsmq = Rsmq(client)
    for name in ("parked", "other"):
        rsmq.create_queue(name)
    Rsmq(client, ns="jobs").create_queue("parked")
    lists = ("--lists", "rsmq:*")
    assert command("messages", "send", "rsmq:parked", "one", "two", "--yes").lines[0]["queue"] == "parked"
    assert command("messages", "send", "rsmq:jobs/parked", "three", "--yes", *lists).lines[0]["ns"] == "jobs"
    assert [line["body"] for line in command("messages", "list", "rsmq:jobs/parked").lines] == ["three"]
    moved = command("messages", "move", "rsmq:parked", "--all", "--to", "rsmq:other", "--yes").lines[0]
    assert (moved["queue"], moved["target"], moved["done"]) == ("parked", "other", 2)
    assert command("queues", "set", "rsmq:other", "--vt", "5", "--yes").lines[0]["done"] == 1
    assert command("undo", "--queue", "rsmq:other", "--yes").lines[0]["action"] == "undo"
    assert command("undo", "--queue", "rsmq:jobs/parked", "--yes").lines[0]["done"] == 1
    elsewhere = command("messages", "move", "other", "--all", "--to", "rsmq:jobs/parked", "--yes")
    assert (elsewhere.status, "is in another namespace" in elsewhere.err) == (2, True)
    for text, missing in (("rsmq:", "the name of the queue after rsmq:"), ("list:", "the key of the list after list:")):
        assert f"write {missing}" in command("messages", "list", text).err


def test_what_the_star_of_a_pattern_stands_for_is_the_name(anywhere: Command, client: Redis, tmp_path: Path) -> None:
    client.lpush("bull:video:wait", "a")
    client.lpush("bull:video:active", "b")
    config = tmp_path / "lists.toml"
    url = client.connection_pool.connection_kwargs
    config.write_text(
        f'default = "p"\n[profiles.p]\nurl = "redis://127.0.0.1:{url["port"]}/0"\n'
        'lists = ["bull:*:wait", "jobs"]\nlists_processing = "bull:{name}:active"\n'
    )
    queues = anywhere("--config", str(config), "queues", "list").lines
    assert [(line["name"], line["ready"], line["hidden"]) for line in queues if line["kind"] == "list"] == [
        ("bull:video:wait", 1, 1),
        ("jobs", 0, 0),
    ]
    one = anywhere("--config", str(config), "queues", "list", "--lists", "bull:video:wait").lines
    assert [(line["name"], line["hidden"]) for line in one if line["kind"] == "list"] == [("bull:video:wait", 1)]


@pytest.mark.parametrize(
    ("leased", "title"),
    [(3, "Extend 3 leases"), (2, "Extend 2 leases and create 1"), (1, "Extend 1 lease and create 2"),
     (0, "Create 3 leases")],
)  # fmt: skip
def test_a_preview_counts_the_leases_that_are_extended_and_those_that_are_created(
    command: Command, client: Redis, leased: int, title: str
) -> None:
    items = [b"a", b"b", b"c"]
    client.lpush(f"{KEY}:processing", *items)
    for number, item in enumerate(items[:leased]):
        client.zadd(f"{KEY}:leases", {lease(f"token {number}", item): 4_000_000_000_000})
    preview = command("messages", "hide", LISTED, "--all", "--for", "60", terminal=True)
    assert (preview.status, preview.text.splitlines()[0]) == (3, title)
    (line,) = command("messages", "hide", LISTED, "--all", "--for", "60").lines
    assert (line["planned"], line["states"]["in_flight"], line["states"]["no_lease"]) == (3, leased, 3 - leased)


def test_the_leases_that_are_created_are_counted_in_several_queues(command: Command, client: Redis) -> None:
    client.lpush(f"{KEY}:processing", "a", "b")
    client.zadd(f"{KEY}:leases", {lease("token", b"a"): 4_000_000_000_000})
    client.lpush("queue:mail:processing", "c")
    preview = command("messages", "hide", "list:queue:*", "--all", "--for", "60", terminal=True)
    assert preview.text.splitlines()[0] == "Extend 1 lease and create 2 in 2 queues"


def test_looking(command: Command) -> None:
    listed = command("messages", "list", LISTED, "--filter", "json.id=3")
    (line,) = listed.lines
    assert (line["body"], line["state"]) == ('{"id": 3}', "ready")
    assert command("messages", "get", LISTED, line["id"], "--json").lines[0]["body"] == '{"id": 3}'
    missing = command("messages", "get", LISTED, f"q:0:{'0' * 40}")
    assert missing.status == 1
    people = command("messages", "list", LISTED, terminal=True)
    assert '{"id": 4}' in people.text


@pytest.mark.parametrize("end", ["right", "left"])
def test_a_limit_lists_what_is_taken_next(anywhere: Command, client: Redis, tmp_path: Path, end: str) -> None:
    url = client.connection_pool.connection_kwargs
    config = tmp_path / "config.toml"
    config.write_text(f'default = "p"\n[profiles.p]\nurl = "redis://127.0.0.1:{url["port"]}/0"\nlists_take = "{end}"\n')
    client.lpush(KEY, *map(body, range(5, 2_000)))
    expected = [body(0), body(1)] if end == "right" else [body(1_999), body(1_998)]
    for filtered in ([], ["--filter", "body:id"]):
        done = anywhere("--config", str(config), "messages", "list", LISTED, "--limit", "2", *filtered)
        assert [line["body"].encode() for line in done.lines] == expected
    assert (client.rpop(KEY) if end == "right" else client.lpop(KEY)) == expected[0]


def test_a_list_that_does_not_exist_is_refused_by_every_command(command: Command, tmp_path: Path) -> None:
    named, out = "list:queue:nosuch", tmp_path / "out.jsonl"
    commands = [
        command("messages", *arguments)
        for arguments in (
            ["list", named],
            ["list", named, "--count"],
            ["get", named, "--filter", "rc>=0"],
            ["export", named, "-o", str(out)],
            ["delete", named, "--all"],
            ["pop", named, "--yes"],
        )
    ]
    assert {(done.status, done.out) for done in commands} == {(2, b"")}
    (said,) = {done.err for done in commands}
    assert "there is no list with that key: Redis deletes a list with its last item" in said
    assert "rsmq-tui queues list --lists '*' shows the existing lists" in said
    assert not out.exists()


def test_an_empty_list_that_is_watched_by_its_key_is_a_queue(command: Command) -> None:
    watched = ("--lists", "queue:drained")
    done = command("messages", "list", "list:queue:drained", *watched)
    assert (done.status, done.out) == (0, b"")
    assert done.err.startswith("rsmq-tui: queue:drained is empty now: Redis deletes a list with its last item\n")
    preview = command("messages", "delete", "list:queue:drained", "--all", *watched)
    assert (preview.status, preview.lines[0]["planned"], preview.err) == (3, 0, "")
    (report,) = command("messages", "pop", "list:queue:drained", *watched, "--yes").lines
    assert (report["planned"], report["done"], report["change"]) == (0, 0, None)


def test_who_works_on_a_list_is_found_before_it_exists(command: Command, client: Redis) -> None:
    done = command("who", "list:queue:nosuch")
    assert (done.status, done.lines[0]["queue"]) == (3, "list:queue:nosuch")
    assert "there is no list with that key" in done.err
    # One with items, or only with items in processing, does exist.
    client.lpush("queue:mail:processing", "x")
    for named in (LISTED, "list:queue:mail"):
        assert command("who", named).err == "rsmq-tui: not watched: --yes watches the commands of all clients\n"


def test_a_reference_without_its_kind_or_key_is_refused(command: Command) -> None:
    assert command("messages", "list", "list:").status == 2
    assert "a Redis List is written list:queue:nosuch" in command("messages", "list", "queue:nosuch").err


def test_a_list_that_changes_too_fast_to_be_read_is_told(
    command: Command, client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, serials = ListRanges.read, count()

    async def replacing(self: ListRanges, *given: Any, **limits: Any) -> Any:
        client.delete(KEY)
        client.lpush(KEY, *(b"item %d" % next(serials) for _ in range(3_000)))
        return await read(self, *given, **limits)

    monkeypatch.setattr(ListRanges, "read", replacing)
    for what in ("list", "export"):
        done = command("messages", what, LISTED, "--filter", "body:item")
        assert (done.status, INCOMPLETE in done.err) == (0, True)


def test_export_and_import(command: Command, client: Redis, tmp_path: Path) -> None:
    path = tmp_path / "orders.jsonl"
    assert command("messages", "export", LISTED, "-o", str(path)).status == 0
    assert len(command("messages", "export", LISTED, "--filter", "json.id=1").lines) == 1
    assert command("messages", "import", "list:queue:copy", str(path), "--yes").lines[0]["done"] == 5
    assert items(client, "queue:copy") == items(client)


def test_processing(command: Command, client: Redis) -> None:
    client.lmove(KEY, f"{KEY}:processing", "RIGHT", "LEFT")
    client.lmove(KEY, f"{KEY}:processing", "RIGHT", "LEFT")
    client.zadd(f"{KEY}:leases", {b"x" * 22 + b":" + body(0): 1000})
    assert command("messages", "requeue", LISTED, "--filter", "json.id=0", "--yes").lines[0]["done"] == 1
    assert items(client) == [body(0), body(2), body(3), body(4)]
    hidden = command("messages", "hide", LISTED, "--all", "--seconds", "60", "--yes").lines[0]
    # The name in JSON is that of RSMQ; people read what happens to a list.
    assert (hidden["action"], hidden["done"]) == ("hide", 1)
    printed = command("messages", "hide", LISTED, "--all", "--seconds", "90", "--yes", terminal=True).text
    assert "queue:orders: extended 1," in printed
    assert client.zcard(f"{KEY}:leases") == 1
    printed = command("messages", "release", LISTED, "--all", "--yes", terminal=True).text
    assert "queue:orders: requeued 1," in printed
    client.lmove(KEY, f"{KEY}:processing", "RIGHT", "LEFT")
    released = command("messages", "release", LISTED, "--all", "--yes").lines[0]
    assert (released["action"], released["done"]) == ("release", 1)
    client.lmove(KEY, f"{KEY}:processing", "RIGHT", "LEFT")
    assert command("messages", "ack", LISTED, "--all", "--yes").lines[0]["done"] == 1
    assert not client.exists(f"{KEY}:processing", f"{KEY}:leases")


def test_send_to_either_end_and_purge(command: Command, client: Redis) -> None:
    assert command("messages", "send", LISTED, "last", "--yes").status == 0
    assert command("messages", "send", LISTED, "a", "b", "--front", "--yes").status == 0
    assert [items(client)[place] for place in (0, 1, -1)] == [b"a", b"b", b"last"]
    assert command("queues", "purge", LISTED, "--yes").lines[0]["done"] == 8
    assert not client.exists(KEY)


def test_between_the_kinds(command: Command, client: Redis) -> None:
    queues = Rsmq(client)
    queues.create_queue("jobs")
    assert command("messages", "move", LISTED, "--all", "--limit", "2", "--to", "rsmq:jobs", "--yes").status == 0
    assert queues.get_queue_attributes("jobs").totalsent == 2
    assert command("messages", "copy", "jobs", "--all", "--to", "list:queue:copy", "--yes").lines[0]["done"] == 2
    assert items(client, "queue:copy") == [body(0), body(1)]
    assert command("messages", "move", "jobs", "--all", "--to", LISTED, "--yes").lines[0]["done"] == 2
    assert items(client) == [body(number) for number in (2, 3, 4, 0, 1)]
    assert command("undo", "--yes", "3").status == 0
    assert [message.body for message in queues.receive_messages("jobs", 2)] == [body(0), body(1)]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["messages", "pop", "orders"], "pop is for list queues"),
        (["messages", "requeue", "orders", "--all"], "requeue is for list queues"),
        (["messages", "send", "orders", "x", "--front"], "--front is for list queues"),
        (["queues", "purge", "orders", "--processing"], "--processing is for list queues"),
        (["queues", "create", LISTED], "is for RSMQ queues"),
        (["queues", "delete", LISTED, "--yes"], "purge it"),
        (["messages", "get", "list:queue:none", "q:0:" + "0" * 40], "there is no list with that key"),
        (["messages", "delete", "list:queue:none", "--all"], "there is no list with that key"),
        (["messages", "delete", LISTED, "--id", "nonsense"], "as in q:0:SHA1"),
        (["messages", "move", LISTED, "--all", "--to", "rsmq:none"], "does not exist"),
        (["messages", "pop", LISTED, "--yes", "--read-only"], "read-only"),
    ],
)
def test_refusals(command: Command, client: Redis, arguments: list[str], why: str) -> None:
    before = items(client)
    done = command(*arguments)
    assert done.status == 2
    assert why in done.err
    assert items(client) == before


def test_queues_of_both_kinds_stand_in_one_table(command: Command, client: Redis) -> None:
    Rsmq(client).create_queue("jobs")
    listed = command("queues", "list", "--lists", "queue:*")
    assert {(line["name"], line["kind"]) for line in listed.lines} == {("jobs", "rsmq"), (KEY, "list")}
    assert KEY in command("queues", "list", "--lists", "queue:*", terminal=True).text


def test_a_target_that_is_no_list_is_named(command: Command, client: Redis) -> None:
    client.set("queue:text", "x")
    Rsmq(client).create_queue("jobs")
    for arguments in (["move", LISTED], ["copy", "jobs"]):
        done = command("messages", *arguments, "--all", "--to", "list:queue:text", "--yes")
        assert done.status == 2
        assert "list:queue:text: " in done.err
