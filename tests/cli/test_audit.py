"""`rsmq-tui audit`: what it prints and how it ends; --fix only previews, --fix --yes does it, undo reverts it."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from redis import Redis

from rsmq_tui.monitor.audit.findings import FindingKind
from rsmq_tui.protocol import Rsmq
from tests.cli.conftest import Command
from tests.monitor.trouble import TROUBLE

Keys = Callable[[], Mapping[bytes, Any]]
PAST_MS = 1_700_000_000_000


def test_nothing_found(command: Command, orders: Rsmq) -> None:
    done = command("audit")
    assert (done.status, done.out) == (0, b"")
    assert done.err == "rsmq-tui: 3 queues, 20 messages and fields checked: nothing found\n"
    assert command("audit", "--fix").status == command("audit", "--fix", "--yes").status == 0


def test_lines_of_json(command: Command, trouble: Rsmq, keys: Keys) -> None:
    before = keys()
    done = command("audit")
    found = {(line["queue"], line["kind"]): line for line in done.lines}

    assert done.status == 1
    assert set(found) == {
        ("orders", "dangling"),
        ("orders", "leaked"),
        ("spare", "unlisted"),
        ("gone", "ghost"),
        ("rust", "foreign-id"),
    }
    dangling = found["orders", "dangling"]
    assert (dangling["count"], dangling["severity"], sorted(dangling["ids"])) == (2, "error", ["a" * 32, "b" * 32])
    assert all(dangling[name] for name in ("what", "made_by", "effect", "fix"))
    assert [line["kind"] for line in done.lines if line["fix_needs_kind"]] == ["foreign-id"]
    assert done.err.endswith("5 findings in 4 queues; --fix previews the fixes\n")
    assert keys() == before


def test_words_for_people(command: Command, trouble: Rsmq) -> None:
    done = command("audit", "--queue", "orders", terminal=True)
    lines = done.text.splitlines()

    assert done.status == 1
    assert lines[0] == "orders"
    assert lines[1] == "  error    2 message ids without bodies (dangling)"
    assert lines[2].split()[0] == "ids"
    assert [line.split("  ")[-1].strip() for line in lines if line.split()[:1] == ["cause"]] == [
        "a manual HDEL, or a client that deletes in two steps (rsmqCsharp, rsmq-rb)",
        "deleteMessage of ebuckley/rsmq, or a manual ZREM",
    ]
    assert all(len(line) <= 120 for line in lines)
    everything = command("audit", terminal=True).text
    assert "--fix    with --kind foreign-id: replaces ids" in everything
    assert everything.count("\n\n") == 3


def test_every_trouble_is_said_in_narrow_lines(
    command: Command, client: Redis, orders: Rsmq, monkeypatch: pytest.MonkeyPatch
) -> None:
    for trouble in TROUBLE.values():
        client.delete("rsmq:q", "rsmq:q:Q", "rsmq:QUEUES:Q")
        client.srem("rsmq:QUEUES", "q", "QUEUES")
        trouble.make(client, orders)
        done = command("audit", "--queue", trouble.queue, terminal=True)
        assert (done.status, trouble.kind.value in done.text) == (1, True)


def test_the_fix_is_only_previewed(command: Command, trouble: Rsmq, keys: Keys) -> None:
    before = keys()
    for dry in ([], ["--dry-run"]):
        done = command("audit", "--fix", *dry)
        previews = {line["queue"]: line for line in done.lines if line.get("preview")}
        assert done.status == 3
        assert {queue: line["planned"] for queue, line in previews.items()} == {"orders": 3, "spare": 1, "gone": 1}
        assert previews["orders"]["what"] == "2 message ids without bodies; body without a message"
    words = command("audit", "--fix", terminal=True)
    assert words.status == 3
    assert words.text.count("Nothing was changed; --yes applies this change.") == 3
    assert keys() == before


def test_fixed_and_undone(command: Command, trouble: Rsmq, client: Redis, keys: Keys) -> None:
    before = keys()
    done = command("audit", "--fix", "--yes")
    reports = {line["queue"]: line for line in done.lines if "done" in line}

    assert done.status == 1  # the ids of `rust` are left: nobody named them
    assert {queue: (line["done"], line["failed"]) for queue, line in reports.items()} == {
        "orders": (3, 0),
        "spare": (1, 0),
        "gone": (1, 0),
    }
    assert [line["kind"] for line in command("audit").lines] == ["foreign-id"]
    named = command("audit", "--fix", "--kind", "foreign-id", "--yes")
    assert (named.status, named.lines[-1]["done"]) == (0, 1)
    assert command("audit").status == 0
    received = trouble.receive_message("rust", vt=0)
    assert received is not None
    assert len(received.id) == 32
    client.zadd("rsmq:rust", {received.id: PAST_MS})
    client.hdel("rsmq:rust:Q", f"{received.id}:rc", f"{received.id}:fr", "totalrecv")
    for change in (4, 3, 2, 1):
        assert command("undo", str(change), "--yes").status == 0
    assert keys() == before


def test_only_that_kind_and_that_queue(command: Command, trouble: Rsmq) -> None:
    done = command("audit", "--kind", "leaked", "--kind", "ghost")
    assert {(line["queue"], line["kind"]) for line in done.lines} == {("orders", "leaked"), ("gone", "ghost")}
    done = command("audit", "--queue", "rust", "--queue", "spare")
    assert {line["queue"] for line in done.lines} == {"rust", "spare"}
    assert command("audit", "--queue", "rust", "--kind", "leaked").status == 0


def test_nothing_to_fix_is_no_preview(command: Command, client: Redis, orders: Rsmq) -> None:
    TROUBLE["galadd"].make(client, orders)
    assert command("audit", "--fix").status == 1
    assert command("audit", "--fix", "--yes").status == 1
    assert "no automatic fix; inspect it yourself" in command("audit", terminal=True).text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--yes"], "--yes and --dry-run need --fix"),
        (["--queue", "nope"], "no such queue in namespace rsmq"),
        (["--kind", "nope"], "'nope' is not one of 'wrong-type'"),
        (["--fix", "--read-only"], "read-only: nothing can be fixed"),
        (["--fix", "--yes", "--dry-run"], "cannot be combined"),
    ],
)
def test_refused(arguments: list[str], words: str, command: Command, trouble: Rsmq, keys: Keys) -> None:
    before = keys()
    done = command("audit", *arguments)
    assert (done.status, done.out) == (2, b"")
    assert words in done.err
    assert keys() == before


def test_no_server(anywhere: Command) -> None:
    done = anywhere("-r", "redis://127.0.0.1:1", "audit")
    assert (done.status, done.out) == (2, b"")
    assert done.err.startswith("rsmq-tui: cannot read redis://127.0.0.1:1/0: connection refused")


def test_another_namespace(command: Command, client: Redis) -> None:
    client.sadd("jobs:QUEUES", "ghost")
    assert [line["queue"] for line in command("--ns", "jobs", "audit").lines] == ["ghost"]
    assert command("audit").status == 0


def test_what_may_not_be_looked_at_is_said(anywhere: Command, client: Redis, orders: Rsmq, redis_url: str) -> None:
    client.acl_setuser("some", enabled=True, passwords=["+pw"], keys=["*"], commands=["+@all", "-scan"])
    done = anywhere("-r", redis_url.replace("redis://", "redis://some:pw@"), "audit")
    assert done.status == 2
    assert "queues missing from the index were not searched for" in done.err
    assert "; grant it +scan\n" in done.err
    assert "nothing found; not everything was checked, so there may be more findings" in done.err
    assert "pw" not in done.err


@pytest.mark.parametrize("refused", ["hscan", "zscan", "sscan", "time"])
def test_nothing_seen_is_no_clean_bill(
    refused: str, anywhere: Command, client: Redis, orders: Rsmq, redis_url: str
) -> None:
    client.acl_setuser("some", enabled=True, passwords=["+pw"], keys=["*"], commands=["+@all", f"-{refused}"])
    url = redis_url.replace("redis://", "redis://some:pw@")
    done = anywhere("-r", url, "audit")
    assert (done.status, f"; grant it +{refused}\n" in done.err) == (2, True)
    named = anywhere("-r", url, "audit", "--queue", "orders", "--fix")
    assert named.status == (0 if refused == "sscan" else 2)
    assert ("queue orders: " in named.err) == (refused != "sscan")


def test_what_is_fixed_is_no_clean_bill_either(anywhere: Command, client: Redis, orders: Rsmq, redis_url: str) -> None:
    client.hset("rsmq:orders:Q", "c" * 32, "leaked")
    client.acl_setuser("some", enabled=True, passwords=["+pw"], keys=["*"], commands=["+@all", "-scan"])
    done = anywhere("-r", redis_url.replace("redis://", "redis://some:pw@"), "audit", "--fix", "--yes")
    assert (done.status, done.lines[-1]["done"]) == (2, 1)


def test_what_is_too_young_is_counted(command: Command, client: Redis, orders: Rsmq) -> None:
    client.hdel("rsmq:orders:Q", client.zrange("rsmq:orders", 0, 0)[0])
    done = command("audit")
    assert (done.status, done.out) == (0, b"")
    assert "nothing found; 1 sent less than a minute ago: too recent to judge" in done.err


def test_fields_of_ones_own_stay(command: Command, client: Redis, orders: Rsmq, keys: Keys) -> None:
    client.hset("rsmq:orders:Q", mapping={"owner": "team-a", "paused": 1})
    before = keys()
    done = command("audit", "--fix", "--yes")
    assert done.status == 1
    assert [(line["kind"], line["severity"], line["fix"]) for line in done.lines] == [
        ("unknown-field", "warning", None)
    ]
    assert keys() == before


def test_hostile_names(command: Command, client: Redis) -> None:
    """A name that no client may make, and every one lists."""
    client.sadd("rsmq:QUEUES", b"\x1b[2J[red]\xff")
    done = command("audit", terminal=True)
    assert done.text.splitlines()[0] == "␛[2J[red]\\xff"
    assert command("audit", "--fix", "--yes").status == 0
    assert not client.exists("rsmq:QUEUES")
    assert command("undo", "--yes").status == 0
    assert client.smembers("rsmq:QUEUES") == {b"\x1b[2J[red]\xff"}


def test_help(command: Command) -> None:
    done = command("audit", "--help")
    assert done.status == 0
    assert "0 nothing found" in " ".join(done.text.split())
    assert all(kind.value in done.text for kind in FindingKind)


def test_lists_are_audited_beside_the_queues_of_rsmq(command: Command, trouble: Rsmq, client: Redis) -> None:
    client.lpush("queue:mail:processing", "a")
    done = command("audit", "--lists", "queue:*", "--json")

    assert done.status == 1
    (found,) = (line for line in done.lines if line["ns"] == "(lists)")
    assert (found["queue"], found["kind"], found["count"], found["fix"]) == ("queue:mail", "unleased", 1, None)
    assert "reaper" in found["hint"]
    assert {line["ns"] for line in done.lines} == {"rsmq", "(lists)"}


def test_a_list_is_audited_by_its_name(command: Command, orders: Rsmq, client: Redis) -> None:
    client.lpush("queue:mail:processing", "a")
    done = command("audit", "--lists", "queue:*", "--queue", "queue:mail", terminal=True)
    assert done.status == 1
    assert done.text.splitlines()[0] == "queue:mail (list)"
    assert "--fix" not in done.text + done.err

    assert command("audit", "--lists", "queue:*", "--queue", "orders").status == 0
    nowhere = command("audit", "--lists", "queue:*", "--queue", "gone")
    assert nowhere.status == 2
    assert nowhere.err.startswith("rsmq-tui: gone on redis://")
    assert ": no such queue in namespace rsmq or lists queue:*; rsmq-tui queues list " in nowhere.err


def test_a_queue_that_is_not_there_is_refused_as_elsewhere(command: Command, orders: Rsmq) -> None:
    audit = command("audit", "--queue", "nope")

    assert (audit.status, audit.out) == (2, b"")
    assert audit.err == command("messages", "list", "nope").err


def test_the_audit_takes_references(command: Command, trouble: Rsmq, client: Redis) -> None:
    client.lpush("queue:mail:processing", "a")
    client.lpush("orders:processing", "a")
    client.sadd("jobs:QUEUES", "orders")

    def places(*arguments: str) -> set[tuple[str, str]]:
        return {(line["ns"], line["queue"]) for line in command("audit", *arguments).lines}

    assert places("--queue", "list:queue:mail") == {("(lists)", "queue:mail")}
    assert places("--queue", "list:queue:mail", "--lists", "other:*") == {("(lists)", "queue:mail")}
    assert places("--queue", "list:orders") == {("(lists)", "orders")}
    assert places("--queue", "rsmq:orders") == {("rsmq", "orders")}
    assert places("--queue", "rsmq:orders", "--lists", "*") == {("rsmq", "orders")}
    assert places("--queue", "rsmq:jobs/orders") == {("jobs", "orders")}
    # A name alone is not looked for where only another queue's reference leads to.
    both = places("--queue", "rsmq:jobs/orders", "--queue", "rust", "--queue", "list:queue:mail")
    assert both == {("jobs", "orders"), ("rsmq", "rust"), ("(lists)", "queue:mail")}
    assert places("--queue", "rsmq:jobs/orders", "--queue", "orders") == {("jobs", "orders"), ("rsmq", "orders")}
    nowhere = command("audit", "--queue", "list:gone", "--queue", "orders")
    assert (nowhere.status, nowhere.out) == (2, b"")
    assert nowhere.err.startswith("rsmq-tui: list:gone on redis://")
    assert ": there is no list with that key: " in nowhere.err
    assert command("audit", "--queue", "list:").status == command("audit", "--queue", "rsmq:").status == 2


def test_a_fix_leaves_lists_as_they_are(command: Command, orders: Rsmq, client: Redis) -> None:
    client.lpush("queue:mail:processing", "a")
    done = command("audit", "--lists", "queue:*", "--fix", "--yes")

    assert done.status == 1
    assert client.lrange("queue:mail:processing", 0, -1) == [b"a"]


def test_it_can_be_bounded(command: Command, client: Redis) -> None:
    client.sadd("rsmq:QUEUES", *(f"ghost-{number}" for number in range(20)))
    done = command("audit", "--limit", "3")
    assert (done.status, len(done.lines)) == (1, 3)
    assert "stopped after 3 queues, as requested" in done.err
    assert "3 findings in 3 queues" in done.err
    assert command("audit", "--for", "1ms").status in (1, 2)
    assert command("audit", "--for", "soon").status == 2


def test_how_far_it_is_is_said_where_stderr_is_no_terminal(
    command: Command, trouble: Rsmq, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rsmq_tui.cli.commands.audit._SAID_EVERY_S", 0.000_001)
    assert "1 of 4 queues, 0 messages and fields checked" in command("audit").err
