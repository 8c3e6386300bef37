"""How arguments are read: as the original reads them, with its help and its usage errors."""

import re

import click
import pytest

from rsmq_tui.cli.parsing import Options
from rsmq_tui.cli.rsmqctl.parsing import command as program
from rsmq_tui.docs import page
from tests.cli.rsmqctl.conftest import Ctl
from tests.cli.running import parsed


def read(*arguments: str) -> Options:
    return parsed(*arguments, program=program)


LEAVES = {name: list(group.commands) for name, group in program.commands.items() if isinstance(group, click.Group)}


@pytest.mark.parametrize(
    ("given", "body"),
    [
        (["-m", "plain"], "plain"),
        (["-mplain"], "plain"),
        (["--message", "plain"], "plain"),
        (["--message=plain"], "plain"),
        (["-m", "-1"], "-1"),
        (["-m", "-x"], "-x"),
        (["-m", "--help"], "--help"),
        (["-m", "--"], "--"),
        (["-m", "-"], "-"),
        (["-m", "-n"], "-n"),
        (["-m=foo"], "=foo"),
        (["-m", "a=b"], "a=b"),
        (["-m", "- a b"], "- a b"),
        (["-m", ""], ""),
        (["--message="], ""),
        (["--message=--x"], "--x"),
        (["--message=--"], "--"),
        (["-m--"], "--"),
        (["-vm", "plain"], "plain"),
        (["-vm-v"], "-v"),
        (["-m", "first", "-m", "last"], "last"),
    ],
)
def test_a_value_is_what_the_original_takes_for_it(given: list[str], body: str) -> None:
    options = read("message", "send", "-n", "q", *given)
    assert (options.name, options.message) == ("q", body)
    options = read("message", "send", *given, "-nq")
    assert (options.name, options.message) == ("q", body)


def test_options_of_the_server_stand_before_and_behind() -> None:
    options = read("-vr", "redis://a", "queue", "--ns", "x", "list", "--profile=p", "--config", "-")
    assert (options.verbose, options.redis_url, options.ns) == (True, "redis://a", "x")
    assert (options.profile, options.config, options.words) == (("p",), "-", ["rsmqctl", "queue", "list"])
    assert read("-r", "redis://a", "queue", "list", "-r", "redis://b").redis_url == "redis://b"


@pytest.mark.parametrize(
    "arguments", [[], ["queue"], ["message"], ["-v", "message"], ["-r", "redis://127.0.0.1:1", "queue"]]
)
def test_without_a_command_there_is_help(anywhere: Ctl, arguments: list[str]) -> None:
    done = anywhere(*arguments)
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("Usage: rsmqctl")


def test_the_page_names_all_commands() -> None:
    named = re.findall(r"`(queue|message) ([a-z]+(?:\s\|\s[a-z]+)+)`", page("rsmqctl"))
    assert {group: re.split(r"\s\|\s", actions) for group, actions in named} == LEAVES
    assert all(LEAVES.values())


@pytest.mark.parametrize(("group", "action"), [(group, action) for group in LEAVES for action in LEAVES[group]])
@pytest.mark.parametrize("ask", ["--help", "-h"])
def test_each_command_has_help_with_examples_that_can_be_parsed(
    anywhere: Ctl, group: str, action: str, ask: str
) -> None:
    done = anywhere(group, action, ask)

    assert (done.status, done.err) == (0, "")
    assert "Exit status:\n  0    done" in done.out
    examples = [line.strip() for line in done.out.splitlines() if line.startswith(f"  rsmqctl {group} {action}")]
    assert examples
    for example in examples:
        words = example.split(" | ")[0].split(" < ")[0].replace('"Hello, World"', "Hello").split()
        assert read(*words[1:]).words == ["rsmqctl", group, action]


@pytest.mark.parametrize(
    ("group", "action", "words"),
    [
        ("queue", "delete", ("does not ask", "not journaled", "rsmq-tui queues delete")),
        ("message", "pop", ("not journaled", "message_base64")),
        ("message", "delete", ("not journaled",)),
        ("message", "receive", ("base64 -d", "\\xNN")),
        ("queue", "set", ("not journaled",)),
    ],
)
def test_help_says_what_to_know(anywhere: Ctl, group: str, action: str, words: tuple[str, ...]) -> None:
    printed = " ".join(anywhere(group, action, "--help").out.split())
    for word in words:
        assert word in printed


def test_the_version(anywhere: Ctl) -> None:
    done = anywhere("--version")
    assert (done.status, done.out.split()[0]) == (0, "rsmqctl")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["bogus"], "No such command 'bogus'."),
        (["queue", "lst"], "No such command 'lst'. (Did you mean one of: 'list', 'set'?)"),
        (["queue", "list", "extra"], "Got unexpected extra argument (extra)"),
        (["queue", "create"], "Missing option '-n' / '--name'."),
        (
            ["queue", "create", "-n", "q", "-t", "abc"],
            "Invalid value for '-t' / '--visibility-timeout': 'abc': a duration is a number of seconds, or has a unit: "
            "30s, 10m, 1h30m, 2d",
        ),
        (
            ["queue", "create", "-n", "q", "-t", "15.5"],
            "Invalid value for '-t' / '--visibility-timeout': '15.5': a duration must be a whole number of seconds "
            "from 0 to 9,999,999",
        ),
        (
            ["queue", "create", "--nam", "q"],
            "No such option '--nam'. (Did you mean one of: '--name', '--ns'?)",
        ),
        (["queue", "create", "-xn", "q"], "No such option '-x'."),
        (["message", "visibility", "-n", "q", "-i", "x"], "Missing option '-t' / '--visibility-timeout'."),
        (["message", "delete", "-n", "q"], "Missing option '-i' / '--message-id'."),
        (
            ["message", "receive", "-n", "q", "--count", "0"],
            "Invalid value for '--count': '0' is not a whole number from 1 to 1,000,000,000,000",
        ),
        (["--output", "yaml", "queue", "list"], "Invalid value for '--output': 'yaml' is not one of 'json', 'text'."),
    ],
)
def test_a_usage_error_is_one_of_click(anywhere: Ctl, arguments: list[str], words: str) -> None:
    done = anywhere(*arguments)
    assert (done.status, done.out) == (2, "")
    usage, hint, empty, error = done.err.splitlines()
    assert usage.startswith("Usage: rsmqctl ")
    assert hint.endswith(" --help' for help.")
    assert (empty, error) == ("", f"Error: {words}")


def test_an_option_without_its_value(anywhere: Ctl) -> None:
    done = anywhere("queue", "create", "-n")
    assert (done.status, done.out, done.err) == (2, "", "Error: Option '-n' requires an argument.\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["redis://bob:hunter2@host", "queue", "list"],
        ["queue", "list", "redis://bob:hunter2@host"],
        ["queue", "create", "-n", "q", "-t", "rediss://:hunter2@host/0"],
        ["queue", "list", "--output", "bob:hunter2@host"],
        ["--redis-ur=redis://:hunter2@host", "queue", "list"],
    ],
)
def test_a_usage_error_repeats_no_password(anywhere: Ctl, arguments: list[str]) -> None:
    done = anywhere(*arguments)
    assert done.status == 2
    assert "hunter2" not in done.err


def test_a_usage_error_repeats_nothing_that_a_terminal_obeys(anywhere: Ctl) -> None:
    done = anywhere("queue", "list", "\x1b]0;x\x07\x9b31m\u202e[red]")
    assert done.status == 2
    assert done.err.replace("\n", "").isprintable()
