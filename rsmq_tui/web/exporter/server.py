"""The exporter's HTTP server and its responses."""

import asyncio
import concurrent.futures
import re
import socket
import sys
import threading
import time
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from importlib.resources import files
from io import BufferedReader
from itertools import chain
from math import inf
from socketserver import BaseServer, TCPServer, ThreadingMixIn
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

from prometheus_client.exposition import choose_encoder, gzip_accepted

from rsmq_tui import __version__
from rsmq_tui.monitor.text import printable
from rsmq_tui.protocol import defect_of
from rsmq_tui.web.exporter.metrics import queue_metrics, registry_of
from rsmq_tui.web.exporter.poller import Reading, TargetPollers

# From 4 on, levels take two to eight times as long, and save 7 to 18 per cent more.
_GZIP_LEVEL = 1
_GZIP_BITS = 16 + zlib.MAX_WBITS
# How names are to be escaped: all of them are valid as they are.
_ESCAPING = re.compile(r";\s*escaping\s*=[^;,]*")


class Renderer:
    """Renders readings as metrics; may be called from any thread.

    The last response is cached: scrapes that share a poll share the response too. ``queues`` are the names or patterns
    of the queues that are exported, empty for all.
    """

    def __init__(self, queues: Sequence[str] = ()) -> None:
        self._queues = queues
        self._turn = threading.Lock()
        self._key: object = None
        self._answer: tuple[bytes, dict[str, str]] = b"", {}

    def render(
        self, readings: tuple[Reading, ...], accept: str, encoding: str, names: tuple[str, ...]
    ) -> tuple[bytes, dict[str, str]]:
        """Return the body and the headers of the response.

        ``accept`` and ``encoding`` are the headers of the request; ``names`` are the wanted metrics, empty for all.
        """
        key = readings, accept, encoding, names
        with self._turn:
            if key != self._key:
                self._answer, self._key = self._render(*key), key
            return self._answer

    def _render(
        self, readings: tuple[Reading, ...], accept: str, encoding: str, names: tuple[str, ...]
    ) -> tuple[bytes, dict[str, str]]:
        # The header may be folded over several lines, and part of it is repeated in the response.
        accept = _ESCAPING.sub("", " ".join(accept.split()))
        try:
            encode, content_type = choose_encoder(accept)
        except TypeError:
            # The header has a version that is not a number.
            encode, content_type = choose_encoder("")
        registry: Any = registry_of(readings)
        if names:
            registry = registry.restricted_registry(names)
        is_openmetrics = content_type.startswith("application/openmetrics-text")
        of_queues = queue_metrics(readings, is_openmetrics=is_openmetrics, queues=self._queues, names=names)
        # The end of OpenMetrics is in the last part.
        parts = chain(of_queues, (encode(registry),))
        headers = {"Content-Type": content_type, "Vary": "Accept, Accept-Encoding"}
        if not gzip_accepted(encoding):
            return b"".join(parts), headers
        packer = zlib.compressobj(_GZIP_LEVEL, wbits=_GZIP_BITS)
        packed = [packer.compress(part) for part in parts]
        return b"".join((*packed, packer.flush())), headers | {"Content-Encoding": "gzip"}


# The response must be complete this long before the scraper's timeout.
_MARGIN_S = 0.5
_TIMEOUT_MIN_S = 0.1
# How often the listening thread checks whether it should stop.
_STOP_S = 0.1
_TOO_MANY = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\nRetry-After: 1\r\n"
    b"Content-Length: 21\r\nConnection: close\r\n\r\ntoo many connections\n"
)


Scrape = Callable[[float | None], tuple[Reading, ...]]
"""Takes a limit in seconds (None for no limit); raises ``UnavailableError`` while the exporter is shutting down."""

Failed = Callable[[], tuple[Reading, ...]]
"""Returns the targets whose last poll failed."""


class UnavailableError(Exception):
    """The exporter is shutting down and accepts no more scrapes."""


@dataclass(slots=True)
class _Connection:
    """The state of a connection, and its deadline; ``ends_s`` is None while the response is being made."""

    ends_s: float | None
    is_idle: bool = True


