"""`rsmq-tui doctor`: where settings came from, what is wrong, what to do, exit statuses, and never a secret."""

from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.listserver import ListServer
from rsmq_tui.protocol import Rsmq
from tests.cli.conftest import Command, Done
from tests.cli.running import check_ctrl_c
from tests.protocol.responder import Responder

SECRET = "Tr0ub4dor"


@pytest.fixture(autouse=True)
def config(state: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the configuration file of the test would be."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(state))
    monkeypatch.delenv("RSMQ_TUI_CONFIG", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    (state / "rsmq-tui").mkdir()
    return state / "rsmq-tui" / "config.toml"


def findings(done: Done) -> dict[str, dict[str, Any]]:
    """The findings of `--json` by name."""
    (line,) = done.lines
    assert line["works"] is (done.status == 0)
    return {found["name"]: found for found in line["findings"]}


def test_a_server_that_can_be_watched(command: Command, orders: Rsmq, redis_url: str) -> None:
    done = command("doctor")
    assert (done.status, done.err) == (0, "")
    lines = done.text.splitlines()
    assert lines[0] == "configuration"
    assert f"{redis_url}, namespace rsmq" in lines
    assert {"terminal", "program"} <= set(lines)
    assert lines[-1] == "The dashboard will work, with 2 warnings."
    # Whatever is wrong is followed by what to do.
    for number, line in enumerate(lines):
        if line.startswith(("  warn  ", "  fail  ")):
            assert lines[number + 1].startswith("        -> ")


def test_json(command: Command, orders: Rsmq) -> None:
    done = command("doctor", "--json")
    (line,) = done.lines
    assert (line["schema"], line["works"]) == (1, True)
    assert {frozenset(found) for found in line["findings"]} == {frozenset({"section", "name", "level", "text", "hint"})}
    assert {found["level"] for found in line["findings"]} <= {"ok", "warn"}
    assert {"configuration.file", "connection.tcp", "terminal.kind", "program.versions"} <= findings(done).keys()


def test_a_server_that_is_not_there(anywhere: Command) -> None:
    done = anywhere("-r", f"redis://bob:{SECRET}@127.0.0.1:1/3", "doctor")
    assert (done.status, done.err) == (1, "")
    assert "  fail  no connection: connection refused (127.0.0.1 port 1)" in done.text
    assert done.text.splitlines()[-1].startswith("The dashboard will not work: 1 failure, ")
    # What does not depend on it is looked at all the same.
    assert "terminal" in done.text.splitlines()


@pytest.mark.parametrize("json", [[], ["--json"]])
@pytest.mark.parametrize(
    "url",
    [f"redis://bob:{SECRET}@127.0.0.1:1", f"redis://:{SECRET}@no-such-host.invalid", f"http://bob:{SECRET}@h",
     f"redis://bob:{SECRET}@host:{SECRET}", f"redis://:{SECRET}#x@host", f"unix://bob:{SECRET}@/no/such",
     f"redis://127.0.0.1:1?password={SECRET}", f"redis://h?no_such={SECRET}"],
)  # fmt: skip
def test_a_password_in_the_url_is_never_told(anywhere: Command, url: str, json: list[str]) -> None:
    done = anywhere("-r", url, "doctor", *json)
    assert done.status == 1
    assert SECRET not in done.text + done.err


@pytest.mark.parametrize(
    "line",
    [f"-ERR unknown command 'AUTH', with args beginning with: 'ann' '{SECRET}'", "-WRONGPASS invalid", "+OK", ""],
)
def test_nor_one_that_a_server_repeats(anywhere: Command, line: str) -> None:
    with Responder(line.encode()) as responder:
        done = anywhere("-r", responder.url.replace("://", f"://ann:{SECRET}@"), "doctor", "--timeout", "1")
    assert done.status == 1
    assert SECRET not in done.text


def test_nor_one_from_the_environment_or_the_configuration(
    anywhere: Command, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with EmbeddedServer(extra=("--requirepass", SECRET)) as server:
        url = server.url.replace("://", f"://:{SECRET}@")
        monkeypatch.setenv("REDIS_URL", url)
        done = anywhere("doctor")
        assert (done.status, SECRET in done.text) == (0, False)
        assert "with a password: environment REDIS_URL" in done.text
        monkeypatch.delenv("REDIS_URL")
        config.write_text(f'default = "prod"\n[profiles.prod]\nurl = "{server.url}"\npassword = "{SECRET}"\n')
        config.chmod(0o600)
        done = anywhere("doctor")
        assert (done.status, SECRET in done.text) == (0, False), done.text
        config.write_text(f'[profiles.prod]\nurl = "{server.url}"\npasswort = "{SECRET}"\n')
        done = anywhere("doctor")
        assert (done.status, SECRET in done.text) == (1, False)


def test_where_settings_came_from(
    anywhere: Command, redis_url: str, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = findings(anywhere("doctor", "--json", "-r", "redis://127.0.0.1:1", "--ns", "jobs", "--read-only"))
    assert printed["configuration.server"]["text"] == "redis://127.0.0.1:1/0, without a password: option -r/--redis-url"
    assert printed["configuration.namespace"]["text"] == "namespace jobs: option --ns"
    assert printed["configuration.read_only"]["text"] == "read-only: option --read-only"
    assert printed["configuration.interval"]["text"] == "polls every 1 s: the default"
    assert printed["configuration.file"]["text"] == f"no configuration file ({config} would be read)"
    monkeypatch.setenv("REDIS_URL", redis_url)
    monkeypatch.setenv("RSMQ_NS", "mail")
    monkeypatch.setenv("RSMQ_TUI_READ_ONLY", "1")
    printed = findings(anywhere("doctor", "--json"))
    assert printed["configuration.server"]["text"] == f"{redis_url}, without a password: environment REDIS_URL"
    assert printed["configuration.namespace"]["text"] == "namespace mail: environment RSMQ_NS"
    assert printed["configuration.read_only"]["text"] == "read-only: environment RSMQ_TUI_READ_ONLY"


def test_what_a_profile_says(anywhere: Command, redis_url: str, config: Path, orders: Rsmq) -> None:
    config.write_text(
        f'default = "prod"\n[profiles.prod]\nurl = "{redis_url}"\nnamespace = "rsmq"\nread_only = true\ninterval = 5\n'
        '[profiles.gone]\nurl = "redis://127.0.0.1:1"\n'
    )
    config.chmod(0o600)
    printed = findings(anywhere("doctor", "--json"))
    assert printed["configuration.file"]["text"] == f"{config}; profiles: prod, gone"
    assert "profile prod, the configuration file's default" in printed["configuration.server"]["text"]
    assert printed["configuration.namespace"]["text"] == "namespace rsmq: the configuration file"
    assert printed["configuration.read_only"]["text"] == "read-only: the configuration file"
    assert printed["configuration.interval"]["text"] == "polls every 5 s: the configuration file"
    assert printed["permissions.change"]["text"] == "nothing will be changed: read-only"
    both = anywhere("doctor", "--profile", "prod,gone")
    assert both.status == 1
    assert f"prod: {redis_url}, namespace rsmq" in both.text.splitlines()
    assert "gone: redis://127.0.0.1:1/0, namespace rsmq" in both.text.splitlines()


def test_a_configuration_that_is_wrong_is_said_with_its_line(anywhere: Command, config: Path) -> None:
    config.write_text("[profiles.prod]\nurl = 5\n")
    done = anywhere("doctor", "--json")
    assert done.status == 1
    printed = findings(done)
    assert f"{config}:2" in printed["configuration.file"]["text"]
    assert "connection.tcp" not in printed


def test_a_viewer_is_told_what_to_grant(anywhere: Command, redis_url: str, client: Redis) -> None:
    client.acl_setuser(
        "ann", enabled=True, passwords=[f"+{SECRET}"], keys=["rsmq:*"], commands=["+@all", "-zscan", "-hset"]
    )
    done = anywhere("-r", redis_url.replace("://", f"://ann:{SECRET}@"), "doctor")
    assert done.status == 0
    assert "-> ACL SETUSER ann ~rsmq:* +zscan" in done.text
    assert "-> start with --read-only, or ACL SETUSER ann ~rsmq:* +hset" in done.text
    assert SECRET not in done.text


def test_hostile_names_print_harmlessly(command: Command, client: Redis) -> None:
    Rsmq(client, ns="\x1b[2J\x07").create_queue("x")
    done = command("doctor")
    assert all(line.isprintable() for line in done.text.splitlines())


@pytest.mark.parametrize("arguments", [["--timeout", "0"], ["--timeout", "x"], ["--no-such-option"], ["extra"]])
def test_usage_errors(anywhere: Command, arguments: list[str]) -> None:
    assert anywhere("doctor", *arguments).status == 2


def test_ctrl_c_ends_it(list_server: ListServer, state: Path) -> None:
    check_ctrl_c(list_server, "doctor", "--timeout", "60", env={"HOME": str(state)})


def test_lists_have_a_section_of_their_own(command: Command, orders: Rsmq, client: Redis, redis_url: str) -> None:
    client.lpush("queue:mail", "x")
    done = command("doctor", "--lists", "queue:*", "--lists", "jobs")
    lines = done.text.splitlines()

    assert done.status == 0
    assert lines[lines.index(f"{redis_url}, lists queue:*, jobs") + 1] == "  ok    2 lists found for queue:*, jobs"
