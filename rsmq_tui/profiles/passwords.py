"""Where passwords come from when a connection is made: a variable, a file, a command. None of it is kept on disk."""

import atexit
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from rsmq_tui.protocol import ExplainedError, Failure, Password

COMMAND_TIMEOUT_S = 10.0
# The dashboard makes a few connections when it starts: who must touch a key or type a PIN for it is asked once.
_REUSED_FOR_S = 30.0
_BYTES_MAX = 65_536
_WORDS_MAX = 300
_running: set["subprocess.Popen[bytes]"] = set()


def from_variable(name: str) -> Password:
    """Return what reads a password from an environment variable."""

    def read() -> str:
        value = os.environ.get(name)
        if value is None:
            _fail(f"the environment variable {name} is not set", "it holds the password of this profile")
        return _first_line(value.encode("utf-8", "surrogateescape"), f"the environment variable {name}")

    return read


def from_file(path: Path) -> Password:
    """Return what reads a password from the first line of a file; one that others may read is refused.

    A group may: that is how a service is given its secrets. So is a file that cannot be changed where it is, which is
    how secrets are mounted into containers: nobody there could do anything about its mode.
    """

    def read() -> str:
        try:
            with path.open("rb") as file:
                if _others_may_read(file.fileno()):
                    _fail(f"others may read the password file {path}", f"run `chmod o= {path}`, and think of a new one")
                content = file.read(_BYTES_MAX)
        except OSError as error:
            _fail(f"the password file {path} cannot be read: {error.strerror}", "the profile's password_file names it")
        return _first_line(content, f"the password file {path}")

    return read


def from_command(
    command: Sequence[str],
    *,
    timeout_s: float = COMMAND_TIMEOUT_S,
    clock: Callable[[], float] = time.monotonic,
) -> Password:
    """Return what takes a password from the first line that a command prints; it is run without a shell.

    It has no terminal. What it printed is reused for the connections of the next half minute.
    """
    lock = threading.Lock()
    fetched: list[tuple[float, str]] = []

    def read() -> str:
        with lock:
            if not fetched or clock() - fetched[0][0] > _REUSED_FOR_S:
                fetched[:] = []
                fetched.append((clock(), _first_line(_output(command, timeout_s), f"the command {command[0]}")))
            return fetched[0][1]

    return read


def from_text(text: str) -> Password:
    """Return what gives a password that the configuration file holds."""
    return lambda: text


def _others_may_read(file: int) -> bool:
    if os.name != "posix" or not os.fstat(file).st_mode & stat.S_IROTH:
        return False
    return not os.fstatvfs(file).f_flag & os.ST_RDONLY


def _output(command: Sequence[str], timeout_s: float) -> bytes:
    named = f"the password command {command[0]}"
    hint = "run it by hand: it prints the password, and needs no terminal"
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Whatever it asks, it may not ask it in the middle of the dashboard.
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        words = error.strerror if isinstance(error, OSError) else "it holds what no command can"
        _fail(f"{named} cannot be run: {words}", hint)
    _running.add(process)
    try:
        with process:
            try:
                output, errors = process.communicate(timeout=timeout_s)
            except subprocess.TimeoutExpired:
                _kill(process)
                _fail(f"{named} took longer than {timeout_s:g} s", hint)
            except BaseException:
                _kill(process)
                raise
    finally:
        _running.discard(process)
    if process.returncode != 0:
        how = f"status {process.returncode}" if process.returncode > 0 else f"signal {-process.returncode}"
        words = " ".join(errors.decode("utf-8", "replace").split())[:_WORDS_MAX]
        _fail(f"{named} failed with {how}{': ' if words else ''}{words}", hint)
    return output


def _kill(process: "subprocess.Popen[bytes]") -> None:
    if sys.platform == "win32":
        process.kill()
    else:
        # Its children hold the pipes that would be waited for.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


@atexit.register
def _kill_running() -> None:
    """End the commands that nobody waits for any more: the program ends without them."""
    for process in tuple(_running):
        _kill(process)


def _first_line(content: bytes, named: str) -> str:
    line = content.split(b"\n", 1)[0].removesuffix(b"\r")
    try:
        password = line.decode()
    except UnicodeDecodeError:
        password = ""
    if not password:
        _fail(f"{named} holds no password on its first line", "it is text in UTF-8, and nothing else is on that line")
    return password


def _fail(sentence: str, hint: str) -> NoReturn:
    raise ExplainedError(Failure("password", sentence, hint)) from None
