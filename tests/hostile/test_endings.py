"""However the program ends, the terminal is the shell's again."""

import os
import signal
import time
from pathlib import Path

import pytest
from redis import Redis

from tests.hostile.proxy import Proxy
from tests.hostile.terminal import Terminal

pytestmark = pytest.mark.slow

# Keys and signals, and the exit status after them.
ENDINGS = {"\x03": {0}, signal.SIGINT: {0, 130}, signal.SIGTERM: {143}, signal.SIGHUP: {129}}

_NOHUP = """
import signal, sys
from rsmq_tui.cli.main import main

signal.signal(signal.SIGHUP, signal.SIG_IGN)
sys.exit(main())
"""
# As a container, or a shell without job control, may start it: no SIGHUP comes from the terminal.
_NOT_CONTROLLED = """
import fcntl, signal, sys, termios
from rsmq_tui.cli.main import main

signal.signal(signal.SIGHUP, signal.SIG_IGN)
fcntl.ioctl(0, termios.TIOCNOTTY)
sys.exit(main())
"""
# An exception, as of a second SIGINT, takes the place of what ends the input thread.
_INTERRUPTED = """
import sys
from rsmq_tui.cli.main import main
from rsmq_tui.tui.drivers import TerminalDriver

def interrupt(*_):
    raise KeyboardInterrupt

TerminalDriver.stop_application_mode = TerminalDriver.disable_input = interrupt
sys.exit(main())
"""
# SIGTSTP, within the first write of the help.
_STOPPED_IN_WRITE = """
import queue, signal, sys
from rsmq_tui.cli.main import main

def put(self, item, put=queue.Queue._put):
    put(self, item)
    if "Show only queues" in str(item):
        queue.Queue._put = put
        signal.raise_signal(signal.SIGTSTP)

queue.Queue._put = put
sys.exit(main())
"""
# The terminal is closed after it is given back, and before the program stops.
_CLOSED_AT_STOP = _NOT_CONTROLLED.replace(
    "sys.exit",
    """
from rsmq_tui.tui import drivers

def suspend(driver, suspend=drivers.TerminalDriver.suspend_application_mode):
    suspend(driver)
    while not drivers._is_hung_up(driver.fileno):
        pass

drivers.TerminalDriver.suspend_application_mode = suspend
sys.exit""",
)
# SIGTSTP and SIGCONT, when the terminal is given back.
_STOPPED_LATE = """
import sys
from rsmq_tui.cli.main import main
from rsmq_tui.tui.drivers import TerminalDriver

def close(driver):
    TerminalDriver.close = TerminalDriver.__base__.close
    driver.suspend_application_mode()
    driver.resume_application_mode()
    driver.close()

TerminalDriver.close = close
sys.exit(main())
"""
# The thread that writes takes one text at a time, so that the first that it leaves is waited for.
_ONE_WRITE = """
import sys
from textual.drivers import _writer_thread
from rsmq_tui.cli.main import main

_writer_thread.MAX_QUEUED_WRITES = 1
sys.exit(main())
"""
_CRASH = """
import sys
from rsmq_tui.cli.main import main
from rsmq_tui.tui.app import RsmqApp

def action_help(self):
    password = "correct-horse"
    raise RuntimeError("\\x1b]0;PWNED\\x07[/foo]")

RsmqApp.action_help = action_help
sys.exit(main())
"""


def end_of(terminal: Terminal, ending: str | signal.Signals) -> int:
    """Type or send this, wait until the program has left the terminal as it was, and return its exit status."""
    terminal.type(ending) if isinstance(ending, str) else terminal.send(ending)
    status = terminal.wait_for_end()
    assert terminal.screen.is_restored
    assert terminal.is_as_before
    return status


# The others end what is started for other tests.
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGHUP], ids=repr)
def test_the_terminal_is_left_as_it_was(
    orders: Redis, redis_url: str, tmp_path: Path, ending: str | signal.Signals
) -> None:
    with Terminal("-r", redis_url, settings=tmp_path) as terminal:
        terminal.wait_for("● live", "orders", "? help")
        assert not terminal.is_as_before
        assert not terminal.screen.is_restored

        assert end_of(terminal, ending) in ENDINGS[ending]
        assert b"Traceback" not in terminal.output


@pytest.mark.parametrize("ending", ["\x03", signal.SIGTERM], ids=repr)
def test_it_ends_while_the_server_hangs(proxy: Proxy, tmp_path: Path, ending: str | signal.Signals) -> None:
    with Terminal("-r", proxy.url, "--interval", "0.1", settings=tmp_path) as terminal:
        terminal.wait_for("● live", "orders", "? help")
        proxy.swallow()
        terminal.wait_for("waiting for the server")
        terminal.type("\r")
        terminal.wait_for("◀ orders")

        assert end_of(terminal, ending) in ENDINGS[ending]
        assert b"Traceback" not in terminal.output


@pytest.mark.parametrize(
    "command",
    [("-m", "rsmq_tui"), ("-c", _NOHUP), ("-c", _NOT_CONTROLLED), ("-c", _ONE_WRITE)],
    ids=["", "with nohup", "not controlled by it", "while it writes"],
)
def test_it_ends_when_its_terminal_is_closed(
    orders: Redis, redis_url: str, tmp_path: Path, command: tuple[str, ...]
) -> None:
    with Terminal("-r", redis_url, settings=tmp_path, command=command) as terminal:
        terminal.wait_for("● live", "orders", "? help")
        terminal.hang_up()

        assert terminal.process.wait(60) == 128 + signal.SIGHUP


