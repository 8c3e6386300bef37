"""`rsmq-tui check`: a plugin's first line, a line for each problem, performance data, exit statuses, JSON."""

import re
from pathlib import Path

import pytest
from redis import Redis

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.listserver import ListServer
from rsmq_tui.protocol import Rsmq
from tests.cli.conftest import Command
from tests.cli.running import check_ctrl_c

SECRET = "hunter2"
# 'label'=value[UOM];[warn];[crit];[min], each but the first may be empty.
DATUM = re.compile(r"'[^'=|]+'=-?[0-9.]+(?:s)?;[0-9.]*;[0-9.]*;[0-9.]*")


def first_line(text: str) -> tuple[str, dict[str, str]]:
    """What the first line says, and its performance data by label."""
    line = text.splitlines()[0]
    assert line.count("|") <= 1
    said, _, data = line.partition(" | ")
    parts = re.findall(r"'[^']*'=\S+", data)
    assert " ".join(parts) == data
    assert all(DATUM.fullmatch(part) for part in parts), parts
    return said, dict(part[1:].split("'=", 1) for part in parts)


def test_ok(command: Command, orders: Rsmq) -> None:
    done = command("check")
    assert (done.status, done.err) == (0, "")
    said, data = first_line(done.text)
    assert said == "RSMQ OK - nothing wrong in 3 queues (without limits: see --stalled and --max-age)"
    assert (data["queues"], data["depth"], data["ready"]) == ("3;;;0", "8;;;0", "5;;;0")
    assert len(done.text.splitlines()) == 1


def test_one_line_for_each_problem_the_worst_first(command: Command, orders: Rsmq) -> None:
    done = command("check", "--max-depth", "1:4", "--queue", "orders*", "--queue", "nope")
    assert done.status == 2
    said, data = first_line(done.text)
    assert (
        said
        == "RSMQ CRITICAL - 1 critical, 1 warning in 2 queues, 1 other problem: orders: 6 messages stored, more than 4"
    )
    assert data["orders.depth"] == "6;1;4;0"
    assert data["orders-dlq.depth"] == "2;1;4;0"
    assert "spare.depth" not in data
    assert done.text.splitlines()[1:] == [
        "CRITICAL: orders: 6 messages stored, more than 4",
        "UNKNOWN: nope: no such queue in namespace rsmq",
        "WARNING: orders-dlq: 2 messages stored, more than 1",
    ]


@pytest.mark.parametrize(
    ("arguments", "status"),
    [(["--max-depth", "6"], 0), (["--max-depth", "5:"], 1), (["--max-depth", "5:6"], 1), (["--max-depth", ":5"], 2),
     (["--max-depth", "0"], 2), (["--max-age", "1h"], 0), (["--max-age", "0s:1h"], 1), (["--max-rc", "2"], 0),
     (["--max-rc", "1"], 2), (["--max-rc", "1:"], 1), (["--stalled", "1h"], 0), (["--queue", "nope"], 3),
     (["--queue", "spare", "--max-depth", "1"], 0)],
    ids=str,
)  # fmt: skip
def test_exit_statuses(command: Command, orders: Rsmq, arguments: list[str], status: int) -> None:
    assert command("check", *arguments).status == status


@pytest.mark.parametrize(
    "arguments",
    [["--max-depth"], ["--max-depth", "x"], ["--max-depth", "-1"], ["--max-depth", ":"], ["--max-depth", "5:1"],
     ["--max-age", "10"], ["--max-age", "-5m"], ["--max-age", "soon"], ["--max-rc", "0"], ["--stalled", "1h:1m"],
     ["--timeout", "0"], ["--scan-limit", "0"], ["--no-such-option"], ["orders"], ["--que", "orders"]],
    ids=" ".join,
)  # fmt: skip
def test_a_usage_error_is_unknown_and_not_critical(command: Command, arguments: list[str]) -> None:
    done = command("check", *arguments)
    assert done.status == 3
    assert done.text.startswith("RSMQ UNKNOWN - ")
    assert len(done.text.splitlines()) == 1


