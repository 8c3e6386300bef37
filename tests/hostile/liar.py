"""A server that lies: it answers whatever it is asked with one of ``LIES``, which may have no end."""

import re
import socket
import socketserver
import struct
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import repeat

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


def _repeated(reply: bytes, commands: int) -> Iterator[bytes]:
    return iter([reply * commands])


# What answers each command.
_REPLIES: dict[str, bytes] = {
    "odd pushes": _ODD_PUSHES,
    "statuses": b"+OK\r\n",
    "zeros": b":0\r\n",
    "minus one": b":-1\r\n",
    "huge numbers": b":9223372036854775807\r\n",
    "nils": b"$-1\r\n",
    "empty arrays": b"*0\r\n",
    "arrays of arrays": b"*2\r\n*1\r\n*0\r\n*1\r\n*0\r\n",
    "arrays of errors": b"*2\r\n-ERR inner\r\n-WRONGTYPE inner\r\n",
    "twice": _time(b"1763820000") * 2,
    "big numbers": b"(1234567890123456789012345678901234567890\r\n",
    "not a number": b",nan\r\n",
    "infinity": b"*2\r\n,inf\r\n,-inf\r\n",
    "verbatim": b"=6\r\ntxt:ab\r\n",
    "booleans": b"*2\r\n#t\r\n#f\r\n",
    "attributes": b"|1\r\n+a\r\n:1\r\n:5\r\n",
    "maps": b"%1\r\n*0\r\n:1\r\n",
    "errors": b"-ERR \x1b]0;P\x07\x1b[2J\xff[/foo] \x00\r\n",
    "time zero": _time(b"0"),
    "time below zero": _time(b"-1763820000"),
    "time beyond": _time(b"99999999999999"),
    "time of 64 bits": _time(b"9223372036854775807", b"-9223372036854775808"),
    "time of a novel": _time(b"9" * 5_000),
    "info": _info(_INFO),
}
# Those whose lies are long and have no end: each takes all of a processor while it is listened to.
FLOODS = ("pushes", "terabyte", "terabyte in an array", "deep without end", "line without end", "garbage")
# What answers the commands of one message, of which there are so many.
LIES: dict[str, Callable[[int], Iterator[bytes]]] = {
    "pushes": lambda commands: repeat(_PUSH * 2_000),
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
    **{name: partial(_repeated, reply) for name, reply in _REPLIES.items()},
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

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        super().__exit__()
