"""However a parent ends, its server and the server's folder go with it."""

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.demo.processes import is_alive, parent, wait_until_gone
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name != "posix", reason="the guard is a POSIX shell")]

START = """
import multiprocessing, os, signal, subprocess, sys, time
from pathlib import Path
from rsmq_tui.cli.demo import EmbeddedServer
server = EmbeddedServer(directory=Path(sys.argv[1]), unix_socket=sys.argv[2:] == ["unix"])
server.start()
"""
READY = "print(server.pid, flush=True)\n"
WAIT = "signal.pause()\n"


@pytest.fixture
def folder() -> Iterator[Path]:
    # tmp_path can be too long for a socket.
    with tempfile.TemporaryDirectory(prefix="rsmq-test-") as made:
        yield Path(made)


def wait_until_empty(folder: Path) -> None:
    wait_until(lambda: not list(folder.iterdir()))


@pytest.mark.parametrize("transport", ["tcp", "unix"])
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL, signal.SIGABRT])
def test_a_signal_to_the_parent(folder: Path, sent: signal.Signals, transport: str) -> None:
    with parent(START + READY + WAIT, str(folder), transport) as (process, (pid,)):
        assert is_alive(int(pid))
        process.send_signal(sent)
        wait_until_gone(int(pid))
        wait_until_empty(folder)


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_to_the_parents_process_group(folder: Path, sent: signal.Signals) -> None:
    with parent(START + READY + WAIT, str(folder)) as (process, (pid,)):
        os.killpg(process.pid, sent)
        wait_until_gone(int(pid))
        wait_until_empty(folder)


@pytest.mark.parametrize("end", ["raise RuntimeError", "os._exit(3)", "os.abort()", "sys.exit(3)", ""])
def test_the_parent_ends_by_itself(folder: Path, end: str) -> None:
    with parent(START + READY + end, str(folder)) as (process, (pid,)):
        process.wait()
        wait_until_gone(int(pid))
        wait_until_empty(folder)


def test_ctrl_c_leaves_the_server_to_a_parent_that_goes_on(folder: Path) -> None:
    going_on = """
# The handler may run while the line below is printed, when nothing else may be printed to the same file object.
signal.signal(signal.SIGINT, lambda *_: os.write(1, f"{server.is_running}\\n".encode()))
print(server.pid, flush=True)
while True:
    signal.pause()
"""
    with parent(START + going_on, str(folder)) as (process, (pid,)):
        os.killpg(process.pid, signal.SIGINT)
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        process.kill()
        wait_until_gone(int(pid))


@pytest.mark.parametrize(
    "other",
    [
        "os.fork() or os.execlp('sleep', 'sleep', '60')",
        "subprocess.Popen(['sleep', '60'])",
        "subprocess.Popen(['sleep', '60'], close_fds=False)",
        "multiprocessing.get_context('fork').Process(target=time.sleep, args=(60,)).start()",
        "multiprocessing.get_context('spawn').Process(target=time.sleep, args=(60,)).start()",
        "other = EmbeddedServer(); other.start()",
    ],
)
def test_other_children_do_not_keep_the_server_alive(folder: Path, other: str) -> None:
    with parent(START + other + "\n" + READY + WAIT, str(folder)) as (process, (pid,)):
        process.kill()
        wait_until_gone(int(pid))
        wait_until_empty(folder)


def test_a_forked_child_neither_stops_the_server_nor_loses_sight_of_it(folder: Path) -> None:
    fork = """
child = os.fork()
if not child:
    alive = server.is_running
    server.stop()
    sys.exit(7 if alive else 8)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(server.pid, status, server.is_running, flush=True)
"""
    with parent(START + fork, str(folder)) as (process, words):
        assert words[1:] == ["7", "True"]
        process.wait()
        assert process.stderr is not None
        assert process.stderr.read() == ""
        wait_until_gone(int(words[0]))


def test_a_server_started_in_a_forked_child_ends_with_the_child(folder: Path) -> None:
    fork = """
if not os.fork():
    mine = EmbeddedServer(directory=Path(sys.argv[1]))
    mine.start()
    print(server.pid, mine.pid, os.getpid(), flush=True)
signal.pause()
"""
    with parent(START + fork, str(folder)) as (process, (theirs, mine, child)):
        os.kill(int(child), signal.SIGKILL)
        wait_until_gone(int(mine))
        assert is_alive(int(theirs))
        process.kill()
        wait_until_gone(int(theirs))
        wait_until_empty(folder)


def test_the_parent_dies_after_its_server_did(folder: Path) -> None:
    crash = """
os.kill(server.pid, signal.SIGKILL)
while server.is_running:
    time.sleep(0.001)
"""
    with parent(START + crash + READY + WAIT, str(folder)) as (process, (pid,)):
        assert not is_alive(int(pid))
        assert list(folder.iterdir())
        process.kill()
        wait_until_empty(folder)


@pytest.mark.skipif(shutil.which("pgrep") is None, reason="needs pgrep")
def test_stopping_without_the_guard(folder: Path) -> None:
    without = """
guards = subprocess.run(["pgrep", "-P", str(server.pid)], capture_output=True, text=True).stdout.split()
for guard in guards:
    os.kill(int(guard), signal.SIGKILL)
pid = server.pid
server.stop()
print(pid, len(guards), flush=True)
"""
    with parent(START + without, str(folder)) as (process, (pid, guards)):
        assert guards == "1"
        wait_until_gone(int(pid))
        wait_until_empty(folder)
        assert process.wait() == 0
