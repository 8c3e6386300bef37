"""Commands that change something, as processes: closed pipes, Ctrl+C, terminals, and what a crash leaves."""

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, TypeAlias
from unittest.mock import patch

import pytest
from redis import Redis

from rsmq_tui.cli.output import ProgressLine
from rsmq_tui.protocol import Rsmq
from tests.cli.conftest import Command
from tests.cli.running import call, check_closed_pipe, python
from tests.hostile.terminal import Terminal

pytestmark = pytest.mark.slow

Keys = Callable[[], Mapping[bytes, Any]]
Done: TypeAlias = "subprocess.CompletedProcess[str]"
Interrupt = Callable[[int], Done]
MESSAGES = 5_000
# Kills the process once the command tells of that.
_KILLED = """
import os, signal, sys
from rsmq_tui.cli import output
from rsmq_tui.cli.main import main
words, *arguments = sys.argv[1:]
output.ProgressLine.show = lambda line, text: os.kill(os.getpid(), signal.SIGKILL) if words in text else None
sys.exit(main(arguments))
"""


def _interrupted(state: Path, words: str, times: int, *arguments: str) -> Done:
    """Run a command, and press Ctrl+C so many times once it tells of that."""
    presses = iter(range(times))

    def show(_: ProgressLine, text: str) -> None:
        if words in text:
            for _press in presses:
                os.kill(os.getpid(), signal.SIGINT)

    with patch.object(ProgressLine, "show", show):
        return call(*arguments, env={"HOME": str(state), "XDG_STATE_HOME": str(state)})


@pytest.fixture
def many(orders: Rsmq) -> Rsmq:
    """The server of `orders`, with many messages in `spare`."""
    orders.send_messages("spare", [f'{{"n": {number}}}' for number in range(MESSAGES)])
    return orders


@pytest.fixture
def interrupt(many: Rsmq, redis_url: str, state: Path) -> Interrupt:
    """Deletes all of `spare`, and presses Ctrl+C so many times."""
    return lambda times: _interrupted(
        state, "Delete", times, "-r", redis_url, "messages", "delete", "spare", "--all", "--yes"
    )


def test_ctrl_c_ends_a_change_in_order(interrupt: Interrupt, keys: Keys, command: Command, client: Redis) -> None:
    before = keys()
    done = interrupt(1)
    assert (done.returncode, done.stderr) == (130, "")
    report = json.loads(done.stdout)
    assert report["stopped"] == "stopped on request"
    assert 0 < report["done"] < MESSAGES
    assert client.zcard("rsmq:spare") == MESSAGES - report["done"]
    assert command("undo", "--yes").lines[0]["done"] == report["done"]
    assert keys() == before


def test_a_second_ctrl_c_ends_it_at_once_and_nothing_is_lost(
    interrupt: Interrupt, keys: Keys, command: Command, client: Redis
) -> None:
    before = keys()
    done = interrupt(2)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr.splitlines() == [
        "rsmq-tui: interrupted; rsmq-tui settles the unfinished batch before its next change"
    ]
    left = client.zcard("rsmq:spare")
    assert left < MESSAGES
    printed = command("undo", "1", "--yes")
    assert printed.status == 0
    assert "change 1 (delete in spare, " in printed.err
    assert f"was interrupted with {MESSAGES - left:,} of {MESSAGES:,} done; rsmq-tui undo 1 reverts it" in printed.err
    # A call that was given up leaves a marker for a while, so that it is not carried out late.
    assert {key: value for key, value in keys().items() if not key.startswith(b"rsmq:rsmq-tui:")} == before


@pytest.mark.parametrize(
    "arguments",
    [["messages", "delete", "spare", "--all", "--yes"], ["messages", "export", "spare", "-o", "FILE"],
     ["messages", "list", "spare", "--filter", "none"]],
    ids=" ".join,
)  # fmt: skip
@pytest.mark.parametrize("times", [1, 3])
def test_ctrl_c_before_a_change_or_while_reading(
    arguments: list[str], times: int, many: Rsmq, redis_url: str, state: Path, keys: Keys, tmp_path: Path
) -> None:
    before = keys()
    folder = tmp_path / "out"
    folder.mkdir()
    given = [str(folder / "out.jsonl") if argument == "FILE" else argument for argument in arguments]
    done = _interrupted(state, "scanned", times, "-r", redis_url, *given)
    printed = "rsmq-tui: interrupted before anything was changed\n" if "delete" in arguments else ""
    assert (done.returncode, done.stdout, done.stderr) == (130, "", printed)
    assert keys() == before
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(("what", "queue"), [("list", "spare"), ("export", "list:numbers")])
def test_a_closed_pipe_is_no_traceback(what: str, queue: str, many: Rsmq, client: Redis, redis_url: str) -> None:
    client.rpush("numbers", *range(MESSAGES))
    check_closed_pipe('{"id": ', "-r", redis_url, "messages", what, queue)


