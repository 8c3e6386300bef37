"""The list server: beside Valkey, beside fakeredis' server, and beside itself with more in it.

Each server is a process of its own; the calls are made over plain sockets, so that no client's cost hides theirs.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.listserver import ListServer
from tests.bench.measure import Sample, Side, interleave
from tests.bench.row import Measured, Row, Run, Sense
from tests.listserver.peers import Connection, request

_ELEMENT = b"x" * 50
_OURS = """
import asyncio
from rsmq_tui.listserver import ListServer
server = ListServer()
asyncio.run(server.run(lambda: print(server.port, flush=True)))
"""
_FAKEREDIS = """
from fakeredis import TcpFakeServer
server = TcpFakeServer(("127.0.0.1", 0))
print(server.server_address[1], flush=True)
server.serve_forever()
"""


@contextmanager
def _process(program: str) -> Iterator[int]:
    """Run a server that prints its port."""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


def _pairs(port: int, *, pipelined: int, calls: int, key: str = "queue", length: int = 0, popped: int = 57) -> Side:
    """Return how long a call takes, in microseconds, of LPUSH and RPOP in turn, ``pipelined`` in one write."""
    pushed = len(b":%d\r\n" % (length + 1))
    connection = Connection(port)
    push, pop = request("LPUSH", key, _ELEMENT), request("RPOP", key)
    if pipelined == 1:
        sizes = [(push, pushed), (pop, popped)]
    else:
        sizes = [((push + pop) * (pipelined // 2), (pushed + popped) * (pipelined // 2))]

    def sample() -> float:
        begun_s = time.perf_counter()
        for _ in range(calls // (pipelined * len(sizes)) or 1):
            for data, size in sizes:
                connection.socket.sendall(data)
                while size > 0:
                    size -= len(connection.socket.recv(65536))  # noqa: PLW2901 - it counts down
        return (time.perf_counter() - begun_s) * 1e6 / calls

    return lambda: sample


def _against(run: Run, *, pipelined: int, other: "Callable[[ExitStack], int]") -> Measured:
    with ExitStack() as stack:
        ports = stack.enter_context(_process(_OURS)), other(stack)
        calls = run.size(5000, 100)
        # fakeredis replies a simple string in place of a bulk string.
        sizes = 57, 53 if other is _fakeredis else 57
        ours, theirs = (
            _pairs(port, pipelined=pipelined, calls=calls, popped=popped)
            for port, popped in zip(ports, sizes, strict=True)
        )
        return interleave(run, ours, theirs, pairs=15, limit_s=20)


def _valkey(stack: ExitStack) -> int:
    return stack.enter_context(EmbeddedServer()).port


def _fakeredis(stack: ExitStack) -> int:
    return stack.enter_context(_process(_FAKEREDIS))


def _wake_up(run: Run) -> Measured:
    """How long it takes from a push until the first of those who wait has its element."""
    with ExitStack() as stack:
        sides = []
        for count in (run.size(10_000, 20), run.size(10, 2)):
            port = stack.enter_context(_process(_OURS))
            waiting = [Connection(port) for _ in range(count)]
            for connection in waiting:
                stack.callback(connection.close)
                connection.send("BLPOP", "queue", 0)
            sides.append(_waiting(port, waiting))
        return interleave(run, *sides, pairs=200, limit_s=20)


def _waiting(port: int, waiting: list[Connection]) -> Side:
    producer = Connection(port)
    while f"blocked_clients:{len(waiting)}".encode() not in producer.call("INFO", "clients"):
        pass

    def sample() -> float:
        first = waiting.pop(0)
        begun_s = time.perf_counter()
        producer.send("RPUSH", "queue", _ELEMENT)
        first.read()
        taken_s = time.perf_counter() - begun_s
        producer.read()
        first.send("BLPOP", "queue", 0)
        waiting.append(first)
        return taken_s * 1e6

    return lambda: sample


def _long_list(run: Run) -> Measured:
    with ExitStack() as stack:
        port = stack.enter_context(_process(_OURS))
        connection = Connection(port)
        thousands = run.size(1000, 1)
        for _ in range(thousands):
            connection.call("LPUSH", "long", *([_ELEMENT] * 1000))
        calls = run.size(5000, 100)
        ours = _pairs(port, pipelined=50, calls=calls, key="long", length=thousands * 1000)
        return interleave(run, ours, _pairs(port, pipelined=50, calls=calls), pairs=15, limit_s=20)


def _start(run: Run) -> Measured:
    """How long a test waits for a server of its own, in milliseconds, beside the embedded Valkey."""

    def started(server: type[ListServer] | type[EmbeddedServer]) -> Sample:
        def sample() -> float:
            begun_s = time.perf_counter()
            with server():
                return (time.perf_counter() - begun_s) * 1000

        return sample

    return interleave(
        run, partial(started, ListServer), partial(started, EmbeddedServer), pairs=20, warm_up=1, limit_s=10
    )


ROWS = (
    Row(
        "list server, LPUSH and RPOP one by one",
        "Valkey",
        "us",
        Sense.TIMES_LESS,
        0.3,
        partial(_against, pipelined=1, other=_valkey),
    ),
    Row(
        "list server, LPUSH and RPOP in pipelines of 50",
        "Valkey",
        "us",
        Sense.TIMES_LESS,
        0.1,
        partial(_against, pipelined=50, other=_valkey),
    ),
    Row(
        "list server, pipelines of 50",
        "fakeredis' TCP server",
        "us",
        Sense.TIMES_LESS,
        5.0,
        partial(_against, pipelined=50, other=_fakeredis),
    ),
    Row("list server, wake-up of one of 10,000 who wait", "one of 10", "us", Sense.AT_MOST, 2.0, _wake_up),
    Row("list server, push and pop at a list of 1,000,000", "an empty list", "us", Sense.AT_MOST, 1.2, _long_list),
    Row("list server, start in a test", "the embedded Valkey's", "ms", Sense.AT_MOST, 1.0, _start),
)
