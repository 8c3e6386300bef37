"""Asking a server step by step: which step fails, what the user may do, and that nothing is written by it."""

import http.server
import re
import socket
import socketserver
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
import trustme
from redis import Redis

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.listserver import ListServer
from rsmq_tui.protocol import Address, Failure, Rsmq, Tls, url_of
from rsmq_tui.protocol.server.diagnosis import ConnectStep, Diagnosis, Need, commands_for
from rsmq_tui.protocol.server.status import ServerStatus
from tests.protocol.responder import Responder
from tests.servers.real import HOST, free_ports, real_server

SECRET = "hunter2"
VIEWER = [
    *("+smembers", "+time", "+scan", "+select", "+hexists", "+hget", "+hmget", "+hstrlen", "+zcard", "+zcount"),
    *("+zrange", "+zrank", "+zscan", "+zscore", "+client|setinfo", "+client|tracking", "+eval", "+evalsha"),
    *("+sismember", "+scard", "+sscan", "+type", "+hlen", "+hscan"),
]

Diagnose = Callable[..., Diagnosis]


def fields_of(status: ServerStatus) -> Mapping[str, str]:
    assert not isinstance(status.info, Failure)
    return status.info


@pytest.fixture
async def diagnosis() -> AsyncIterator[Diagnose]:
    made: list[Diagnosis] = []

    def make(url: str, *, timeout_s: float = 5.0, ns: str = "rsmq") -> Diagnosis:
        made.append(Diagnosis(url, ns, timeout_s=timeout_s))
        return made[-1]

    yield make
    for each in made:
        await each.aclose()


async def steps_of(diagnosis: Diagnosis) -> list[ConnectStep]:
    return [step async for step in diagnosis.connect()]


def with_user(url: str, user: str, password: str = "pw") -> str:
    return url.replace("://", f"://{user}:{password}@")


def add_user(client: Redis, name: str, commands: list[str], keys: str = "rsmq:*") -> None:
    client.acl_setuser(name, enabled=True, passwords=["+pw"], keys=[keys], commands=commands)


@contextmanager
def served(server: socketserver.TCPServer) -> Iterator[int]:
    """Serve in a thread of its own; gives the port."""
    with server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def http_server() -> AbstractContextManager[int]:
    """A server of another protocol."""
    handler = type("Quiet", (http.server.BaseHTTPRequestHandler,), {"log_message": lambda *_: None})
    return served(http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler))