@pytest.mark.parametrize(
    ("url", "words"),
    [
        (f"redis://bob:{SECRET}@127.0.0.1:1/3", "redis://127.0.0.1:1/3: connection refused"),
        (f"redis://:{SECRET}@no-such-host.invalid", "the host name is unknown"),
        (f"http://bob:{SECRET}@host", "not a Redis URL"),
    ],
)
def test_a_server_that_cannot_be_read_is_unknown(anywhere: Command, url: str, words: str) -> None:
    done = anywhere("-r", url, "check", "--max-depth", "1")
    assert (done.status, done.err) == (3, "")
    said, data = first_line(done.text)
    assert said.startswith("RSMQ UNKNOWN - ")
    assert words in said
    assert data == {}
    assert SECRET not in done.text


def test_a_wrong_password_is_unknown_and_never_told(anywhere: Command) -> None:
    with EmbeddedServer(extra=("--requirepass", "right")) as server:
        done = anywhere("-r", server.url.replace("://", f"://:{SECRET}@"), "check")
    assert done.status == 3
    assert "the server refused the user name or password" in done.text
    assert SECRET not in done.text


def test_stalled_needs_a_second_check(command: Command, orders: Rsmq, state: Path) -> None:
    first = command("check", "--stalled", "1ms", "--queue", "orders")
    assert first.status == 0
    assert first.text.splitlines()[-1] == "--stalled: this is the first check, with nothing to compare to yet"
    assert [path.suffix for path in sorted((state / "rsmq-tui" / "check").iterdir())] == [".json", ".lock"]
    second = command("check", "--stalled", "1ms", "--queue", "orders")
    assert second.status == 2
    assert re.search(r"^CRITICAL: orders: 3 messages ready and none received for ", second.text, re.MULTILINE)
    _, data = first_line(second.text)
    assert re.fullmatch(r"[0-9.]+s;;0\.001;0", data["orders.idle"])


def test_performance_data_of_rc_and_age(command: Command, orders: Rsmq) -> None:
    _, data = first_line(command("check", "--max-rc", "1", "--max-age", "90s:1h").text)
    assert data["orders.poison"] == "2;;;0"
    assert data["spare.age"] == "0.000s;90;3600;0"


def test_json(command: Command, orders: Rsmq, redis_url: str) -> None:
    (line,) = command("check", "--json", "--max-depth", "5", "--max-rc", "9").lines
    assert (line["schema"], line["status"], line["exit_status"]) == (1, "critical", 2)
    (server,) = line["servers"]
    assert {key: server[key] for key in ("profile", "server", "ns", "status", "notes")} == {
        "profile": None,
        "server": redis_url,
        "ns": "rsmq",
        "status": "critical",
        "notes": [],
    }
    assert [(queue["name"], queue["depth"], queue["poison"]) for queue in server["queues"]] == [
        ("orders", 6, 0),
        ("orders-dlq", 2, 0),
        ("spare", 0, None),
    ]
    (problem,) = server["problems"]
    assert problem == {
        "status": "critical",
        "kind": "depth",
        "queue": "orders",
        "value": 6,
        "limit": 5,
        "text": "6 messages stored, more than 5",
    }


def test_hostile_names_can_neither_end_the_text_nor_reach_the_terminal(command: Command, client: Redis) -> None:
    for name in (b"a|b 'c'=9", b"\x1b[2J\n\xff", b"=|"):
        client.sadd("rsmq:QUEUES", name)
    done = command("check")
    assert done.status == 2
    first_line(done.text)
    assert len(done.text.splitlines()) == 4
    assert done.text.count("|") == 1
    assert all(line.isprintable() for line in done.text.splitlines())


def test_many_queues_are_summed_only(command: Command, client: Redis) -> None:
    rsmq = Rsmq(client)
    for number in range(51):
        rsmq.create_queue(f"q{number}")
    done = command("check")
    assert set(first_line(done.text)[1]) == {"queues", "depth", "ready"}
    assert "left out" in done.text.splitlines()[-1]
    assert len(first_line(command("check", "--queue", "q1*").text)[1]) > 3


