"""A Valkey server of our own: loopback or a unix socket, nothing on disk, gone when this process is."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from rsmq_tui.embedded.binary import find_server
from rsmq_tui.embedded.errors import ServerStartError
from rsmq_tui.embedded.guard import let_go, spawn_guarded, tell_gone
from rsmq_tui.embedded.lifetime import Lifetime, Running

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
