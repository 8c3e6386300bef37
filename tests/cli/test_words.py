"""What people write on a command line: durations with units, and words that are nearly right."""

import pytest
from redis import Redis

from rsmq_tui.cli.parsing import at_least, whole_seconds
from rsmq_tui.protocol import Rsmq
from tests.cli.conftest import Command
from tests.cli.running import parsed


@pytest.mark.parametrize(
    ("text", "value_s"),
    [("0", 0), ("600", 600), ("10m", 600), ("1h30m", 5400), ("90s", 90), ("2d", 172_800), ("2000ms", 2), ("1.5m", 90),
     ("10min", 600), ("10 min", 600), ("5 minutes", 300), ("2hours", 7200), ("1h 30min", 5400), ("90sec", 90),
     ("1 day", 86_400), ("1hr", 3600)],
)  # fmt: skip
def test_a_duration_is_a_number_of_seconds_or_has_units(text: str, value_s: int) -> None:
    assert whole_seconds(text) == value_s
    assert at_least(0)(text) == value_s


@pytest.mark.parametrize(
    "text",
    ["", "-1", "-1h", "1.5", "500ms", "10  m", "m", "1w", "10mi", "10 mins 5", "1e3", "nan", "inf", "10000000", "200d"],
)
def test_what_is_no_duration_in_whole_seconds(text: str) -> None:
    with pytest.raises(ValueError, match=r"^'.*': a duration (is a number of seconds, or has a unit|must be a whole)"):
        whole_seconds(text)


OPTION_OF_URL = "\nThe URL of a server is the value of an option: -r URL"
OPTIONS = [
    (["--interval", "1m"], "interval", 60),
    (["demo", "--headless", "--for", "2m"], "seconds", 120),
    (["demo", "--headless", "--seconds", "2m"], "seconds", 120),
    (["who", "q", "--for", "500ms"], "seconds", 0.5),
    (["who", "q", "--seconds", "500ms"], "seconds", 0.5),
    (["messages", "send", "q", "x", "--delay", "1h30m"], "delay", 5400),
    (["messages", "hide", "q", "--all", "--for", "10m"], "seconds", 600),
    (["messages", "hide", "q", "--all", "--seconds", "10m"], "seconds", 600),
    (["queues", "create", "q", "--vt", "2m"], "vt", 120),
    (["queues", "set", "q", "--delay", "2m"], "delay", 120),
    (["check", "--timeout", "1m"], "timeout", 60),
    (["doctor", "--timeout", "1m"], "timeout", 60),
    (["exporter", "--interval", "1m"], "interval", 60),
    (["exporter", "--min-interval", "500ms"], "min_interval", 0.5),
    (["exporter", "--timeout", "1m"], "timeout", 60),
    (["record", "--out", "x", "--interval", "1m"], "interval", 60),
    (["record", "--out", "x", "--every", "1m"], "interval", 60),
    (["--interval", "2", "record", "--out", "x"], "interval", 2),
]


@pytest.mark.parametrize(
    ("arguments", "name", "value"), OPTIONS, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_every_option_that_takes_a_duration_reads_units(arguments: list[str], name: str, value: float) -> None:
    assert getattr(parsed(*arguments), name) == value


def test_a_message_is_hidden_for_so_long(command: Command, orders: Rsmq, client: Redis) -> None:
    assert command("messages", "hide", "orders", "--filter", "state:ready", "--for", "2h", "--yes").status == 0

    from_s = client.time()[0] + 6_900
    assert client.zcount("rsmq:orders", from_s * 1000, "+inf") == 3


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["messags"], "No such command 'messags'. Did you mean 'messages'?"),
        (["messages", "lst", "orders"], "No such command 'lst'. Did you mean 'list'?"),
        (["queues", "xyzzy"], "No such command 'xyzzy'."),
        (["messages", "list", "orders", "--filtr", "x"], "No such option '--filtr'. (Did you mean one of: '--filter'"),
        (["messages", "list", "orders", "--limits=5"], "No such option '--limits'. (Did you mean one of: '--limit'"),
        (["--colour"], "No such option '--colour'."),
        (["snapshot", "--x\x1b[2J"], "No such option '--x\\x1b[2J'."),
        (["redis://user:secret@host"], f"No such command '(a URL)'.{OPTION_OF_URL}"),
        (["snapshot", "redis://user:secret@host"], f"Got unexpected extra argument ((a URL)){OPTION_OF_URL}"),
        (["snapshot", "-r", "redis://user:secret@host", "more"], "Got unexpected extra argument (more)\n"),
    ],
)
def test_what_is_nearly_right_is_told(arguments: list[str], sentence: str, anywhere: Command) -> None:
    done = anywhere(*arguments)

    assert (done.status, done.out) == (2, b"")
    assert f"Error: {sentence}" in done.err
    assert "--help' for help." in done.err
    assert "secret" not in done.err
    assert "\x1b" not in done.err


def test_a_check_tells_it_on_its_first_line(anywhere: Command) -> None:
    done = anywhere("check", "--max-dept", "3")

    assert done.status == 3
    assert done.text.startswith("RSMQ UNKNOWN - No such option '--max-dept'. (Did you mean one of: ")
    assert "'--max-depth'" in done.text


@pytest.mark.parametrize(
    "words",
    [
        (), ("audit",), ("check",), ("completion",), ("doctor",), ("exporter",), ("history",), ("journal",),
        ("messages", "delete"), ("pipeline", "run"), ("pipeline", "generate"), ("profiles",), ("queues", "create"),
        ("record",), ("replay",), ("report",), ("undo",),
    ],
    ids=" ".join,
)  # fmt: skip
def test_help_that_lists_exit_statuses_says_what_a_defect_is(anywhere: Command, words: tuple[str, ...]) -> None:
    printed = " ".join(anywhere(*words, "--help").text.split())
    assert "70 a defect in rsmq-tui itself" in printed[printed.index("Exit status:") :]