def test_the_worst_of_many_problems_come_first_and_the_others_are_counted(command: Command, client: Redis) -> None:
    # No queue of these has a hash.
    client.sadd("rsmq:QUEUES", *(f"q{number}" for number in range(53)))
    Rsmq(client).create_queue("deep")
    Rsmq(client).send_message("deep", "x")
    done = command("check", "--max-depth", "0:")
    _, *lines = done.text.splitlines()
    assert [line.partition(":")[0] for line in lines[:50]] == ["CRITICAL"] * 50
    assert lines[50] == "and 4 more problems; --json has all"
    (shown,) = command("check", "--max-depth", "0:", "--json").lines
    assert len(shown["servers"][0]["problems"]) == 54


def test_names_that_are_not_ascii_keep_their_own_figures(command: Command, client: Redis) -> None:
    client.sadd("rsmq:QUEUES", "中国", "日本", "🔥", "\u1f52" + "5")
    labels = set(first_line(command("check").text)[1])
    assert {name for name in labels if "\\u" in name} >= {"\\u4e2d\\u56fd.depth", "\\u65e5\\u672c.depth"}
    assert {"\\U0001f525.depth", "\\u1f525.depth"} <= labels


def test_namespaces(command: Command, client: Redis) -> None:
    Rsmq(client, ns="jobs").create_queue("of-jobs")
    assert "nothing wrong in 1 queue " in command("check", "--ns", "jobs").text
    empty = command("check")
    assert empty.status == 3
    assert "no queues in namespace rsmq" in empty.text


def test_a_named_queue_is_in_one_of_the_namespaces(
    anywhere: Command, client: Redis, redis_url: str, tmp_path: Path
) -> None:
    Rsmq(client).create_queue("orders")
    Rsmq(client, ns="jobs").create_queue("import")
    config = tmp_path / "config.toml"
    config.write_text(f'[profiles.here]\nurl = "{redis_url}"\nnamespaces = ["rsmq", "jobs"]\n')
    checked = "--profile", "here", "--config", str(config), "check"

    for queue in ("orders", "import", "imp*"):
        assert "nothing wrong in 1 queue " in anywhere(*checked, "--queue", queue).text
    done = anywhere(*checked, "--queue", "orders", "--queue", "nosuch")
    assert done.status == 3
    assert done.text.splitlines()[1:] == [
        "UNKNOWN: here/rsmq nosuch: no such queue in namespace rsmq",
        "UNKNOWN: here/jobs nosuch: no such queue in namespace jobs",
    ]
    # Without --queue, each of them has to hold queues.
    Rsmq(client, ns="jobs").delete_queue("import")
    assert "UNKNOWN: here/jobs " in anywhere(*checked).text


def test_ctrl_c_ends_it(list_server: ListServer, state: Path) -> None:
    assert check_ctrl_c(list_server, "check", env={"HOME": str(state)}) == ""


def test_help_explains_severities_and_the_clock(command: Command) -> None:
    printed = " ".join(command("check", "--help").text.split())
    for words in ("WARN:CRIT", "only starts the clock", "0 OK 1 WARNING 2 CRITICAL 3 UNKNOWN"):
        assert words in printed


