"""Plain connections to two servers at once, to compare what they reply."""

import select
import socket
from collections.abc import Iterable
from typing import Any

import hiredis

Word = bytes | str | int | float


class Connection:
    """One connection without a client library between."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = hiredis.Reader(notEnoughData=_NOTHING)

    def send(self, *words: Word) -> None:
        self.socket.sendall(request(*words))

    def read(self) -> Any:
        """Return the next reply; raises ``TimeoutError`` after 30 s, ``ConnectionError`` at the end."""
        while (reply := self._reader.gets()) is _NOTHING:
            data = self.socket.recv(65536)
            if not data:
                raise ConnectionError("the server ended the connection")
            self._reader.feed(data)
        return _plain(reply)

    def call(self, *words: Word) -> Any:
        self.send(*words)
        return self.read()

    def has_reply(self) -> bool:
        """Whether something has come; it may be a part of a reply."""
        return bool(select.select([self.socket], [], [], 0)[0])

    def close(self) -> None:
        self.socket.close()


def _plain(reply: Any) -> Any:
    """Return a reply with errors as text, which can be compared."""
    if isinstance(reply, list):
        return [_plain(part) for part in reply]
    return str(reply) if isinstance(reply, hiredis.HiredisError) else reply


_NOTHING: Any = object()


def request(*words: Word) -> bytes:
    encoded = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(encoded) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in encoded)


class Side:
    """One server with some clients, of which some wait."""

    def __init__(self, port: int, clients: int) -> None:
        self.admin = Connection(port)
        self.admin.call("FLUSHALL")
        self.clients = [Connection(port) for _ in range(clients)]
        self.ids = [client.call("CLIENT", "ID") for client in self.clients]
        self.waiting: set[int] = set()

    def call(self, number: int, words: Iterable[Word]) -> dict[int, Any]:
        """Let one client call; return the replies of all who got one by that, and note who waits now."""
        self.clients[number].send(*words)
        self.waiting.add(number)
        while True:
            # A command that was carried out is answered, or its client is listed as blocked.
            if self.clients[number].has_reply() or number in self._blocked():
                break
        return self.answered()

    def answered(self) -> dict[int, Any]:
        """Return the replies of those who do not wait any more."""
        awake = self.waiting - self._blocked()
        self.waiting -= awake
        return {number: self.clients[number].read() for number in sorted(awake)}

    def _blocked(self) -> set[int]:
        found = set()
        for line in self.admin.call("CLIENT", "LIST").decode().splitlines():
            fields = dict(field.split("=", 1) for field in line.split(" ") if field)
            if "b" in fields["flags"] and int(fields["id"]) in self.ids:
                found.add(self.ids.index(int(fields["id"])))
        return found

    def close(self) -> None:
        for each in (self.admin, *self.clients):
            each.close()