def test_a_real_terminal_gets_words_and_no_controls(
    orders: Rsmq, client: Redis, redis_url: str, tmp_path: Path
) -> None:
    client.zadd("rsmq:spare", {b"\x1b[31mid": 1})
    client.hset("rsmq:spare:Q", b"\x1b[31mid", b"\x1b]0;owned\x07\x9b2J")
    for arguments, status, words in (
        (["messages", "list", "spare"], 0, "␛]0;owned␇\\x9b2J"),
        (["messages", "delete", "spare", "--all"], 3, "Nothing was changed; --yes applies this change."),
        (["messages", "delete", "spare", "--all", "--yes"], 0, "spare: deleted 1, skipped 0, failed 0"),
        (["journal"], 0, "delete spare: every message"),
    ):
        with Terminal("-r", redis_url, *arguments, settings=tmp_path) as terminal:
            assert terminal.wait_for_end() == status
            assert words in terminal.screen.text
            assert b"\x1b" not in terminal.output
            assert terminal.is_as_before


def test_progress_is_one_line_that_goes_away(command: Command, many: Rsmq, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rsmq_tui.cli.output._PROGRESS_AFTER_S", 0)
    monkeypatch.setattr("rsmq_tui.cli.output._PROGRESS_EVERY_S", 0)
    assert command("messages", "delete", "spare", "--all").err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    done = command("messages", "delete", "spare", "--all", "--yes")
    assert done.status == 0
    shown = done.err.split("\r")
    assert any(re.match(r"Delete 5,000 messages: [1-4],\d{3} / 5,000", line) for line in shown)
    assert any("scanned, 5,000 match" in line for line in shown)
    assert shown[-1] == ""
    assert shown[-2].strip() == ""
    assert "\n" not in done.err


def test_what_was_interrupted_before_is_told(redis_url: str, many: Rsmq, state: Path, keys: Keys) -> None:
    env = {"HOME": str(state), "XDG_STATE_HOME": str(state)}
    python(_KILLED, "Delete", "-r", redis_url, "messages", "delete", "spare", "--all", "--yes", env=env)
    done = call("-r", redis_url, "messages", "send", "orders", "x", env=env)
    assert done.returncode == 3
    (line,) = done.stderr.splitlines()
    assert line.startswith("rsmq-tui: change 1 (delete in spare, ")
    assert "rsmq-tui undo 1 reverts it" in line
    assert call("-r", redis_url, "messages", "send", "orders", "x", env=env).stderr == ""


def test_the_journal_settles_what_was_interrupted_and_says_what_it_cannot(
    many: Rsmq, redis_url: str, state: Path, command: Command, anywhere: Command, client: Redis
) -> None:
    _interrupted(state, "Delete", 2, "-r", redis_url, "messages", "delete", "spare", "--all", "--yes")
    left = client.zcard("rsmq:spare")

    elsewhere = anywhere("-r", "redis://127.0.0.1:1", "journal")
    assert elsewhere.lines[0]["state"] == "running"
    assert "was interrupted and is not settled yet: the next change on that server settles it\n" in elsewhere.err
    there = command("journal")
    assert (there.lines[0]["state"], there.lines[0]["done"]) == ("interrupted", MESSAGES - left)
    assert "was interrupted with" in there.err
    again = command("journal")
    assert (again.err, again.lines) == ("", there.lines)


def test_the_journal_says_when_the_server_cannot_be_asked(
    many: Rsmq, redis_url: str, state: Path, anywhere: Command
) -> None:
    _interrupted(state, "Delete", 2, "-r", redis_url, "messages", "delete", "spare", "--all", "--yes")
    path = next(state.rglob("journal.sqlite"))
    with closing(sqlite3.connect(path)) as db, db:
        # As if it had been written before there were checksums, and the server is down by now.
        db.execute("UPDATE changes SET server = 'redis://127.0.0.1:1/0', checksum = 'none'")

    printed = anywhere("-r", "redis://127.0.0.1:1", "journal")

    assert (printed.status, printed.lines[0]["state"]) == (0, "running")
    (line,) = printed.err.splitlines()
    assert line.startswith("rsmq-tui: change 1 on redis://127.0.0.1:1/0 was interrupted and is not settled yet: ")
    assert "refused" in line


def test_the_last_change_is_found_although_it_was_interrupted_in_a_list(
    redis_url: str, state: Path, client: Redis, command: Command
) -> None:
    items = [b"item %d" % number for number in range(4 * MESSAGES)]
    client.rpush("jobs", *items)
    given = ("-r", redis_url, "messages", "delete", "list:jobs", "--lists", "jobs", "--all", "--yes")
    _interrupted(state, "Delete", 2, *given)
    left = client.lrange("jobs", 0, -1)
    assert 0 < len(left) < len(items)
    client.delete("jobs")

    printed = command("undo", "--yes")

    assert printed.lines[0]["done"] == len(items) - len(left)
    assert sorted([*client.lrange("jobs", 0, -1), *left]) == sorted(items)