def test_several_servers_are_checked_at_once_and_the_worst_counts(
    anywhere: Command, orders: Rsmq, redis_url: str, tmp_path: Path
) -> None:
    config = tmp_path / "config.toml"
    config.write_text(
        f'[profiles.gone]\nurl = "redis://127.0.0.1:1"\n[profiles.here]\nurl = "{redis_url}"\n'
        f'[profiles.two]\nurl = "{redis_url}"\nnamespaces = ["rsmq", "jobs"]\n'
    )
    checked = "--config", str(config), "check", "--max-depth", "5:9"
    done = anywhere("--profile", "here", *checked)
    assert done.status == 1
    done = anywhere("--profile", "gone,here", *checked)
    # A server that cannot be read may hide worse than a warning.
    assert done.status == 3
    said, data = first_line(done.text)
    assert said.startswith(
        "RSMQ UNKNOWN - 1 warning, 2 ok in 3 queues, 1 other problem: gone/rsmq redis://127.0.0.1:1/0: "
    )
    assert data["here/rsmq/orders.depth"] == "6;5;9;0"
    assert "WARNING: here/rsmq orders: 6 messages stored, more than 5" in done.text.splitlines()
    done = anywhere("--profile", "two", *checked)
    assert [line.split(":")[0] for line in done.text.splitlines()[1:]] == ["UNKNOWN", "WARNING"]
    assert "two/jobs" in done.text
    (line,) = anywhere("--profile", "gone,two", *checked, "--json").lines
    assert [(server["profile"], server["ns"], server["status"]) for server in line["servers"]] == [
        ("gone", "rsmq", "unknown"),
        ("two", "rsmq", "warning"),
        ("two", "jobs", "unknown"),
    ]


@pytest.mark.parametrize("ignored", ["*-dlq", "rsmq:orders-dlq"])
def test_expected_trouble_is_no_problem_unless_it_is_asked_for(
    anywhere: Command, orders: Rsmq, redis_url: str, tmp_path: Path, ignored: str
) -> None:
    config = tmp_path / "config.toml"
    config.write_text(f'[profiles.here]\nurl = "{redis_url}"\nignore = ["{ignored}"]\n')
    checked = "--profile", "here", "--config", str(config), "check", "--max-depth", "1:7"

    done = anywhere(*checked)

    assert (done.status, done.err) == (1, "")
    assert (
        first_line(done.text)[0] == "RSMQ WARNING - 1 warning, 2 ok in 3 queues: orders: 6 messages stored, more than 1"
    )
    assert done.text.splitlines()[1:] == [
        "WARNING: orders: 6 messages stored, more than 1",
        "expected, as `ignore` names them: problems of orders-dlq",
    ]
    (line,) = anywhere(*checked, "--json").lines
    assert [problem["queue"] for problem in line["servers"][0]["problems"]] == ["orders"]
    assert len(line["servers"][0]["queues"]) == 3
    done = anywhere(*checked, "--queue", "*-dlq")
    assert first_line(done.text)[0] == "RSMQ WARNING - 1 warning in 1 queue: orders-dlq: 2 messages stored, more than 1"


