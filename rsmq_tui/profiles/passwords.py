"""Passwords from a variable, a file or a command, read when a connection is made. None of them is written to disk."""

import atexit
import os
import re
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, NoReturn

from rsmq_tui.protocol import ExplainedError, Failure, Password
from rsmq_tui.protocol.errors import redact

COMMAND_TIMEOUT_S = 10.0
# The dashboard opens several connections when it starts: a security key or PIN is then needed only once.
_REUSED_FOR_S = 30.0
_BYTES_MAX = 65_536
_WORDS_MAX = 300
# Text that is probably a secret: values with a telling name, a URL's user and password, and long random words.
_SECRET_NAME = re.compile(r"PASS|PWD|SECRET|TOKEN|CREDENTIAL|_KEY$", re.IGNORECASE)
_NAMED_SECRET = re.compile(
    r"""((?:passw(?:or)?d|passphrase|pwd|secret|token|api[_-]?key|credentials?|authorization|bearer|basic)"""
    r"""(?:["']?\s*[:=]\s*|["']?\s+is\s+|(?<=--password)\s+|(?<=--token)\s+|(?<=bearer)\s+)(?:bearer\s+|basic\s+)?)"""
    r"""("[^"]*"|'[^']*'|\S+)""",
    re.IGNORECASE,
)
_USER_INFO = re.compile(r"(?<=://)[^/\s@]+@")
_RANDOM = re.compile(r"(?<![\w/.-])(?=[^\s/]*\d)(?=[^\s/]*[A-Za-z])[\w+=~.-]{20,}(?![\w/])")
_running: set["subprocess.Popen[bytes]"] = set()
# Held while a command starts: a program that ends meanwhile must know it.
_starting = threading.Lock()
_START_MAX_S = 2.0


def from_variable(name: str) -> Password:
    """Return a reader of a password in an environment variable."""

    def read() -> str:
        value = os.environ.get(name)
        if value is None:
            _fail(f"the environment variable {name} is not set", "it must contain the password of this profile")
        return _first_line(value.encode("utf-8", "surrogateescape"), f"the environment variable {name}")

    return read


def from_file(path: Path) -> Password:
    """Return a reader of a password on the first line of a file; a file that other users can read is refused.

    A group may read the file, because services get their secrets that way. So may others on a read-only file system,
    because container secrets are mounted like that, and their mode cannot be changed.
    """

    def read() -> str:
        try:
            with path.open("rb") as file:
                if _others_may_read(file.fileno()):
                    _fail(
                        f"other users can read the password file {path}",
                        f"run `chmod o= {path}`, and change the password",
                    )
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
    """Return a reader of a password on the first line that a command prints.

    The command runs without a shell and without a terminal. Its password is reused for half a minute.
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
    """Return a reader of a password that is in the configuration file."""
    return lambda: text


def _others_may_read(file: int) -> bool:
    if os.name != "posix" or not os.fstat(file).st_mode & stat.S_IROTH:
        return False
    return not os.fstatvfs(file).f_flag & os.ST_RDONLY


def _output(command: Sequence[str], timeout_s: float) -> bytes:
    named = f"the password command {command[0]}"
    hint = "run it yourself: it must print the password without a terminal"
    try:
        with _starting:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                # Without a terminal, it cannot prompt in the middle of the dashboard.
                start_new_session=True,
            )
            _running.add(process)
    except (OSError, ValueError) as error:
        words = error.strerror if isinstance(error, OSError) else "it contains an invalid character"
        _fail(f"{named} cannot be run: {words}", hint)
    try:
        output, errors = _printed(process, timeout_s)
    except TimeoutError:
        _fail(f"{named} took longer than {timeout_s:g} s", hint)
    except _TooMuchError:
        _fail(f"{named} printed more than {_BYTES_MAX:,} bytes", hint)
    finally:
        if process.poll() is None:
            _kill(process)
            process.wait()
        _running.discard(process)
    if process.returncode != 0:
        how = f"status {process.returncode}" if process.returncode > 0 else f"signal {-process.returncode}"
        words = without_secrets(" ".join(errors.decode("utf-8", "replace").split()), output)[:_WORDS_MAX]
        _fail(f"{named} failed with {how}{': ' if words else ''}{words}", hint)
    return output


class _TooMuchError(Exception):
    """A command printed more than ``_BYTES_MAX``."""


class _Pipe(threading.Thread):
    """Reads the output of a command, up to the limit; releases ``ended`` at the end or at the limit."""

    def __init__(self, pipe: IO[bytes], ended: threading.Semaphore) -> None:
        super().__init__(name="password command", daemon=True)
        self.read = b""
        self._pipe = pipe
        self._ended = ended

    def run(self) -> None:
        """Read to the end; a child of the command in another session may hold the pipe open much longer."""
        with self._pipe as pipe:
            try:
                while len(self.read) <= _BYTES_MAX and (part := pipe.read(_BYTES_MAX)):
                    self.read += part
            finally:
                self._ended.release()


def _printed(process: "subprocess.Popen[bytes]", timeout_s: float) -> tuple[bytes, bytes]:
    """Return stdout and stderr of a command; raises ``TimeoutError`` and ``_TooMuchError``."""
    if process.stdout is None or process.stderr is None:
        raise RuntimeError("the process has no pipes")
    deadline_s = time.monotonic() + timeout_s
    ended = threading.Semaphore(0)
    pipes = _Pipe(process.stdout, ended), _Pipe(process.stderr, ended)
    for pipe in pipes:
        pipe.start()
    for _ in pipes:
        if not ended.acquire(timeout=max(0.0, deadline_s - time.monotonic())):
            raise TimeoutError
        if any(len(pipe.read) > _BYTES_MAX for pipe in pipes):
            raise _TooMuchError
    try:
        process.wait(max(0.0, deadline_s - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise TimeoutError from None
    return pipes[0].read, pipes[1].read


def without_secrets(words: str, output: bytes = b"") -> str:
    """Mask possible secrets in the error text of a failed command, also what it printed."""
    known = [line.decode("utf-8", "replace").strip() for line in output.splitlines()]
    known += [value for name, value in os.environ.items() if _SECRET_NAME.search(name)]
    for secret in known:
        words = redact(words, secret)
    words = _USER_INFO.sub("***@", words)
    words = _NAMED_SECRET.sub(r"\1***", words)
    return _RANDOM.sub("***", words)


def _kill(process: "subprocess.Popen[bytes]") -> None:
    if sys.platform == "win32":
        process.kill()
    else:
        # Kill its children too: they hold the pipes open.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


@atexit.register
def _kill_running() -> None:
    """Kill the commands that are still running when the program ends; no other is started then."""
    _starting.acquire(timeout=_START_MAX_S)
    for process in tuple(_running):
        _kill(process)


def _first_line(content: bytes, named: str) -> str:
    line = content.split(b"\n", 1)[0].removesuffix(b"\r")
    try:
        password = line.decode()
    except UnicodeDecodeError:
        password = ""
    if not password:
        _fail(
            f"{named} has no password on its first line",
            "the first line must be UTF-8 text and contain only the password",
        )
    return password


def _fail(sentence: str, hint: str) -> NoReturn:
    raise ExplainedError(Failure("password", sentence, hint)) from None
