"""Many connections, slow ones, and requests that are none: scrapes go on, and nothing is printed."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from rsmq_tui.web.exporter.poller import Reading
from rsmq_tui.web.exporter.server import MetricsServer
from tests.waiting import SECONDS_MAX
from tests.web.exporter.scraping import ask

_GET = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


class _Held:
    """Scrapes that wait for ``release``; ``begun`` counts them."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.release = threading.Event()

    def scrape(self, limit_s: float | None) -> tuple[Reading, ...]:
        self.begun.release()
        self.release.wait(SECONDS_MAX)
        return ()


@contextmanager
def serving(
    scrape: Callable[[float | None], tuple[Reading, ...]] = lambda _: (), **limits: float
) -> Iterator[MetricsServer]:
    server = MetricsServer("127.0.0.1", 0)
    for name, value in limits.items():
        setattr(server, name, value)
    server.start(scrape, lambda: ())
    try:
        yield server
    finally:
        server.stop(SECONDS_MAX)


def connection(server: MetricsServer) -> socket.socket:
    host, port = server.server_address[:2]
    return socket.create_connection((str(host), port), timeout=SECONDS_MAX)


def received(peer: socket.socket) -> bytes:
    """All that comes until the server closes the connection."""
    parts = []
    try:
        while part := peer.recv(65_536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def answered(peer: socket.socket, sent: bytes = _GET) -> bytes:
    """The first line of an answer, on a connection that stays open."""
    peer.sendall(sent)
    text = b""
    while b"\r\n\r\n" not in text:
        part = peer.recv(65_536)
        assert part, text
        text += part
    return text.split(b"\r\n")[0]


def test_idle_connections_make_room(capfd: pytest.CaptureFixture[str]) -> None:
    with serving() as server, ExitStack() as stack:
        idle = [stack.enter_context(connection(server)) for _ in range(120)]
        for _ in range(5):
            assert ask(server.url).status == 200
        # Those that were idle for longest have gone, the others still can ask.
        assert received(idle[0]) == b""
        assert answered(idle[-1]) == b"HTTP/1.1 200 OK"
    assert capfd.readouterr().err == ""


def test_where_none_is_idle_a_new_one_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    held = _Held()
    with serving(held.scrape, connections_max=3) as server, ExitStack() as stack:
        busy = [stack.enter_context(connection(server)) for _ in range(3)]
        for peer in busy:
            peer.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
            assert held.begun.acquire(timeout=SECONDS_MAX)
        refused = received(stack.enter_context(connection(server)))
        assert refused.startswith(b"HTTP/1.1 503 ")
        assert refused.endswith(b"\r\n\r\ntoo many connections\n")
        held.release.set()
        for peer in busy:
            assert answered(peer, b"").startswith(b"HTTP/1.1 200")
        assert ask(server.url, "/healthz").status == 200
    assert capfd.readouterr().err == ""


def test_who_is_slow_to_ask_is_closed() -> None:
    with serving(request_s=0.2) as server, connection(server) as silent, connection(server) as slow:
        slow.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
        stopped = threading.Event()

        def drip() -> None:
            # Each byte comes in time; the request never does.
            while not stopped.wait(0.02):
                try:
                    slow.sendall(b"x")
                except OSError:
                    return

        dripping = threading.Thread(target=drip)
        dripping.start()
        assert received(silent) == b""
        assert received(slow) == b""
        stopped.set()
        dripping.join()
        server.request_s = SECONDS_MAX
        assert ask(server.url).status == 200


def test_who_has_asked_may_be_idle_but_not_for_ever() -> None:
    with serving(idle_s=0.2) as server, connection(server) as peer:
        assert answered(peer) == b"HTTP/1.1 200 OK"
        assert received(peer).count(b"HTTP/1.1") == 0


def test_who_does_not_take_the_answer_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    body = b"x" * 50_000_000, {"Content-Type": "text/plain"}
    with serving(answer_s=0.2) as server:
        monkeypatch.setattr(server.renderer, "render", lambda readings, accept, encoding, names: body)
        with connection(server) as peer:
            peer.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
            assert b"HTTP/1.1 200" in peer.recv(100)
            server_side = threading.Event()

            def is_closed() -> bool:
                return not server._open

            while not is_closed():
                server_side.wait(0.02)
        monkeypatch.undo()
        server.answer_s = SECONDS_MAX
        assert ask(server.url).status == 200


REQUESTS = {
    "an address that is none": (b"GET http://[ HTTP/1.1\r\n\r\n", b"400"),
    "brackets": (b"GET //[::1/metrics HTTP/1.1\r\n\r\n", b"404"),
    "many fields": (b"GET /metrics?" + b"a=1&" * 10_000 + b" HTTP/1.1\r\n\r\n", b"200"),
    "a name that is none": (b"GET /metrics?name[]=%ff%00 HTTP/1.1\r\n\r\n", b"200"),
    "an absolute address": (b"GET http://other.example/metrics HTTP/1.1\r\nHost: x\r\n\r\n", b"200"),
    "an address with a user": (b"GET http://a:b@[::1]:99999999/healthz HTTP/1.1\r\n\r\n", b"200"),
    "HTTP/1.0": (b"GET /metrics HTTP/1.0\r\n\r\n", b"200"),
    "HTTP/0.9": (b"GET /metrics\r\n", b"HELP"),
    "HEAD": (b"HEAD /metrics HTTP/1.1\r\n\r\n", b"200"),
    "an odd version": (b"GET / HTTP/1.99999999999999999999999999999\r\n\r\n", b"400"),
    "a version of other digits": ("GET / HTTP/١.١\r\n\r\n".encode(), b"400"),
    "a long header": (b"GET / HTTP/1.1\r\nX: " + b"x" * 70_000 + b"\r\n\r\n", b"431"),
    "many headers": (b"GET / HTTP/1.1\r\n" + b"X: x\r\n" * 200 + b"\r\n", b"431"),
    "a header without a name": (b"GET /metrics HTTP/1.1\r\n: x\r\n\r\n", b"200"),
    "a timeout that is none": (
        b"GET /metrics HTTP/1.1\r\nX-Prometheus-Scrape-Timeout-Seconds: nan\r\n\r\n",
        b"200",
    ),
    "a format that is none": (b"GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text;q=x\r\n\r\n", b"200"),
    "a length that is none": (b"GET /metrics HTTP/1.1\r\nContent-Length: -1\r\n\r\n", b"200"),
    "zeros": (b"\0" * 1_000 + b"\r\n\r\n", b"400"),
    "escapes": (b"GET /\x1b[2J HTTP/1.1\r\n\r\n", b"404"),
}


@pytest.mark.parametrize("request_", REQUESTS)
def test_requests_of_all_sorts(request_: str, capfd: pytest.CaptureFixture[str]) -> None:
    sent, expected = REQUESTS[request_]
    with serving() as server:
        with connection(server) as peer:
            peer.sendall(sent)
            peer.shutdown(socket.SHUT_WR)
            answer = received(peer)
        assert expected in answer[:400]
        assert b"\x1b" not in answer
        assert ask(server.url).status == 200
    assert capfd.readouterr().err == ""


def test_pipelined_requests_are_answered_in_order() -> None:
    with serving() as server, connection(server) as peer:
        peer.sendall(_GET + b"GET /nothing HTTP/1.1\r\n\r\n" + _GET)
        peer.shutdown(socket.SHUT_WR)
        statuses = [line.split()[1] for line in received(peer).splitlines() if line.startswith(b"HTTP/1.1")]
    assert statuses == [b"200", b"404", b"200"]


def test_a_defect_is_said_in_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    def fail(_: float | None) -> tuple[Reading, ...]:
        raise KeyError("a secret")

    with serving(fail) as server, connection(server) as peer:
        peer.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        assert received(peer) == b""
        assert ask(server.url, "/healthz").status == 200
    reply = capfd.readouterr().err
    assert reply.count("\n") == 1
    assert reply.startswith("rsmq-tui: a defect in rsmq-tui: KeyError in web")
    assert "secret" not in reply
