"""Profiles on the command line: which server a command finds, and the list of them."""

import json
from pathlib import Path

import pytest
from redis import Redis

from rsmq_tui.cli.servers import profiles_of
from rsmq_tui.profiles import Profile
from rsmq_tui.profiles.config import example
from rsmq_tui.protocol import Rsmq
from tests.cli.conftest import Command
from tests.cli.running import parsed, printed

CONFIG = """
default = "one"
[defaults]
interval = 5
[profiles.one]
port = 7001
namespaces = ["a", "b"]
lists = ["queue:*", "mail"]
[profiles.two]
host = "two"
read_only = true
colour = "red"
password_command = "echo hunter2"
[profiles.three]
url = "redis://bob:hunter2@three"
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration file where it is looked for, and nothing else that decides."""
    for name in ("RSMQ_TUI_CONFIG", "REDIS_URL", "RSMQ_NS", "RSMQ_TUI_READ_ONLY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    path = tmp_path / "rsmq-tui" / "config.toml"
    path.parent.mkdir()
    path.write_text(CONFIG)
    path.chmod(0o600)
    return path


def found(*arguments: str) -> tuple[Profile, ...]:
    """The profiles that a command with these arguments works on."""
    return profiles_of(parsed(*arguments))


def labels(profiles: tuple[Profile, ...]) -> list[tuple[str, str]]:
    return [(profile.name, profile.address.label) for profile in profiles]


ONE, TWO, THREE = ("one", "redis://localhost:7001/0"), ("two", "redis://two:6379/0"), ("three", "redis://three:6379/0")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), [ONE]),
        (("--profile", "two"), [TWO]),
        (("snapshot", "--profile", "two"), [TWO]),
        (("--profile", "two", "snapshot"), [TWO]),
        (("--profile", "two,one"), [TWO, ONE]),
        (("--profile", "two", "--profile", "one, three", "--profile", "two"), [TWO, ONE, THREE]),
        (("-r", "redis://x"), [("", "redis://x:6379/0")]),
    ],
)
def test_which_servers_are_meant(config: Path, arguments: tuple[str, ...], expected: list[tuple[str, str]]) -> None:
    assert labels(found(*arguments)) == expected