def test_thresholds_of_a_profile_count(anywhere: Command, orders: Rsmq, redis_url: str, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text(f'[profiles.here]\nurl = "{redis_url}"\nthresholds = {{ poison_rc = 1 }}\n')
    done = anywhere("--profile", "here", "--config", str(config), "check")
    assert done.status == 1
    assert "WARNING: orders: 2 messages received 1 time or more (up to 1)" in done.text.splitlines()
    assert "thresholds that differ from the defaults: poison_rc 1" in done.text.splitlines()


def test_lists_are_checked_beside_the_queues_of_rsmq(command: Command, orders: Rsmq, client: Redis) -> None:
    client.lpush("queue:mail", "a", "b")
    client.lpush("queue:mail:processing", "c")
    client.zadd("queue:mail:leases", {"t" * 22 + ":c": 1})
    done = command("check", "--lists", "queue:*", "--max-expired", "0:5", "--max-depth", ":2", "--queue", "queue:mail")

    assert done.status == 2
    said, data = first_line(done.text)
    assert said == "RSMQ CRITICAL - 1 critical in 1 queue: (lists) queue:mail: 3 items stored, more than 2"
    assert (data["(lists).queues"], data["(lists)/queue:mail.depth"]) == ("1;;;0", "3;;2;0")
    assert data["(lists)/queue:mail.expired"] == "1;0;5;0"
    # Nobody knows how long its items have waited.
    assert "(lists)/queue:mail.age" not in data
    assert "WARNING: (lists) queue:mail: 1 lease expired, more than 0" in done.text.splitlines()


@pytest.mark.parametrize(
    ("queue", "named"),
    [
        *(("list:queue:mail", "queue:mail"), ("list:queue:*", "queue:mail"), ("queue:mail", "queue:mail")),
        *(("rsmq:orders", "orders"), ("rsmq:rsmq/orders", "orders"), ("rsmq:ord*", "orders")),
    ],
)
def test_a_queue_is_named_as_other_commands_accept_it(command: Command, client: Redis, queue: str, named: str) -> None:
    Rsmq(client).create_queue("orders")
    client.lpush("queue:mail", "a")
    done = command("check", "--lists", "queue:*", "--queue", queue, "--json")
    assert done.status == 0
    assert [found["name"] for place in done.lines[0]["servers"] for found in place["queues"]] == [named]


def test_a_queue_of_another_namespace_is_not_in_this_one(command: Command, client: Redis) -> None:
    Rsmq(client).create_queue("orders")
    assert command("check", "--queue", "rsmq:jobs/orders").status == 3
    assert command("check", "--queue", "list:orders").status == 3


def test_a_server_with_lists_only_is_ok(command: Command, client: Redis) -> None:
    client.lpush("queue:mail", "a")
    done = command("check", "--lists", "queue:mail", "--json")
    (rsmq, lists) = done.lines[0]["servers"]

    assert (done.status, rsmq["status"], lists["status"]) == (0, "ok", "ok")
    (mail,) = lists["queues"]
    assert (lists["ns"], mail["kind"], mail["expired"], mail["oldest_ready_age_ms"]) == ("(lists)", "list", 0, None)


def test_the_summary_counts_each_queue_once(command: Command, client: Redis) -> None:
    """By its worst problem, so that the counts add up to the number of queues."""
    rsmq = Rsmq(client)
    for name in ("bad", "late", "fine", "broken"):
        rsmq.create_queue(name)
    rsmq.send_messages("bad", ["x"] * 3)
    rsmq.receive_messages("bad", 3, vt=0)
    rsmq.send_messages("late", ["x"] * 2)
    client.delete("rsmq:broken:Q")
    client.hset("rsmq:broken:Q", "vt", "no number")

    arguments = ("check", "--max-depth", "1:2", "--max-rc", "1:9")
    said, _ = first_line(command(*arguments).text)
    counts = re.fullmatch(r"RSMQ CRITICAL - (.+) in 4 queues: .*", said)
    assert counts is not None
    assert counts[1] == "2 critical, 1 warning, 1 ok"
    # Of which one has two problems.
    assert sum(line.split(": ")[1] == "bad" for line in command(*arguments).text.splitlines()[1:]) == 2

    said, _ = first_line(command(*arguments, "--queue", "fine", "--queue", "nope").text)
    assert said.startswith("RSMQ UNKNOWN - 1 ok in 1 queue, 1 other problem: nope: no such queue")
    said, _ = first_line(command(*arguments, "--queue", "nope").text)
    assert said.startswith("RSMQ UNKNOWN - 1 problem: nope: no such queue")


def test_nothing_at_all_is_unknown(command: Command) -> None:
    done = command("check", "--lists", "queue:*")
    assert done.status == 3
    assert [line.split(":")[0] for line in done.text.splitlines()[1:]] == ["UNKNOWN", "UNKNOWN"]


def test_a_replica_without_its_primary_is_a_warning(anywhere: Command) -> None:
    with EmbeddedServer() as server, Redis.from_url(server.url) as client:
        Rsmq(client).create_queue("orders")
        assert anywhere("-r", server.url, "check").status == 0
        client.replicaof("127.0.0.1", 1)
        done = anywhere("-r", server.url, "check")
        assert done.status == 1
        assert "the replica has lost its primary, so its data is old; " in done.text
        for command in (("snapshot",), ("queues", "list")):
            printed = anywhere("-r", server.url, *command)
            assert (printed.status, "orders" in printed.text) == (0, True)
            assert "the replica has lost its primary, so its data is old; " in printed.err