class MetricsServer(ThreadingMixIn, TCPServer):
    """Listens on ``host`` and ``port`` (0 for a free port) at once, and serves between ``start`` and ``stop``.

    A connection that is slow to send a request or to read a response is closed. If there are ``connections_max``, the
    one that has been idle for the longest time is closed; if none is idle, a new one gets a 503. ``queues`` are those
    of ``Renderer``. Raises OSError if it cannot listen, and UnicodeError for an invalid host.
    """

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 64
    # Each connection has a thread; scrapers are few.
    connections_max = 100
    # Timeout for the first byte of the first request, and for each whole request with its headers.
    request_s = 10.0
    # Scrapers keep connections open between two scrapes, which are rarely two minutes apart.
    idle_s = 120.0
    # Timeout for reading a response.
    answer_s = 60.0

    scrape: Scrape
    failed: Failed

    def __init__(self, host: str, port: int, queues: Sequence[str] = ()) -> None:
        self.renderer = Renderer(queues)
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
        """The URL of the server."""
        host, port = self.server_address[:2]
        shown = str(host)
        return f"http://{f'[{shown}]' if ':' in shown else shown}:{port}"

    def start(self, scrape: Scrape, failed: Failed) -> None:
        """Serve in a thread, from these sources, which may be called from any thread."""
        self.scrape, self.failed = scrape, failed
        self._thread.start()

    def stop(self, patience_s: float) -> None:
        """Accept no more connections, wait up to ``patience_s`` for current requests, and close everything."""
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
        """Serve a connection in a thread, or respond that there are too many."""
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
        """Close the connections whose deadline has passed."""
        now_s = time.monotonic()
        with self._changed:
            for request in [each for each, known in self._open.items() if (known.ends_s or now_s) < now_s]:
                self._give_up(request)

    def expect(self, request: Any, within_s: float | None, *, is_idle: bool = False) -> None:
        """Set the state of a connection, and its deadline; None for none."""
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
        """Report a defect on stderr; a client that disconnected is not an error."""
        error = sys.exception()
        if error is not None and not isinstance(error, OSError):
            sys.stderr.write(f"rsmq-tui: {defect_of(error).sentence}: please report it\n")

    def _close_idle(self) -> None:
        """Close the connection that has been idle for the longest time, if any is idle."""
        idle = [(known.ends_s or inf, request) for request, known in self._open.items() if known.is_idle]
        if idle:
            self._give_up(min(idle, key=lambda each: each[0])[1])

    def _give_up(self, request: Any) -> None:
        # The thread that reads or writes there sees a closed connection.
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
        """Start a connection, with a short timeout for the first request."""
        self._idle_s = cast("MetricsServer", self.server).request_s
        super().setup()

    def handle_one_request(self) -> None:
        """Wait for a request, read it within its timeout, and answer it."""
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
        server = cast("MetricsServer", self.server)
        server.expect(self.request, None)
        with server.busy():
            # Close after a request with a body: the body is not read, and would be parsed as the next request.
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
                    self._health(server.failed())
                case _:
                    self._say(HTTPStatus.NOT_FOUND, "not found: use /metrics or /healthz")

    do_HEAD = do_GET  # noqa: N815 - as above; only the body is left out

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Log nothing: a line for each scrape is not useful."""

    def _metrics(self, server: MetricsServer, names: tuple[str, ...]) -> None:
        try:
            readings = server.scrape(self._limit_s())
        except UnavailableError:
            self.close_connection = True
            self._say(HTTPStatus.SERVICE_UNAVAILABLE, "the exporter is shutting down")
            return
        accept, encoding = (self.headers.get(name, "") for name in ("Accept", "Accept-Encoding"))
        self._send(HTTPStatus.OK, *server.renderer.render(readings, accept, encoding, names))

    def _health(self, failed: tuple[Reading, ...]) -> None:
        if failed:
            self._say(HTTPStatus.SERVICE_UNAVAILABLE, "\n".join(map(_sentence, failed)))
        else:
            self._say(HTTPStatus.OK, "ok")

    def _limit_s(self) -> float | None:
        """Return how long the response may take, from the scraper's timeout, or None if it sends none."""
        try:
            timeout_s = float(self.headers.get("X-Prometheus-Scrape-Timeout-Seconds", ""))
        except ValueError:
            return None
        return max(_TIMEOUT_MIN_S, timeout_s - _MARGIN_S) if 0 < timeout_s < 1e6 else None

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
    return f"{printable(where)}: {failure.words}" if failure else printable(where)


@asynccontextmanager
async def serving(server: MetricsServer, pollers: TargetPollers) -> AsyncIterator[None]:
    """Poll and serve during the block; requests that are under way at its end are still answered."""
    loop = asyncio.get_running_loop()

    def scrape(limit_s: float | None) -> tuple[Reading, ...]:
        coming = pollers.scrape(limit_s)
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
        polling = group.create_task(pollers.run())
        server.start(scrape, pollers.failed)
        try:
            yield
        finally:
            await asyncio.to_thread(server.stop, pollers.patience_s)
            polling.cancel()


ALERT_RULES = "alert_rules.yml"
DASHBOARD = "grafana_dashboard.json"


def read_example(name: str) -> str:
    """Return the text of ``ALERT_RULES`` or ``DASHBOARD``, which is ASCII."""
    return files("rsmq_tui.web.exporter").joinpath(name).read_text("ascii")
