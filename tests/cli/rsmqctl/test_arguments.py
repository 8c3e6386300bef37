"""How arguments are read: as the original reads them, and a usage error is one sentence and exit status 2."""

import pytest

from rsmq_tui.cli.rsmqctl.arguments import parser
from tests.cli.rsmqctl.conftest import Ctl

LEAVES = {
    "queue": ["list", "describe", "create", "set", "delete"],
    "message": ["send", "receive", "pop", "delete", "visibility", "peek", "list"],
}


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
    options = parser().parse_args(["message", "send", "-n", "q", *given])
    assert (options.name, options.message) == ("q", body)
    options = parser().parse_args(["message", "send", *given, "-nq"])
    assert (options.name, options.message) == ("q", body)


def test_options_of_the_server_stand_before_and_behind() -> None:
    options = parser().parse_args(["-vr", "redis://a", "queue", "--ns", "x", "list", "--profile=p", "--config", "-"])
    assert (options.verbose, options.redis_url, options.ns) == (True, "redis://a", "x")
    assert (options.profile, options.config, options.group, options.action) == (["p"], "-", "queue", "list")
    assert parser().parse_args(["-r", "redis://a", "queue", "list", "-r", "redis://b"]).redis_url == "redis://b"


@pytest.mark.parametrize("arguments", [[], ["queue"], ["message"], ["-v"], ["-r", "redis://127.0.0.1:1", "queue"]])
def test_without_a_command_there_is_help(anywhere: Ctl, arguments: list[str]) -> None:
    done = anywhere(*arguments)
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("usage: rsmqctl")


@pytest.mark.parametrize(("group", "action"), [(group, action) for group in LEAVES for action in LEAVES[group]])
@pytest.mark.parametrize("ask", ["--help", "-h"])
def test_each_command_has_help_with_examples_that_can_be_parsed(
    anywhere: Ctl, group: str, action: str, ask: str
) -> None:
    done = anywhere(group, action, ask)

    assert (done.status, done.err) == (0, "")
    assert "exit status: 0 done" in done.out
    examples = [line.strip() for line in done.out.splitlines() if line.startswith(f"  rsmqctl {group} {action}")]
    assert examples
    for example in examples:
        words = example.split(" | ")[0].split(" < ")[0].replace('"Hello, World"', "Hello").split()
        options = parser().parse_args(words[1:])
        assert (options.group, options.action) == (group, action)


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
    told = " ".join(anywhere(group, action, "--help").out.split())
    for word in words:
        assert word in told


def test_the_version(anywhere: Ctl) -> None:
    done = anywhere("--version")
    assert (done.status, done.out.split()[0]) == (0, "rsmqctl")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["bogus"], 'unknown command "bogus". Commands: queue, message'),
        (["queue", "lst"], 'unknown command "lst". Did you mean list?'),
        (["queue", "list", "extra"], "unrecognized arguments: extra"),
        (["queue", "create"], "required: -n/--name"),
        (["queue", "create", "-n"], "-n/--name: expected one argument"),
        (
            ["queue", "create", "-n", "q", "-t", "abc"],
            "'abc': a duration is a number of seconds, or has a unit: 30s, 10m, 1h30m, 2d",
        ),
        (
            ["queue", "create", "-n", "q", "-t", "15.5"],
            "'15.5': a duration must be a whole number of seconds from 0 to 9,999,999",
        ),
        (["queue", "create", "--nam", "q", "-n", "q"], 'unknown option "--nam". Did you mean --name?'),
        (["queue", "create", "-xn", "q"], "required: -n/--name"),
        (["message", "visibility", "-n", "q", "-i", "x"], "required: -t/--visibility-timeout"),
        (["message", "delete", "-n", "q"], "required: -i/--message-id"),
        (["message", "receive", "-n", "q", "--count", "0"], "not a whole number from 1"),
        (["message", "receive", "-n", "q", "--count", "-3"], "not a whole number from 1"),
        (["--output", "yaml", "queue", "list"], "invalid choice: 'yaml'"),
    ],
)
def test_a_usage_error_is_one_sentence(anywhere: Ctl, arguments: list[str], words: str) -> None:
    done = anywhere(*arguments)
    assert (done.status, done.out) == (2, "")
    (line,) = done.err.splitlines()
    assert line.startswith("rsmqctl")
    assert words in line
    assert "--help` lists the commands and options" in line


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
    assert done.err.rstrip("\n").isprintable()