def test_the_environment_wins_over_the_default_profile_and_loses_to_a_named_one(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDIS_URL", "redis://env")

    assert labels(found()) == [("", "redis://env:6379/0")]
    assert labels(found("--profile", "two")) == [TWO]


def test_without_a_file_it_is_this_machine(config: Path) -> None:
    config.unlink()

    assert found() == (Profile("", found()[0].address),)
    assert labels(found()) == [("", "redis://localhost:6379/0")]


def test_options_win_over_the_profile(config: Path) -> None:
    (profile,) = found("--profile", "one")
    assert (profile.namespaces, profile.read_only, profile.interval_s) == (("a", "b"), False, 5.0)
    (profile,) = found("--profile", "one", "--ns", "x", "--read-only", "--interval", "2")
    assert (profile.namespaces, profile.read_only, profile.interval_s) == (("x",), True, 2.0)
    (profile,) = found("--profile", "two")
    assert profile.read_only


def test_the_environment_names_a_namespace_only_where_the_file_names_none(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RSMQ_NS", "env")

    assert [profile.ns for profile in found("--profile", "one,two")] == ["a", "env"]
    assert [profile.ns for profile in found("--profile", "one,two", "--ns", "x")] == ["x", "x"]
    assert [profile.ns for profile in found("-r", "redis://x")] == ["env"]


def test_what_the_defaults_say_of_watching_holds_for_a_url_too(config: Path) -> None:
    config.write_text("[defaults]\nread_only = true\nnamespace = 'jobs'\nthresholds.poison_rc = 2\nuser = 'bob'")
    (profile,) = found("-r", "redis://x")

    assert (profile.read_only, profile.ns, profile.thresholds.poison_rc, profile.address.user) == (
        True,
        "jobs",
        2,
        None,
    )


def test_another_file_by_option_or_environment(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("by-option", "by-environment"):
        (tmp_path / name).write_text(f"[profiles.{name}]\n")
    monkeypatch.setenv("RSMQ_TUI_CONFIG", str(tmp_path / "by-environment"))

    assert labels(found("--profile", "by-environment"))[0][0] == "by-environment"
    assert labels(found("--config", str(tmp_path / "by-option"), "--profile", "by-option"))[0][0] == "by-option"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--profile", "tow"), "there is no profile tow: known profiles: one, two, three; did you mean two?"),
        (("--profile", "x\x1b[31m"), "there is no profile x␛[31m: known profiles: one, two, three"),
        (("--profile", "one,"), "--profile takes profile names separated by commas"),
        (("--profile", "one", "-r", "redis://x"), "-r and --profile both name a server: give only one of them"),
        (("--config", "/no/such.toml"), "/no/such.toml cannot be read: No such file or directory"),
        (
            ("--config", "~nosuchuser/c.toml"),
            "the path of the configuration file names a home directory that is not known here: ~nosuchuser",
        ),
    ],
)
def test_what_cannot_be_is_one_sentence(
    config: Path, anywhere: Command, arguments: tuple[str, ...], words: str
) -> None:
    done = anywhere(*arguments, "snapshot")

    assert done.status == 2
    assert done.err.startswith(f"rsmq-tui: {words}")
    assert done.err.count("\n") == 1


def test_a_profile_that_is_not_there_names_the_file_where_there_is_none(config: Path, anywhere: Command) -> None:
    config.unlink()

    done = anywhere("--profile", "x", "snapshot")

    assert done.err == (
        f"rsmq-tui: there is no profile x: {config} defines none; `rsmq-tui profiles example` prints an example\n"
    )


def test_a_mistake_in_the_file_stops_every_command(config: Path, anywhere: Command) -> None:
    config.write_text("[profiles.one]\npasword = 'hunter2'\n")

    for arguments in (("snapshot",), ("-r", "redis://x", "snapshot"), ("profiles",)):
        done = anywhere(*arguments)
        assert (done.status, done.err) == (
            2,
            f"rsmq-tui: {config}:2: unknown key pasword in [profiles.one]; did you mean password?\n",
        )


def test_a_command_on_one_server_wants_one(config: Path, anywhere: Command) -> None:
    done = anywhere("--profile", "one,two", "snapshot")

    assert (done.status, done.err) == (
        2,
        "rsmq-tui: this works on one server at a time: name one of the profiles one, two\n",
    )


def test_the_demo_is_no_profile(config: Path, anywhere: Command) -> None:
    done = anywhere("--profile", "one", "demo")

    assert done.status == 2
    assert "takes no --profile" in done.err


def test_a_real_command_works_by_profile(config: Path, anywhere: Command, client: Redis, redis_url: str) -> None:
    Rsmq(client, "jobs").create_queue("orders")
    config.write_text(f"[profiles.here]\nurl = '{redis_url}'\nnamespace = 'jobs'\n")

    done = anywhere("--profile", "here", "queues", "list")
    assert [line["name"] for line in done.lines] == ["orders"]
    config.write_text(f"[profiles.here]\nurl = '{redis_url}'\nnamespace = 'jobs'\nread_only = true\n")
    done = anywhere("--profile", "here", "queues", "purge", "orders", "--yes")
    assert done.status == 2
    assert "read-only" in done.err


def test_profiles_are_listed_without_a_secret(config: Path, anywhere: Command) -> None:
    done = anywhere("profiles", "--json")

    assert done.status == 0
    assert "hunter2" not in done.text
    one, two, three = done.lines
    assert one == {
        "name": "one",
        "server": "redis://localhost:7001/0",
        "namespaces": ["a", "b"],
        "lists": ["queue:*", "mail"],
        "read_only": False,
        "colour": None,
        "interval_s": 5.0,
        "thresholds": {
            "stalled_ms": 60000,
            "growing_ms": 120000,
            "growing_messages": 20,
            "growing_share": 0.02,
            "aged_ms": 600000,
            "poison_rc": 5,
            "leaking_ms": 60000,
            "clear_ms": 30000,
            "depth_limit": 0,
        },
        "default": True,
    }
    assert (two["read_only"], two["colour"], two["default"]) == (True, "#ff5f5f", False)
    assert three["server"] == "redis://three:6379/0"


def test_profiles_are_listed_for_people(config: Path, anywhere: Command) -> None:
    done = anywhere("profiles", terminal=True)

    assert "hunter2" not in done.text
    lines = [line.split() for line in done.text.splitlines()]
    assert lines == [
        ["PROFILE", "CHANGES", "COLOUR", "SERVER", "NAMESPACES", "LISTS"],
        ["one", "(default)", "yes", "redis://localhost:7001/0", "a,", "b", "queue:*,", "mail"],
        ["two", "read-only", "#ff5f5f", "redis://two:6379/0", "rsmq"],
        ["three", "yes", "redis://three:6379/0", "rsmq"],
    ]
    assert done.err == f"rsmq-tui: defined in {config}\n"


@pytest.mark.parametrize("there", [True, False])
def test_without_profiles_it_says_where_they_belong(config: Path, anywhere: Command, there: bool) -> None:
    config.write_text("")
    if not there:
        config.unlink()

    done = anywhere("profiles")

    assert (done.status, done.out) == (0, b"")
    assert done.err.startswith(f"rsmq-tui: no profiles: name them in {config}; `rsmq-tui profiles example`")


def test_the_example_is_printed_as_it_is(config: Path, anywhere: Command) -> None:
    config.write_text("broken")
    done = anywhere("profiles", "example")

    assert (done.status, done.text) == (0, example())


def test_the_help_says_what_wins(anywhere: Command) -> None:
    printed = " ".join(anywhere("--help").text.split())

    assert "env REDIS_URL; default: the configuration's default profile" in printed
    assert "instead of -r and REDIS_URL" in printed


def test_nobody_waits_for_a_reader_of_files_that_are_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = """
import json, sys
before = set(sys.modules)
from rsmq_tui.cli.parsing import Options
from rsmq_tui.cli.servers import profile_of
options = Options(profile=(), config=None, redis_url=None, ns=None, lists=(), read_only=False, interval=None)
profile_of(options)
print(json.dumps(sorted(name for name in sys.modules if name not in before)))
"""
    monkeypatch.delenv("RSMQ_TUI_CONFIG")
    loaded = json.loads(printed(code, env={"XDG_CONFIG_HOME": str(tmp_path)}))

    assert "rsmq_tui.cli.servers" in loaded
    assert not {"tomllib", "rsmq_tui.profiles.config"} & set(loaded)
