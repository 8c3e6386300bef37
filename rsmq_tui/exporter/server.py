"""The exporter's HTTP server, and its answers."""

import asyncio
import concurrent.futures
import gzip
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from importlib.resources import files
from io import BufferedReader
from math import inf
from socketserver import BaseServer, TCPServer, ThreadingMixIn
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

from prometheus_client.exposition import choose_encoder, gzip_accepted

from rsmq_tui import __version__
from rsmq_tui.exporter.metrics import registry_of
from rsmq_tui.exporter.poller import Reading, Watches
from rsmq_tui.monitor.text import printable
from rsmq_tui.protocol import defect_of

# The highest level takes several times as long for a few per cent.
_GZIP_LEVEL = 4


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a scraper asked for: `Accept`, `Accept-Encoding`, and the only series that it wants, if it said so."""

    accept: str = ""
    encoding: str = ""
    names: tuple[str, ...] = ()


class Renderer:
    """Writes readings down; may be called from any thread.

    The last answer is kept: writing a thousand queues down takes a hundred times as long as polling them, and scrapes
    that share a poll share that too.
    """

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._key: object = None
        self._answer: tuple[bytes, dict[str, str]] = b"", {}

    def render(self, readings: Sequence[Reading], wanted: Wanted) -> tuple[bytes, dict[str, str]]:
        """Return the body, and the headers that say what it is."""
        key = tuple(readings), wanted
        with self._turn:
            if key != self._key:
                self._answer, self._key = _render(readings, wanted), key
            return self._answer


def _render(readings: Sequence[Reading], wanted: Wanted) -> tuple[bytes, dict[str, str]]:
    # A header may go over several lines, and part of it comes back in the answer's.
    accept = " ".join(wanted.accept.split())
    try:
        encode, content_type = choose_encoder(accept)
    except TypeError:
        # A version that is no number.
        encode, content_type = choose_encoder("")
    registry: Any = registry_of(readings)
    if wanted.names:
        registry = registry.restricted_registry(wanted.names)
    body = encode(registry)
    headers = {"Content-Type": content_type, "Vary": "Accept, Accept-Encoding"}
    if gzip_accepted(wanted.encoding):
        body = gzip.compress(body, compresslevel=_GZIP_LEVEL)
        headers["Content-Encoding"] = "gzip"
    return body, headers


# Prometheus says how long it waits; the answer has to be there before.
_MARGIN_S = 0.5
_LEAST_S = 0.1
# How often the listening thread looks whether it is to end.
_STOP_S = 0.1
_TOO_MANY = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\nRetry-After: 1\r\n"
    b"Content-Length: 21\r\nConnection: close\r\n\r\ntoo many connections\n"
)


@dataclass(frozen=True, slots=True)
class Answers:
    """Where answers come from; both are called from any thread.

    ``scrape`` gets how many seconds it may take at most (None: as long as it likes), and raises ``UnavailableError``
    when the exporter is shutting down. ``failed`` gives the targets whose last poll failed.
    """

    scrape: Callable[[float | None], tuple[Reading, ...]]
    failed: Callable[[], tuple[Reading, ...]]


class UnavailableError(Exception):
    """The exporter is ending and takes no more scrapes."""


@dataclass(slots=True)
class _Connection:
    """What a connection is doing, and until when it may; ``ends_s`` is None while its answer is being made."""

    ends_s: float | None
    is_idle: bool = True


class MetricsServer(ThreadingMixIn, TCPServer):
    """Listens on ``host`` and ``port`` from the beginning (0: a free one), and serves between ``start`` and ``stop``.

    A connection that is slow to ask or to read is closed. So is the one that has been idle for longest when there are
    ``connections_max``; where none is idle, a new one is answered with 503. Raises OSError where it cannot listen, and
    UnicodeError for what cannot be a host.
    """

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 64
    # Each has a thread; scrapers are few.
    connections_max = 100
    # For the first byte of the first request, and for each whole request with its headers.
    request_s = 10.0
    # A scraper keeps its connection between two scrapes, which are seldom two minutes apart.
    idle_s = 120.0
    # For taking an answer.
    answer_s = 60.0

    answers: Answers

    def __init__(self, host: str, port: int) -> None:
        self.renderer = Renderer()
        self._busy = 0
        self._changed = threading.Condition()
        self._open: dict[Any, _Connection] = {}
        family, _, _, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        self.address_family = family
        super().__init__(cast("tuple[str, int]", address), _Handler)
        self._thread = threading.Thread(target=self.serve_forever, args=(_STOP_S,), name="exporter", daemon=True)

    @property
    def url(self) -> str:
        """Where it listens."""
        host, port = self.server_address[:2]
        shown = str(host)
        return f"http://{f'[{shown}]' if ':' in shown else shown}:{port}"

    def start(self, answers: Answers) -> None:
        """Serve these answers, in a thread."""
        self.answers = answers
        self._thread.start()

    def stop(self, patience_s: float) -> None:
        """Take no more connections, give the requests under way ``patience_s`` to end, and close everything."""
        self.shutdown()
        with self._changed:
            self._changed.wait_for(lambda: self._busy == 0, patience_s)
            idle = tuple(self._open)
        for connection in idle:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.server_close()

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Count a request that ``stop`` waits for."""
        with self._changed:
            self._busy += 1
        try:
            yield
        finally:
            with self._changed:
                self._busy -= 1
                self._changed.notify_all()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread, or say that there are too many."""
        with self._changed:
            if len(self._open) >= self.connections_max:
                self._close_idle()
            refused = len(self._open) >= self.connections_max
            if not refused:
                self._open[request] = _Connection(time.monotonic() + self.request_s)
        if refused:
            with suppress(OSError):
                request.setblocking(False)
                request.send(_TOO_MANY)
            self.shutdown_request(request)
        else:
            super().process_request(request, client_address)

    def service_actions(self) -> None:
        """Close the connections whose time is up."""
        now_s = time.monotonic()
        with self._changed:
            for request in [each for each, known in self._open.items() if (known.ends_s or now_s) < now_s]:
                self._give_up(request)

    def expect(self, request: Any, within_s: float | None, *, is_idle: bool = False) -> None:
        """Say what a connection does from now on, and how long it may."""
        with self._changed:
            if known := self._open.get(request):
                known.ends_s = None if within_s is None else time.monotonic() + within_s
                known.is_idle = is_idle

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        with self._changed:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say on stderr where this program failed; a client that hung up is no error."""
        error = sys.exception()
        if error is not None and not isinstance(error, OSError):
            sys.stderr.write(f"rsmq-tui: {defect_of(error).sentence}: please report it\n")

    def _close_idle(self) -> None:
        """Close the connection that has been idle for longest, if there is any."""
        idle = [(known.ends_s or inf, request) for request, known in self._open.items() if known.is_idle]
        if idle:
            self._give_up(min(idle, key=lambda each: each[0])[1])

    def _give_up(self, request: Any) -> None:
        # The thread that reads or writes there takes it for a client that hung up.
        self._open.pop(request, None)
        with suppress(OSError):
            request.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    """Answers the requests of one connection."""

    protocol_version = "HTTP/1.1"
    server_version = f"rsmq-tui/{__version__}"
    sys_version = ""
    disable_nagle_algorithm = True
    server: BaseServer

    def setup(self) -> None:
        """Begin a connection: it has to ask soon."""
        self._idle_s = cast("MetricsServer", self.server).request_s
        super().setup()

    def handle_one_request(self) -> None:
        """Wait for a request, which then has to come soon, and answer it."""
        server = cast("MetricsServer", self.server)
        server.expect(self.request, self._idle_s, is_idle=True)
        self._idle_s = server.idle_s
        try:
            if not cast("BufferedReader", self.rfile).peek(1):
                self.close_connection = True
                return
            server.expect(self.request, server.request_s)
            super().handle_one_request()
        except OSError:
            self.close_connection = True

    def do_GET(self) -> None:
        """Answer GET."""
        server = cast("MetricsServer", self.server)
        server.expect(self.request, None)
        with server.busy():
            # A body, which no GET needs, would be taken for the next request.
            if "Content-Length" in self.headers or "Transfer-Encoding" in self.headers:
                self.close_connection = True
            try:
                parts = urlsplit(self.path)
                asked = parse_qs(parts.query)
            except ValueError:
                self.close_connection = True
                self._say(HTTPStatus.BAD_REQUEST, "the path is not valid")
                return
            match parts.path:
                case "/metrics":
                    self._metrics(server, tuple(asked.get("name[]", ())))
                case "/healthz":
                    self._health(server.answers)
                case _:
                    self._say(HTTPStatus.NOT_FOUND, "not found: use /metrics or /healthz")

    do_HEAD = do_GET  # noqa: N815 - as above; only the body is left out

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Log nothing: a line for each scrape helps nobody."""

    def _metrics(self, server: MetricsServer, names: tuple[str, ...]) -> None:
        try:
            readings = server.answers.scrape(self._limit_s())
        except UnavailableError:
            self.close_connection = True
            self._say(HTTPStatus.SERVICE_UNAVAILABLE, "the exporter is shutting down")
            return
        wanted = Wanted(
            self.headers.get("Accept", ""),
            self.headers.get("Accept-Encoding", ""),
            names,
        )
        self._send(HTTPStatus.OK, *server.renderer.render(readings, wanted))

    def _health(self, answers: Answers) -> None:
        failed = answers.failed()
        if failed:
            self._say(HTTPStatus.SERVICE_UNAVAILABLE, "\n".join(map(_sentence, failed)))
        else:
            self._say(HTTPStatus.OK, "ok")

    def _limit_s(self) -> float | None:
        """Return how long the scraper waits for an answer, if it says so."""
        try:
            told_s = float(self.headers.get("X-Prometheus-Scrape-Timeout-Seconds", ""))
        except ValueError:
            return None
        return max(_LEAST_S, told_s - _MARGIN_S) if 0 < told_s < 1e6 else None

    def _say(self, status: HTTPStatus, text: str) -> None:
        self._send(status, f"{text}\n".encode(), {"Content-Type": "text/plain; charset=utf-8"})

    def _send(self, status: HTTPStatus, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        server = cast("MetricsServer", self.server)
        server.expect(self.request, server.answer_s)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _sentence(reading: Reading) -> str:
    target, failure = reading.target, reading.failure
    where = " ".join(filter(None, (target.profile, target.server, target.ns)))
    return f"{printable(where)}: {failure.sentence}; {failure.hint}" if failure else printable(where)


@asynccontextmanager
async def serving(server: MetricsServer, watches: Watches) -> AsyncIterator[None]:
    """Poll, and serve what is found, for the length of the block; a request under way at its end is still answered."""
    loop = asyncio.get_running_loop()

    def scrape(limit_s: float | None) -> tuple[Reading, ...]:
        coming = watches.scrape(limit_s)
        try:
            answer = asyncio.run_coroutine_threadsafe(coming, loop)
        except RuntimeError as error:
            # The loop is closed.
            coming.close()
            raise UnavailableError from error
        try:
            return answer.result()
        except concurrent.futures.CancelledError as error:
            raise UnavailableError from error

    async with asyncio.TaskGroup() as group:
        polling = group.create_task(watches.run())
        server.start(Answers(scrape, watches.failed))
        try:
            yield
        finally:
            await asyncio.to_thread(server.stop, watches.patience_s)
            polling.cancel()


ALERT_RULES = "alert_rules.yml"
DASHBOARD = "grafana_dashboard.json"


def read_example(name: str) -> str:
    """Return the text of one of the files; it is ASCII."""
    return files("rsmq_tui.exporter").joinpath(name).read_text("ascii")