@contextmanager
def black_hole() -> Iterator[int]:
    """A port that takes no connection and refuses none: its queue of connections is full."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listening:
        waiting = []
        try:
            while True:
                peer = socket.socket()
                waiting.append(peer)
                peer.settimeout(0.2)
                try:
                    peer.connect(listening.getsockname())
                except TimeoutError:
                    break
            yield listening.getsockname()[1]
        finally:
            for peer in waiting:
                peer.close()


async def test_every_step_of_a_server_that_answers(diagnosis: Diagnose, redis_url: str) -> None:
    steps = await steps_of(diagnosis(redis_url))
    assert [(step.name, step.failure) for step in steps] == [(name, None) for name in ("dns", "tcp", "auth", "redis")]
    assert steps[2].result == "as user default"


async def test_a_unix_socket(diagnosis: Diagnose) -> None:
    with EmbeddedServer(unix_socket=True) as server:
        steps = await steps_of(diagnosis(server.url))
    assert [step.name for step in steps] == ["socket", "auth", "redis"]
    (step,) = await steps_of(diagnosis("unix:///no/such/socket"))
    assert (step.name, step.failure and step.failure.kind) == ("socket", "no-socket")


async def test_an_unknown_host(diagnosis: Diagnose) -> None:
    (step,) = await steps_of(diagnosis(f"redis://u:{SECRET}@no-such-host.invalid"))
    assert (step.name, step.failure and step.failure.kind) == ("dns", "unknown-host")


async def test_a_closed_port(diagnosis: Diagnose) -> None:
    *_, step = await steps_of(diagnosis("redis://127.0.0.1:1"))
    assert (step.name, step.failure and step.failure.kind) == ("tcp", "refused")


async def test_a_port_that_swallows_everything(diagnosis: Diagnose) -> None:
    with black_hole() as port:
        *_, step = await steps_of(diagnosis(f"redis://127.0.0.1:{port}", timeout_s=0.2))
    assert (step.name, step.failure and step.failure.kind) == ("tcp", "timeout")


async def test_a_server_that_takes_connections_and_says_nothing(diagnosis: Diagnose, list_server: ListServer) -> None:
    with list_server.fault("stall"):
        *_, step = await steps_of(diagnosis(list_server.url, timeout_s=0.2))
    assert (step.name, step.failure and step.failure.kind) == ("redis", "timeout")


async def test_a_port_that_speaks_http(diagnosis: Diagnose) -> None:
    with http_server() as port:
        *_, step = await steps_of(diagnosis(f"redis://u:{SECRET}@127.0.0.1:{port}", timeout_s=2))
    assert step.name == "redis"
    assert step.failure is not None
    assert SECRET not in repr(step)


@pytest.mark.parametrize("line", [b"+OK", b":1", b"*2\r\n+a\r\n+b", b"$-1", b""])
async def test_what_does_not_answer_as_redis_does(diagnosis: Diagnose, line: bytes) -> None:
    with Responder(line) as responder:
        *_, step = await steps_of(diagnosis(responder.url, timeout_s=1))
    assert step.name == "redis"
    assert step.failure is not None


async def test_tls_where_there_is_none(diagnosis: Diagnose, redis_url: str) -> None:
    *_, step = await steps_of(diagnosis(redis_url.replace("redis://", "rediss://"), timeout_s=0.5))
    assert (step.name, step.failure and step.failure.kind) == ("tls", "tls")


async def test_a_wrong_and_a_missing_password(diagnosis: Diagnose) -> None:
    with EmbeddedServer(extra=("--requirepass", SECRET)) as server:
        for url in (server.url, with_user(server.url, "", "wrong"), with_user(server.url, "bob", "wrong")):
            *_, step = await steps_of(diagnosis(url))
            assert (step.name, step.failure and step.failure.kind) == ("auth", "noauth")
            assert "wrong" not in repr(step)
        steps = await steps_of(diagnosis(with_user(server.url, "", SECRET)))
    assert steps[-1].failure is None


@pytest.mark.parametrize(
    "answer",
    [b"-WRONGPASS invalid username-password pair or user is disabled.", b"-NOAUTH Authentication required.",
     f"-ERR unknown command 'AUTH', with args beginning with: 'ann' '{SECRET}'".encode()],
    ids=lambda answer: answer[:12].decode(),
)  # fmt: skip
async def test_no_step_repeats_a_password(diagnosis: Diagnose, answer: bytes) -> None:
    with Responder(answer) as responder:
        steps = await steps_of(diagnosis(with_user(responder.url, "ann", SECRET), timeout_s=1))
    assert steps[-1].failure is not None
    assert SECRET not in repr(steps)


async def entered(diagnosis: Diagnosis) -> Diagnosis:
    steps = await steps_of(diagnosis)
    assert steps[-1].failure is None
    return diagnosis


async def test_everything_is_allowed_to_the_default_user(diagnosis: Diagnose, redis_url: str, client: Redis) -> None:
    Rsmq(client).create_queue("orders")
    before = {key: client.dump(key) for key in client.scan_iter()}
    found = await (await entered(diagnosis(redis_url))).permissions("orders")
    assert (found.user, found.refused) == ("default", ())
    assert {command.need for command in found.allowed} == set(Need)
    assert found.allowed == commands_for("rsmq", "orders")
    assert {key: client.dump(key) for key in client.scan_iter()} == before


async def test_nothing_that_writes_is_ever_carried_out(diagnosis: Diagnose, redis_url: str, client: Redis) -> None:
    """Whatever the user may do: the server counts the commands that it ran."""
    add_user(client, "no-multi", ["+@all", "-multi"])
    add_user(client, "no-discard", ["+@all", "-discard"])
    add_user(client, "no-dry-run", ["+@all", "-multi", "-acl"])
    for user in ("default", "no-multi", "no-discard", "no-dry-run"):
        client.config_resetstat()
        url = redis_url if user == "default" else with_user(redis_url, user)
        await (await entered(diagnosis(url))).permissions("orders")
        ran = {name.removeprefix("cmdstat_"): stat["calls"] for name, stat in client.info("commandstats").items()}
        assert ran.keys().isdisjoint({"hset", "hincrby", "hdel", "zadd", "zrem", "sadd", "srem", "set", "del"}), user
    assert client.dbsize() == 0


def half_a_proxy(port: int, heard: list[bytes]) -> AbstractContextManager[int]:
    """Passes everything on but MULTI, to which it says OK by itself."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with socket.create_connection(("127.0.0.1", port)) as server:
                while data := self.request.recv(65_536):
                    heard.append(data)
                    if b"MULTI" in data:
                        self.request.sendall(b"+OK\r\n")
                        continue
                    server.sendall(data)
                    self.request.sendall(server.recv(65_536))

    listening = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
    listening.daemon_threads = True
    return served(listening)