def test_it_ends_when_its_terminal_is_closed_while_it_ends(orders: Redis, redis_url: str, tmp_path: Path) -> None:
    with Terminal("-r", redis_url, settings=tmp_path) as terminal:
        terminal.wait_for("● live", "orders", "? help")
        terminal.send(signal.SIGTERM)
        # The terminal is given back, and the connections are not closed yet.
        terminal.wait_for_sequence(b"\x1b[?1049l")
        # A terminal that is closed sends this one too.
        terminal.send(signal.SIGCONT)
        terminal.hang_up()

        assert terminal.process.wait(60) in (128 + signal.SIGTERM, 128 + signal.SIGHUP)


def test_it_ends_when_the_end_of_its_input_is_interrupted(orders: Redis, redis_url: str, tmp_path: Path) -> None:
    with Terminal("-r", redis_url, settings=tmp_path, command=("-c", _INTERRUPTED)) as terminal:
        terminal.wait_for("● live", "orders", "? help")
        terminal.type("q")

        assert terminal.wait_for_end() == 130


def test_it_ends_when_it_is_stopped_and_continued_while_it_ends(orders: Redis, redis_url: str, tmp_path: Path) -> None:
    with Terminal("-r", redis_url, settings=tmp_path, command=("-c", _STOPPED_LATE)) as terminal:
        terminal.wait_for("● live", "orders", "? help")

        assert end_of(terminal, "q") == 0


def test_it_does_not_stop_when_its_terminal_is_closed(orders: Redis, redis_url: str, tmp_path: Path) -> None:
    with Terminal("-r", redis_url, settings=tmp_path, command=("-c", _NOT_CONTROLLED)) as terminal:
        terminal.wait_for("● live", "orders", "? help")
        terminal.hang_up()
        terminal.send(signal.SIGTSTP)

        assert terminal.process.wait(60) == 128 + signal.SIGHUP


def test_it_does_not_stop_when_its_terminal_is_closed_just_then(orders: Redis, redis_url: str, tmp_path: Path) -> None:
    with Terminal("-r", redis_url, settings=tmp_path, command=("-c", _CLOSED_AT_STOP)) as terminal:
        terminal.wait_for("● live", "orders", "? help")
        terminal.send(signal.SIGTSTP)
        terminal.wait_for_sequence(b"\x1b[?1049l")
        terminal.hang_up()

        assert terminal.process.wait(60) == 128 + signal.SIGHUP


def read_until_stopped(terminal: Terminal) -> None:
    deadline_s = time.monotonic() + 60
    while os.waitid(os.P_PID, terminal.process.pid, os.WSTOPPED | os.WNOHANG) is None:
        # It writes until it stops.
        terminal.read_for(0.02)
        assert time.monotonic() < deadline_s, "it does not stop"


def test_it_gives_the_terminal_back_while_it_is_stopped(orders: Redis, redis_url: str, tmp_path: Path) -> None:
    with Terminal("-r", redis_url, settings=tmp_path) as terminal:
        for _ in range(2):
            terminal.wait_for("● live", "orders", "? help")
            terminal.send(signal.SIGTSTP)
            read_until_stopped(terminal)
            assert terminal.is_as_before
            terminal.screen.write("\x1b[2J")
            terminal.send(signal.SIGCONT)
        terminal.wait_for("● live", "orders", "? help")

        assert end_of(terminal, "q") == 0
        assert b"Traceback" not in terminal.output


def test_it_can_be_stopped_while_it_writes(orders: Redis, redis_url: str, tmp_path: Path) -> None:
    with Terminal("-r", redis_url, settings=tmp_path, command=("-c", _STOPPED_IN_WRITE)) as terminal:
        terminal.wait_for("● live", "orders", "? help")
        terminal.type("?")
        read_until_stopped(terminal)
        terminal.send(signal.SIGCONT)
        terminal.wait_for("Show only queues")
        terminal.type("\x1b")
        terminal.wait_until_gone("Show only queues")
        terminal.type("q")

        assert terminal.wait_for_end() == 0


def test_it_paints_again_and_takes_all_keys_after_it_was_stopped(orders: Redis, redis_url: str, tmp_path: Path) -> None:
    with Terminal("-r", redis_url, "--interval", "1h", settings=tmp_path) as terminal:
        terminal.wait_for("● live", "orders", "? help")
        terminal.send(signal.SIGSTOP)
        terminal.screen.write("\x1b[2J")
        terminal.send(signal.SIGCONT)
        terminal.wait_for("● live", "orders", "? help")
        for _ in range(5):
            terminal.type("?")
            terminal.wait_for("Show only queues")
            terminal.type("\x1b")
            terminal.wait_until_gone("Show only queues")

        assert end_of(terminal, "q") == 0


def test_a_crash_gives_the_terminal_back_and_tells_no_values(orders: Redis, redis_url: str, tmp_path: Path) -> None:
    url = redis_url.replace("://", "://default:battery-staple@")
    with Terminal("-r", url, settings=tmp_path, command=("-c", _CRASH)) as terminal:
        terminal.wait_for("● live", "orders", "? help")

        assert end_of(terminal, "?") == 1
        printed = "".join(terminal.screen.written)
        assert "RuntimeError: ␛]0;PWNED␇[/foo]" in printed
        assert "in action_help" in printed
        assert "correct-horse" not in printed
        assert "battery-staple" not in printed
        assert "OSC 0" not in terminal.screen.commands
