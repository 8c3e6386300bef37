"""A server that lies: it answers whatever it is asked with one of ``LIES``, which may have no end."""

import re
import socket
import socketserver
import struct
import threading
import time
from collections.abc import Callable, Iterator
from itertools import repeat
from types import TracebackType

from tests.protocol.responder import FakeServer

_PUSH = b">2\r\n+invalidate\r\n*1\r\n$1\r\na\r\n"
_ODD_PUSHES = b">0\r\n>1\r\n*0\r\n>2\r\n+invalidate\r\n:7\r\n>1\r\n$1\r\n\xff\r\n:1\r\n"
_INFO = b"redis_version:\xff\r\nuptime_in_seconds:-1\r\nused_memory:nan\r\n:\r\n"
_DRIP_S = 0.02
_COMMAND = re.compile(rb"\*\d+\r\n\$")


def _time(seconds: bytes, microseconds: bytes = b"0") -> bytes:
    return b"*2\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n" % (len(seconds), seconds, len(microseconds), microseconds)


def _info(text: bytes) -> bytes:
    return b"$%d\r\n%s\r\n" % (len(text), text)


# What answers the commands of one message, of which there are so many.
LIES: dict[str, Callable[[int], Iterator[bytes]]] = {
    "pushes": lambda commands: repeat(_PUSH * 2_000),
    "odd pushes": lambda commands: iter([_ODD_PUSHES * commands]),
    "billion": lambda commands: iter([b"*1000000000\r\n"]),
    "billion in a row": lambda commands: iter([b"*1\r\n*2\r\n*1000000000\r\n"]),
    "terabyte": lambda commands: repeat(b"$999999999999\r\n" + b"x" * 65_536),
    "terabyte in an array": lambda commands: repeat(b"*1\r\n$999999999999\r\n" + b"x" * 65_536),
    "deep": lambda commands: iter([b"*1\r\n" * 100_000 + b":1\r\n"]),
    "deep without end": lambda commands: repeat(b"*1\r\n" * 16_000),
    "line without end": lambda commands: repeat(b"+" + b"x" * 65_535),
    "garbage": lambda commands: repeat(b"\x00\xff\r\n garbage *$:" * 1_000),
    "drip": lambda commands: repeat(b"*"),
    "half": lambda commands: iter([b"*2\r\n$10\r\n16"]),
    "nothing": lambda commands: iter([]),
    "statuses": lambda commands: iter([b"+OK\r\n" * commands]),
    "zeros": lambda commands: iter([b":0\r\n" * commands]),
    "minus one": lambda commands: iter([b":-1\r\n" * commands]),
    "huge numbers": lambda commands: iter([b":9223372036854775807\r\n" * commands]),
    "nils": lambda commands: iter([b"$-1\r\n" * commands]),
    "empty arrays": lambda commands: iter([b"*0\r\n" * commands]),
    "arrays of arrays": lambda commands: iter([b"*2\r\n*1\r\n*0\r\n*1\r\n*0\r\n" * commands]),
    "arrays of errors": lambda commands: iter([b"*2\r\n-ERR inner\r\n-WRONGTYPE inner\r\n" * commands]),
    "twice": lambda commands: iter([_time(b"1763820000") * 2 * commands]),
    "big numbers": lambda commands: iter([b"(1234567890123456789012345678901234567890\r\n" * commands]),
    "not a number": lambda commands: iter([b",nan\r\n" * commands]),
    "infinity": lambda commands: iter([b"*2\r\n,inf\r\n,-inf\r\n" * commands]),
    "verbatim": lambda commands: iter([b"=6\r\ntxt:ab\r\n" * commands]),
    "booleans": lambda commands: iter([b"*2\r\n#t\r\n#f\r\n" * commands]),
    "attributes": lambda commands: iter([b"|1\r\n+a\r\n:1\r\n:5\r\n" * commands]),
    "maps": lambda commands: iter([b"%1\r\n*0\r\n:1\r\n" * commands]),
    "errors": lambda commands: iter([b"-ERR \x1b]0;P\x07\x1b[2J\xff[/foo] \x00\r\n" * commands]),
    "time zero": lambda commands: iter([_time(b"0") * commands]),
    "time below zero": lambda commands: iter([_time(b"-1763820000") * commands]),
    "time beyond": lambda commands: iter([_time(b"99999999999999") * commands]),
    "time of 64 bits": lambda commands: iter([_time(b"9223372036854775807", b"-9223372036854775808") * commands]),
    "time of a novel": lambda commands: iter([_time(b"9" * 5_000) * commands]),
    "info": lambda commands: iter([_info(_INFO) * commands]),
}  # fmt: skip


class Liar(FakeServer):
    """Listens on a port of this machine, and lies as ``lie`` says; ``told`` counts the bytes that went out."""

    def __init__(self, lie: str) -> None:
        self.told = 0
        self._ends = threading.Event()
        liar = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                # A reset ends a flood at once, whatever is under way.
                self.request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.request.settimeout(0.1)
                while not liar._ends.is_set():
                    try:
                        data = self.request.recv(65_536)
                    except TimeoutError:
                        continue
                    except OSError:
                        return
                    if not data or not self._lie(data):
                        return

            def _lie(self, data: bytes) -> bool:
                for part in LIES[lie](max(1, len(_COMMAND.findall(data)))):
                    try:
                        self.request.sendall(part)
                    except OSError:
                        return False
                    liar.told += len(part)
                    if liar._ends.is_set():
                        return False
                    if lie == "drip":
                        time.sleep(_DRIP_S)
                return lie != "half"

        super().__init__(Handler)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.set()
        super().__exit__(kind, error, trace)