async def test_a_transaction_that_is_none_is_seen_before_anything_is_written(
    diagnosis: Diagnose, redis_url: str, client: Redis, server: EmbeddedServer
) -> None:
    add_user(client, "ann", ["+@all", "-acl|dryrun"])
    heard: list[bytes] = []
    with half_a_proxy(server.port, heard) as port:
        looked = await entered(diagnosis(f"redis://ann:pw@127.0.0.1:{port}"))
        found = await looked.permissions()
        await looked.aclose()
    assert any(b"MULTI" in data for data in heard)
    assert not any(command.writes for command, _ in found.refused)
    assert not any(command.writes for command in found.allowed)
    assert client.dbsize() == 0


async def test_a_transaction_that_cannot_be_thrown_away_ends_with_its_connection(
    diagnosis: Diagnose, redis_url: str, client: Redis
) -> None:
    add_user(client, "ann", ["+@all", "-discard"])
    looked = await entered(diagnosis(with_user(redis_url, "ann")))
    assert (await looked.permissions()).refused == ()
    assert fields_of(await looked.status())["role"] == "master"


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the certificate of a server, and of who vouches for it."""
    folder = tmp_path_factory.mktemp("papers")
    ca = trustme.CA()
    ca.cert_pem.write_to_path(folder / "ca.pem")
    issued = ca.issue_cert(HOST)
    issued.private_key_pem.write_to_path(folder / "server.key")
    issued.cert_chain_pems[0].write_to_path(folder / "server.pem")
    return folder


async def test_tls_is_a_step_of_its_own(papers: Path) -> None:
    (port,) = free_ports(1)
    files = {"tls-ca-cert-file": "ca.pem", "tls-cert-file": "server.pem", "tls-key-file": "server.key"}
    options = [part for name, file in files.items() for part in (f"--{name}", str(papers / file))]
    ours = {"ssl": True, "ssl_ca_certs": str(papers / "ca.pem")}
    with real_server("--tls-port", str(port), "--tls-auth-clients", "no", *options, port=port, options=ours):
        url = url_of(HOST, port, tls=True)
        for tls, last in ((Tls(papers / "ca.pem"), None), (None, "tls"), (Tls(papers / "gone.pem"), "tls")):
            looked = Diagnosis(Address(url, tls=tls))
            steps = await steps_of(looked)
            await looked.aclose()
            if last is None:
                assert [step.name for step in steps] == ["dns", "tcp", "tls", "auth", "redis"]
                assert steps[2].result.startswith("TLSv1.")
            else:
                assert (steps[-1].name, steps[-1].failure and steps[-1].failure.kind) == (last, "tls")
        looked = Diagnosis(url_of(HOST, port), timeout_s=2)
        *_, step = await steps_of(looked)
        await looked.aclose()
    assert step.name == "redis"
    assert step.failure is not None


@pytest.mark.parametrize("more", [["+multi", "+discard", "+ping"], ["+acl|whoami", "+acl|dryrun"], []])
async def test_a_user_who_may_only_look(diagnosis: Diagnose, redis_url: str, client: Redis, more: list[str]) -> None:
    Rsmq(client).create_queue("orders")
    add_user(client, "viewer", VIEWER + more)
    found = await (await entered(diagnosis(with_user(redis_url, "viewer")))).permissions("orders")
    assert found.user == "viewer"
    assert {command.need for command in found.allowed} == set(Need) - {Need.CHANGE}
    refused = {command.name for command, failure in found.refused if failure.kind == "noperm"}
    # Without a transaction or a dry run it cannot be told what would be refused of what writes.
    assert refused == ({command.name for command in commands_for("rsmq", None) if command.writes} if more else set())


@pytest.mark.parametrize("how", [["+multi", "+discard", "+ping"], ["+acl|whoami", "+acl|dryrun"], []])
async def test_single_commands_that_are_refused_are_named(
    diagnosis: Diagnose, redis_url: str, client: Redis, how: list[str]
) -> None:
    add_user(client, "half", ["+time", "+smembers", "+zcard", "+hset", "+evalsha", *how])
    found = await (await entered(diagnosis(with_user(redis_url, "half")))).permissions()
    allowed = {command.name for command in found.allowed}
    assert allowed == {"time", "smembers", "zcard", "evalsha"} | ({"hset"} if how else set())


async def test_keys_of_another_namespace_are_refused(diagnosis: Diagnose, redis_url: str, client: Redis) -> None:
    add_user(client, "ann", ["+@all"], keys="rsmq:*")
    url = with_user(redis_url, "ann")
    assert (await (await entered(diagnosis(url))).permissions()).refused == ()
    found = await (await entered(diagnosis(url, ns="jobs"))).permissions()
    assert {"smembers", "zcard", "hset"} <= {command.name for command, _ in found.refused}


async def test_a_replica_refuses_changes(diagnosis: Diagnose, client: Redis, server: EmbeddedServer) -> None:
    with EmbeddedServer() as replica, Redis.from_url(replica.url) as admin:
        admin.replicaof("127.0.0.1", server.port)
        looked = await entered(diagnosis(replica.url))
        found = await looked.permissions()
        assert fields_of(await looked.status())["role"] == "slave"
    assert {failure.kind for _, failure in found.refused} == {"readonly"}
    assert {command.need for command, _ in found.refused} == {Need.CHANGE}


async def test_a_full_memory_refuses_what_adds(diagnosis: Diagnose) -> None:
    with EmbeddedServer() as server, Redis.from_url(server.url) as admin:
        looked = await entered(diagnosis(server.url))
        admin.config_set("maxmemory", 1)
        found = await looked.permissions()
    refused = {command.name: failure.kind for command, failure in found.refused}
    assert refused["hset"] == refused["zadd"] == "oom"
    assert "hdel" not in refused


async def test_wrong_types_are_no_refusal(diagnosis: Diagnose, redis_url: str, client: Redis) -> None:
    client.set("rsmq:orders", "x")
    client.set("rsmq:orders:Q", "x")
    client.sadd("rsmq:QUEUES", "orders")
    add_user(client, "viewer", VIEWER)
    found = await (await entered(diagnosis(with_user(redis_url, "viewer")))).permissions("orders")
    assert found.refused == ()


async def test_info_is_read_field_by_field(diagnosis: Diagnose, redis_url: str, client: Redis) -> None:
    looked = await entered(diagnosis(redis_url))
    status = await looked.status()
    info = fields_of(status)
    assert info["role"] == "master"
    assert re.fullmatch(r"[0-9.]+", info["redis_version"])
    assert info["maxmemory_policy"] == "noeviction"
    assert status.saves == ""


async def test_what_may_not_be_asked_is_an_error_or_nothing(diagnosis: Diagnose, redis_url: str, client: Redis) -> None:
    add_user(client, "viewer", VIEWER)
    looked = await entered(diagnosis(with_user(redis_url, "viewer")))
    status = await looked.status()
    for part in (status.info, status.slow, status.latency):
        assert isinstance(part, Failure)
        assert part.kind == "noperm"
    assert status.saves is None


async def test_tracking_is_tried(diagnosis: Diagnose, redis_url: str, client: Redis) -> None:
    assert await (await entered(diagnosis(redis_url))).tracks()
    add_user(client, "ann", ["+@all", "-client|tracking"])
    assert not await (await entered(diagnosis(with_user(redis_url, "ann")))).tracks()


async def test_round_trips_are_measured_by_what_every_viewer_may_ask(
    diagnosis: Diagnose, redis_url: str, client: Redis
) -> None:
    add_user(client, "viewer", VIEWER)
    took_ms = await (await entered(diagnosis(with_user(redis_url, "viewer")))).round_trips_ms(20)
    assert len(took_ms) == 20
    assert all(took > 0 for took in took_ms)


@pytest.mark.parametrize("ahead_s", [-3600.0, 0.0, 12.5])
async def test_the_clocks_are_compared(diagnosis: Diagnose, redis_url: str, ahead_s: float) -> None:
    import time

    looked = await entered(diagnosis(redis_url))
    skew = await looked.skew(lambda: time.time() - ahead_s)
    assert skew.uncertainty_ms >= 0
    # The server is on this machine: its clock is ours.
    assert abs(skew.ahead_ms - ahead_s * 1000) <= skew.uncertainty_ms + 2


async def test_the_round_trip_is_taken_off_the_skew(diagnosis: Diagnose, redis_url: str, client: Redis) -> None:
    """A server that answers after two seconds by a clock that stood in the middle of them is not behind."""
    looked = await entered(diagnosis(redis_url))
    seconds, micros = client.time()
    now_s = seconds + micros / 1e6
    ticks = iter([now_s - 1, now_s + 1])
    skew = await looked.skew(lambda: next(ticks), tries=1)
    assert skew.uncertainty_ms == pytest.approx(1000)
    assert -1 < skew.ahead_ms < 900
