"""The HTTP side: its two places, formats, and clients that do not behave."""

import asyncio
import gzip
import http.client
import socket
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest

from rsmq_tui.web.exporter.server import MetricsServer
from tests.waiting import SECONDS_MAX
from tests.web.exporter.scraping import NEVER_S, Exporter, exporting

PLAIN = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0"
# What Prometheus 2.42 sends.
PROMETHEUS = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"  # noqa: E501


@pytest.fixture
async def exporter(redis_url: str) -> AsyncIterator[Exporter]:
    """An exporter that always serves its first poll."""
    # The fixture is entered and left in different tasks, which a task group does not allow: it has one of its own.
    ready: asyncio.Queue[Exporter] = asyncio.Queue()
    over = asyncio.Event()

    async def run() -> None:
        async with exporting(redis_url, max_age_s=NEVER_S) as running:
            await running.get()
            ready.put_nowait(running)
            await over.wait()

    task = asyncio.create_task(run())
    getting = asyncio.create_task(ready.get())
    await asyncio.wait({task, getting}, return_when=asyncio.FIRST_COMPLETED)
    yield await getting
    over.set()
    await task


def raw(exporter: Exporter, *sent: bytes) -> bytes:
    """What comes back for these bytes until the exporter closes the connection."""
    host, port = exporter.server.server_address[:2]
    with socket.create_connection((str(host), port), timeout=SECONDS_MAX) as connection:
        for part in sent:
            connection.sendall(part)
        connection.shutdown(socket.SHUT_WR)
        received = b""
        while part := connection.recv(65536):
            received += part
    return received


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("", PLAIN),
        ("*/*", PLAIN),
        ("text/html", PLAIN),
        (OPENMETRICS, f"{OPENMETRICS}; charset=utf-8"),
        (PROMETHEUS, f"{OPENMETRICS}; charset=utf-8"),
        ("application/openmetrics-text; version=new", PLAIN),
        ("application/openmetrics-text; version=2.x\r\n Set-Cookie: a=b", "application/openmetrics-text; version=2.x"),
    ],
)
async def test_the_format_is_negotiated(exporter: Exporter, accept: str, content_type: str) -> None:
    answer = await exporter.get(Accept=accept)

    assert answer.status == 200
    assert answer.headers["Content-Type"].startswith(content_type)
    assert answer.headers["Content-Type"].isprintable()
    if "2.x" not in accept:
        assert answer.value("rsmq_up") == 1
    assert answer.text.endswith("# EOF\n") == answer.headers["Content-Type"].startswith("application/openmetrics")


async def test_it_is_compressed_where_that_is_understood(exporter: Exporter) -> None:
    plain = await exporter.get()
    packed = await exporter.get(Accept_Encoding="gzip")

    assert packed.headers["Content-Encoding"] == "gzip"
    assert "Content-Encoding" not in plain.headers
    assert b"rsmq_up" in gzip.decompress(packed.body)
    assert len(packed.body) < len(plain.body)


@pytest.mark.parametrize("escaping", ["dots", "values", "underscores", "allow-utf-8"])
@pytest.mark.parametrize("text", ["text/plain;version=1.0.0", OPENMETRICS])
async def test_names_are_as_documented_in_every_escaping(exporter: Exporter, text: str, escaping: str) -> None:
    answer = await exporter.get(Accept=f"{text};escaping={escaping}")
    names = {family.name for family in answer.families}

    assert answer.headers["Content-Type"].endswith("escaping=underscores")
    assert {"rsmq_up", "rsmq_queue_ready_messages"} <= names
    assert all(sample.name.startswith(("rsmq_", "process_")) for sample in answer.samples)


async def test_only_the_series_that_are_named(exporter: Exporter) -> None:
    answer = await exporter.get("/metrics?name[]=rsmq_up&name[]=rsmq_queues")

    assert {sample.name for sample in answer.samples} == {"rsmq_up", "rsmq_queues"}


@pytest.mark.parametrize(
    "path", ["/", "/metrics/", "/metricsx", "/healthz/x", "//", "/%2e%2e/etc/passwd", "/favicon.ico"]
)
async def test_there_is_nothing_else(exporter: Exporter, path: str) -> None:
    answer = await exporter.get(path)

    assert (answer.status, answer.text) == (404, "not found: use /metrics or /healthz\n")


@pytest.mark.parametrize("path", ["/metrics", "/healthz", "/nothing"])
async def test_head_is_get_without_the_body(exporter: Exporter, path: str) -> None:
    got, head = await exporter.get(path), await exporter.get(path, "HEAD")

    assert head.body == b""
    assert head.status == got.status
    assert int(got.headers["Content-Length"]) == len(got.body)
    for name in ("Content-Type", "Content-Length"):
        # The process' own numbers may differ by a digit only if it was written down anew, and it was not.
        assert head.headers[name] == got.headers[name]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "\x1b[2J"])
async def test_other_methods_are_refused(exporter: Exporter, method: str) -> None:
    received = await asyncio.to_thread(raw, exporter, f"{method} /metrics HTTP/1.1\r\nHost: x\r\n\r\n".encode())

    assert received.split()[1] in {b"501", b"400"}
    assert b"\x1b" not in received


async def test_a_connection_serves_many_requests(exporter: Exporter) -> None:
    def twice() -> list[int]:
        connection = http.client.HTTPConnection(urlsplit(exporter.server.url).netloc, timeout=SECONDS_MAX)
        statuses = []
        for path in ("/metrics", "/healthz", "/nothing", "/metrics"):
            connection.request("GET", path)
            answer = connection.getresponse()
            answer.read()
            statuses.append(answer.status)
            # Once closed, http.client would open another by itself.
            assert connection.sock is not None
        connection.close()
        return statuses

    assert await asyncio.to_thread(twice) == [200, 200, 404, 200]


async def test_a_body_is_not_taken_for_a_request(exporter: Exporter) -> None:
    hidden = b"GET /healthz HTTP/1.1\r\n\r\n"
    sent = b"GET /nothing HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(hidden)
    received = await asyncio.to_thread(raw, exporter, sent + hidden)

    assert received.count(b"HTTP/1.1") == 1
    assert b"404" in received.splitlines()[0]


async def test_clients_that_do_not_behave_are_told_and_forgotten(
    exporter: Exporter, capfd: pytest.CaptureFixture[str]
) -> None:
    for sent in (
        b"",
        b"\r\n\r\n",
        b"\x16\x03\x01\x02",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"G" * 70_000 + b"\r\n\r\n",
    ):
        received = await asyncio.to_thread(raw, exporter, sent)
        assert b"200" not in received.split(b"\r\n")[0]
    host, port = exporter.server.server_address[:2]
    for _ in range(3):
        connection = socket.create_connection((str(host), port), timeout=SECONDS_MAX)
        # Hangs up at once, with a reset.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        connection.sendall(b"GET /metrics HTTP/1.1\r\n\r\n" * 20)
        connection.close()

    assert (await exporter.get()).value("rsmq_up") == 1
    assert capfd.readouterr().err == ""


async def test_a_port_that_is_taken_is_an_error(exporter: Exporter) -> None:
    with pytest.raises(OSError, match="in use"):
        MetricsServer("127.0.0.1", int(exporter.server.server_address[1]))


async def test_an_idle_connection_does_not_hold_up_the_end(redis_url: str) -> None:
    async with asyncio.timeout(SECONDS_MAX):
        async with exporting(redis_url) as exporter:
            host, port = exporter.server.server_address[:2]
            reader, writer = await asyncio.open_connection(str(host), port)
            await exporter.get()
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()
