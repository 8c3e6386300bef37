"""What commands that change something refuse: one sentence, what to do next, exit status 2, and nothing was changed."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.protocol import Address, Rsmq
from tests.cli.conftest import Command, Done
from tests.cli.running import python, run

pytestmark = pytest.mark.slow

Keys = Callable[[], Mapping[bytes, Any]]
SECRET = "hunter2"
EVERY_CHANGE = [
    *(["messages", verb, "orders", "--all"] for verb in ("delete", "release", "redrive")),
    ["messages", "hide", "orders", "--all", "--seconds", "5"],
    *(["messages", verb, "orders", "--all", "--to", "spare", "--create"] for verb in ("move", "copy")),
    ["messages", "send", "orders", "x"],
    *(["queues", verb, "orders"] for verb in ("delete", "purge")),
    ["queues", "create", "made"],
    ["queues", "set", "orders", "--vt", "1"],
    ["undo"],
    ["journal", "restore", "1"],
]
EVERY_READ = [["messages", "list", "orders"], ["messages", "get", "orders", "x"], ["messages", "export", "orders"],
              ["messages", "list", "orders", "--group-by", "shape"], ["queues", "list"]]  # fmt: skip


def _sentence(done: Done) -> str:
    assert (done.status, done.out) == (2, b"")
    (line,) = done.err.splitlines()
    assert line.startswith("rsmq-tui: ")
    return line


@pytest.mark.parametrize("arguments", EVERY_CHANGE, ids=" ".join)
@pytest.mark.parametrize("way", ["before", "behind", "environment"])
def test_read_only_refuses(
    way: str, arguments: list[str], command: Command, orders: Rsmq, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = keys()
    for yes in ([], ["--yes"]):
        if way == "environment":
            monkeypatch.setenv("RSMQ_TUI_READ_ONLY", "1")
            done = command(*arguments, *yes)
        else:
            given = ["--read-only", *arguments, *yes] if way == "before" else [*arguments, *yes, "--read-only"]
            done = command(*given)
        assert _sentence(done).endswith(": read-only: nothing can be changed")
    assert keys() == before


@pytest.mark.parametrize("arguments", EVERY_READ, ids=" ".join)
def test_read_only_reads(arguments: list[str], command: Command, orders: Rsmq) -> None:
    assert command("--read-only", *arguments).status in (0, 1)


def test_read_only_that_is_off(command: Command, orders: Rsmq, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RSMQ_TUI_READ_ONLY", "0")
    assert command("messages", "send", "orders", "x", "--yes").status == 0


@pytest.mark.parametrize(
    "arguments", [arguments for arguments in EVERY_CHANGE if "restore" not in arguments], ids=" ".join
)
@pytest.mark.parametrize("url", [f"redis://bob:{SECRET}@127.0.0.1:1/3", f"unix://bob:{SECRET}@/no/such/socket"])
def test_a_server_that_is_away(url: str, arguments: list[str], anywhere: Command) -> None:
    line = _sentence(anywhere("-r", url, *arguments, "--yes"))
    assert SECRET not in line
    assert "/no/such/socket" in line if url.startswith("unix") else "redis://127.0.0.1:1/3" in line


@pytest.mark.parametrize("arguments", EVERY_READ, ids=" ".join)
def test_a_server_that_is_away_cannot_be_read(arguments: list[str], anywhere: Command) -> None:
    line = _sentence(anywhere("-r", f"redis://bob:{SECRET}@127.0.0.1:1/3", *arguments))
    assert "redis://127.0.0.1:1/3: connection refused" in line
    assert SECRET not in line


@pytest.mark.parametrize("arguments", [*EVERY_CHANGE[:1], *EVERY_READ], ids=" ".join)
@pytest.mark.parametrize("url", [f"http://bob:{SECRET}@host", f"redis://bob:{SECRET}@host:{SECRET}", "unix://"])
def test_a_url_that_cannot_be_one(url: str, arguments: list[str], anywhere: Command) -> None:
    line = _sentence(anywhere("-r", url, *arguments))
    assert "not a Redis URL" in line
    assert SECRET not in line


def test_a_password_that_is_wanted(anywhere: Command) -> None:
    with EmbeddedServer(extra=("--requirepass", SECRET)) as server:
        for arguments in (EVERY_CHANGE[0], *EVERY_READ):
            assert "the server requires a password" in _sentence(anywhere("-r", server.url, *arguments))


@pytest.mark.parametrize("arguments", [*EVERY_READ[:4], *EVERY_CHANGE[:9]], ids=" ".join)
def test_a_queue_that_is_not_there(arguments: list[str], command: Command, redis_url: str) -> None:
    words = "no such queue in namespace rsmq; rsmq-tui queues list shows the existing queues"
    assert _sentence(command(*arguments)).endswith(f"orders on {Address(redis_url).label}: {words}")


@pytest.mark.parametrize("arguments", EVERY_READ[:4], ids=" ".join)
def test_keys_of_another_type(arguments: list[str], command: Command, client: Any) -> None:
    client.set("rsmq:orders", "no sorted set")
    assert "another type" in _sentence(command(*arguments))


@pytest.mark.parametrize("verb", [["list"], ["export"], ["delete"], ["delete", "--yes"]], ids=" ".join)
def test_a_bad_filter_says_where(verb: list[str], command: Command, orders: Rsmq) -> None:
    done = command("messages", verb[0], "orders", *verb[1:], "--filter", "状態 age>10x rc>=5")
    assert (done.status, done.out) == (2, b"")
    sentence, text, caret = done.err.splitlines()
    assert "a duration has a unit" in sentence
    assert text == "  状態 age>10x rc>=5"
    # Two characters of the text are as wide as two each.
    assert caret == "           ^^^"


def test_a_bad_filter_is_harmless_and_short(command: Command, orders: Rsmq) -> None:
    done = command("messages", "list", "orders", "--filter", "\x1b[2J " * 300 + "sate:x" + " more" * 300)
    sentence, text, caret = done.err.splitlines()
    assert 'unknown field "sate". Did you mean state?' in sentence
    assert text.isprintable()
    assert len(text) < 130
    assert text[caret.index("^") : caret.rindex("^") + 1] == "sate"


@pytest.mark.parametrize(
    "scope",
    [[], ["--filter", "x", "--all"], ["--id", "x", "--all"], ["--filter", ""], ["--filter", "  "], ["--id"],
     ["--id", "x", "--limit", "1"], ["--all", "--limit", "0"], ["--al"], ["--all", "--yes", "--dry-run"]],
    ids=" ".join,
)  # fmt: skip
def test_nobody_purges_by_forgetting_a_filter(scope: list[str], command: Command, orders: Rsmq, keys: Keys) -> None:
    before = keys()
    done = command("messages", "delete", "orders", *scope, "--yes")
    assert (done.status, done.out) == (2, b"")
    assert keys() == before


@pytest.mark.parametrize(
    "arguments",
    [["move", "orders", "--all", "--to", "nope"], ["move", "orders", "--all", "--to", "bad name", "--create"],
     ["move", "orders", "--all", "--to", "orders"], ["copy", "orders", "--all", "--to", "QUEUES", "--create"],
     ["redrive", "orders", "--all", "--to", "nope"], ["hide", "orders", "--all", "--seconds", "-1"],
     ["hide", "orders", "--all"], ["move", "orders", "--all"], ["send", "orders", "x", "--delay", "soon"],
     ["import", "orders", "/no/such/file"], ["import", "orders", "/dev/null"]],
    ids=" ".join,
)  # fmt: skip
def test_what_cannot_be_is_refused(arguments: list[str], command: Command, orders: Rsmq, keys: Keys) -> None:
    before = keys()
    done = command("messages", *arguments, "--yes")
    assert (done.status, done.out) == (2, b"")
    assert keys() == before


def test_a_target_that_cannot_be_is_named(command: Command, orders: Rsmq) -> None:
    refused = _sentence(command("messages", "move", "orders", "--all", "--to", "bad name", "--create"))
    assert ": the target bad name: Invalid qname format: a name has 1 to 160 characters" in refused


def test_the_journals_limits(command: Command, orders: Rsmq, monkeypatch: pytest.MonkeyPatch) -> None:
    orders.send_messages("orders", ["x" * 900_000] * 2)
    monkeypatch.setenv("RSMQ_TUI_JOURNAL_MB", "1")
    assert "raise RSMQ_TUI_JOURNAL_MB" in _sentence(command("messages", "delete", "orders", "--all", "--yes"))
    monkeypatch.setenv("RSMQ_TUI_JOURNAL_MB", "3")
    monkeypatch.setenv("RSMQ_TUI_JOURNAL_DAYS", "2")
    assert "for 2 days" in command("messages", "delete", "orders", "--all", terminal=True).text
    for wrong in ("many", "0", "-1", "1.5", "\x1b[2J"):
        monkeypatch.setenv("RSMQ_TUI_JOURNAL_DAYS", wrong)
        line = _sentence(command("messages", "delete", "orders", "--all", "--yes"))
        assert "RSMQ_TUI_JOURNAL_DAYS is a whole number of days" in line
        assert line.isprintable()


def test_a_journal_that_cannot_be_written(command: Command, orders: Rsmq, state: Path, keys: Keys) -> None:
    before = keys()
    (state / "rsmq-tui").write_text("no folder")
    for arguments in (["messages", "delete", "orders", "--all", "--yes"], ["undo", "--yes"]):
        assert "the journal" in _sentence(command(*arguments))
    assert keys() == before


@pytest.mark.parametrize("arguments", [["messages"], ["queues"], ["messages", "purge", "x"], ["queues", "list", "x"],
                                       ["undo", "1", "2"], ["messages", "send", "q", "x", "--sooner"]],
                         ids=" ".join)  # fmt: skip
def test_usage_errors(arguments: list[str], anywhere: Command) -> None:
    done = anywhere(*arguments)
    assert (done.status, done.out) == (2, b"")
    assert f"{' '.join(arguments[:1])} " in done.err.splitlines()[0]


@pytest.mark.parametrize("arguments", [["messages"], ["messages", "delete"], ["queues", "set"], ["undo"],
                                       ["journal", "restore"]],
                         ids=" ".join)  # fmt: skip
def test_help_names_the_exit_statuses(arguments: list[str], anywhere: Command) -> None:
    done = anywhere(*arguments, "--help")
    assert done.status == 0
    printed = " ".join(done.text.split())
    for words in ("0 done", "1 some", "2 refused", "3 only a preview", "130 interrupted", "--read-only"):
        assert words in printed
    if len(arguments) == 2:
        assert f"Examples:\n  rsmq-tui {' '.join(arguments)} " in done.text


def test_version_loads_nothing_of_it() -> None:
    script = "import sys; from rsmq_tui.cli.main import main\nmain(['--version'])\n"
    unwanted = ("rsmq_tui.triage", "redis", "sqlite3", "click")
    script += f"assert not [name for name in sys.modules if name.startswith({unwanted!r})]"
    assert python(script).returncode == 0
    assert run("--version").returncode == 0


def test_a_user_who_may_only_read_is_told_that_it_is_changing_that_he_may_not(
    orders: Rsmq, client: Redis, redis_url: str, state: Path
) -> None:
    client.execute_command(
        "ACL", "SETUSER", "viewer", "on", ">x", "~*", "+@read", "+@connection", "+time", "+eval", "+evalsha"
    )
    url = redis_url.replace("://", "://viewer:x@")
    done = run("-r", url, "messages", "send", "orders", "x", "--yes", env={"XDG_STATE_HOME": str(state)})
    client.execute_command("ACL", "DELUSER", "viewer")
    assert done.returncode == 1
    assert "this user may not change the queues; grant it" in done.stdout + done.stderr
    assert "may not read" not in done.stdout + done.stderr
    assert run("journal", "list", "--json", env={"XDG_STATE_HOME": str(state)}).stdout == ""
