"""`rsmqctl` as a process: its entry point, closed pipes, Ctrl+C, a full disk, and what it loads."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from redis import Redis

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.cli.rsmqctl import server
from rsmq_tui.cli.rsmqctl.main import main
from rsmq_tui.listserver import ListServer
from rsmq_tui.protocol import Address, Rsmq
from tests.cli.running import call_waiting, environment, printed, python, run
from tests.hostile.terminal import Terminal
from tests.waiting import SECONDS_MAX

pytestmark = pytest.mark.slow

MODULE = "rsmq_tui.cli.rsmqctl.main"


def started(*arguments: str, url: str, stdout: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", MODULE, *arguments],
        # Buffered, whatever it is for these tests.
        env=environment(REDIS_URL=url, PYTHONUNBUFFERED=""),
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
    )


def test_a_session_of_processes(redis_url: str, client: Redis) -> None:
    def ctl(*arguments: str) -> tuple[int, str, str]:
        done = run(*arguments, module=MODULE, env={"REDIS_URL": redis_url})
        return done.returncode, done.stdout, done.stderr

    assert ctl("queue", "create", "-n", "q") == (0, "", "")
    status, id, _ = ctl("message", "send", "-n", "q", "-m", "grüße")
    assert status == 0
    status, message, _ = ctl("message", "receive", "-n", "q")
    assert list(json.loads(message).items())[:3] == [("id", id.strip()), ("message", "grüße"), ("rc", 1)]
    assert ctl("queue", "describe", "-n", "no") == (1, "", "No such queue: no\n")


@pytest.mark.parametrize(
    "arguments",
    [
        *(["queue", "list"], ["message", "send", "-n", "q", "-m", "one"], ["message", "receive", "-n", "q"]),
        *(["message", "peek", "-n", "q"], ["message", "peek", "-n", "q", "-i", "x"], ["message", "list", "-n", "q"]),
    ],
    ids=" ".join,
)
def test_a_terminal_is_told_which_server_is_waited_for(
    frozen: EmbeddedServer, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.setattr(server, "_WAIT_S", 0.05)
    words = f"rsmqctl: waiting for {Address(frozen.url).label}; gives up after 5 s without an answer\n"
    done = call_waiting(frozen, words, *arguments, main=main)
    assert done.stderr.startswith(words)
    assert done.stdout or done.stderr.removeprefix(words)


def test_a_real_terminal_says_which_server_is_waited_for(frozen: EmbeddedServer, tmp_path: Path) -> None:
    with Terminal("-r", frozen.url, "queue", "list", settings=tmp_path, command=("-m", MODULE)) as terminal:
        label = Address(frozen.url).label
        terminal.wait_for(f"rsmqctl: waiting for {label}; gives up after 5 s without an answer")
        os.kill(frozen.pid, signal.SIGCONT)
        terminal.wait_for_end()


def test_nothing_is_said_of_the_wait_if_a_program_reads_the_output(frozen: EmbeddedServer) -> None:
    done = run("-r", frozen.url, "queue", "list", module=MODULE)
    assert (done.returncode, done.stdout, "waiting" in done.stderr) == (1, "", False)


def test_the_entry_point() -> None:
    # What pip installs next to the interpreter, where the project is installed.
    script = f"import sys; from {MODULE} import main; sys.argv[0] = 'rsmqctl'; sys.exit(main())"
    assert printed(script).startswith("Usage: rsmqctl")


def test_a_body_from_a_pipe(redis_url: str, rsmq: Rsmq, queue: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", MODULE, "message", "send", "-n", queue, "--body-file", "-"],
        env=environment(REDIS_URL=redis_url),
        input=b"\xff\x00\n",
        capture_output=True,
        timeout=SECONDS_MAX,
        check=False,
    )  # fmt: skip
    received = rsmq.receive_message(queue)
    assert (done.returncode, done.stdout) == (0, f"{received.id}\n".encode())
    assert received.body == b"\xff\x00\n"


def test_a_reader_who_has_gone(redis_url: str, rsmq: Rsmq, queue: str) -> None:
    # So short that they would all fit into the buffer.
    rsmq.send_messages(queue, ["x"] * 20)
    read, write = os.pipe()
    os.close(read)
    try:
        process = started("message", "pop", "-n", queue, "--count", "20", url=redis_url, stdout=write)
    finally:
        os.close(write)
    _, err = process.communicate(timeout=SECONDS_MAX)
    assert (process.returncode, err) == (141, b"")
    # It stopped at the first that it could not print.
    assert rsmq.get_queue_attributes(queue).msgs == 19


def test_help_whose_reader_has_gone() -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        process = started("--help", url="", stdout=write)
    finally:
        os.close(write)
    _, err = process.communicate(timeout=SECONDS_MAX)
    assert (process.returncode, err) == (141, b"")


def test_a_closed_stdout_takes_no_message(redis_url: str, rsmq: Rsmq, queue: str) -> None:
    rsmq.send_message(queue, "a")
    done = subprocess.run(
        ["sh", "-c", '"$@" >&-', "sh", sys.executable, "-m", MODULE, "message", "pop", "-n", queue],
        env=environment(REDIS_URL=redis_url), stderr=subprocess.PIPE, timeout=SECONDS_MAX, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, b"rsmqctl: standard output is closed: nothing was done\n")
    assert rsmq.get_queue_attributes(queue).msgs == 1


def test_an_output_that_cannot_be_written(redis_url: str, rsmq: Rsmq, queue: str) -> None:
    with Path("/dev/full").open("wb") as full:
        process = started("queue", "describe", "-n", queue, url=redis_url, stdout=full.fileno())
        _, err = process.communicate(timeout=SECONDS_MAX)
    assert (process.returncode, err) == (1, b"rsmqctl: the output cannot be written: No space left on device\n")


@pytest.mark.parametrize("command", [["queue", "list"], ["message", "pop", "-n", "q"], ["message", "peek", "-n", "q"]])
def test_ctrl_c_ends_it_with_130_and_without_a_word(list_server: ListServer, command: list[str]) -> None:
    with list_server.fault("stall") as fault:
        process = started(*command, url=list_server.url)
        while not fault.happened:
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=SECONDS_MAX)
    assert (process.returncode, out, err) == (130, b"", b"")


def test_ctrl_c_while_it_reads_the_body() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", MODULE, "-r", "redis://127.0.0.1:1", "message", "send", "-n", "q", "--body-file", "-"],
        env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None
    # More than a pipe holds: when it is taken, the command is reading.
    process.stdin.write(b"x" * 1_000_000)
    process.stdin.flush()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=SECONDS_MAX)
    assert (process.returncode, out, err) == (130, b"", b"")


def test_help_and_usage_errors_do_without_redis_and_nothing_loads_what_draws() -> None:
    code = (
        f"import sys; from {MODULE} import main\n"
        "main(sys.argv[2:])\n"
        "sys.exit(sorted(set(sys.argv[1].split(',')) & sys.modules.keys()) or 0)"
    )

    def loads(unwanted: str, *arguments: str) -> int:
        return python(code, unwanted, *arguments, env={"REDIS_URL": "redis://127.0.0.1:1"}).returncode

    # The package itself is deferred: it is there before it is executed.
    assert loads("redis.exceptions", "queue", "--help") == 0
    assert loads("redis.exceptions", "queue") == 0
    assert loads("textual,rich,plotext,sqlite3", "queue", "list") == 0
    assert loads("redis.exceptions", "queue", "list") == 1
