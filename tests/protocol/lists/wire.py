"""Redis's protocol byte by byte: a bare connection, and a tap that hears what a client and a server say."""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Self

from tests.waiting import SECONDS_MAX

Part = bytes | str | int


def command(*parts: Part) -> bytes:
    """Return a command as it is sent."""
    encoded = [part if isinstance(part, bytes) else str(part).encode() for part in parts]
    return b"*%d\r\n" % len(encoded) + b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in encoded)


class Wire:
    """A connection that sends bytes and reads replies, of which it understands no more than where they end."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=SECONDS_MAX)
        self._file = self._socket.makefile("rb")

    def send(self, *parts: Part) -> None:
        self.send_bytes(command(*parts))

    def send_bytes(self, data: bytes) -> None:
        self._socket.sendall(data)

    def reply(self) -> bytes:
        """Read one reply, whole."""
        line = self._file.readline()
        assert line.endswith(b"\r\n"), "the server hung up"
        count = int(line[1:]) if line[:1] in b"$*" else -1
        if count < 0:
            return line
        if line[:1] == b"$":
            return line + self._file.read(count + 2)
        return line + b"".join(self.reply() for _ in range(count))

    def ask(self, *parts: Part) -> bytes:
        self.send(*parts)
        return self.reply()

    def ask_bytes(self, data: bytes) -> bytes:
        self.send_bytes(data)
        return self.reply()

    def id(self) -> int:
        """The number that the server knows this connection by."""
        return int(self.ask("CLIENT", "ID")[1:])

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Tap:
    """A port that passes everything on to a server and back, and keeps what it hears."""

    def __init__(self, port: int) -> None:
        self._server_port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self.asked = bytearray()
        self.answered = bytearray()
        self._start(self._accept)

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def forget(self) -> None:
        """Keep only what is said from now on; nobody may be talking."""
        self.asked.clear()
        self.answered.clear()

    def _start(self, run: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=run, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._server_port))
            self._sockets += [client, server]
            self._start(self._pass_on, client, server, self.asked)
            self._start(self._pass_on, server, client, self.answered)

    def _pass_on(self, source: socket.socket, target: socket.socket, heard: bytearray) -> None:
        try:
            while data := source.recv(65_536):
                # Before it is passed on: whoever has the answer finds it here.
                heard += data
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # A thread that accepts or reads is woken by a shutdown, not by a close.
        for each in (self._listener, *self._sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(SECONDS_MAX)
        for each in (self._listener, *self._sockets):
            each.close()
