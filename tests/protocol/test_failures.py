"""What the errors of real servers, ports and sockets mean to a person, and that none repeats a password."""

import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from redis import Redis, ResponseError

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.listserver import ListServer
from rsmq_tui.protocol import SERVER_ERRORS, AsyncRsmq, Failure, Rsmq, connect, connect_async, failure_of
from tests.protocol.either import Either
from tests.protocol.responder import Responder

PASSWORD = "hunter2"
Use = Callable[[Either], Awaitable[object]]
FailureOf = Callable[..., Awaitable[Failure]]


def listing(queues: Either) -> Awaitable[object]:
    return queues.list_queues()


def reading(queues: Either) -> Awaitable[object]:
    return queues.get_queue_attributes("orders")


def sending(queues: Either) -> Awaitable[object]:
    return queues.send_message("orders", "a")


@pytest.fixture(params=["sync", "async"])
def failure_at(request: pytest.FixtureRequest) -> FailureOf:
    """Uses queues at a URL, which must fail, and returns what that means."""

    async def use_of(url: str, use: Use = listing, timeout_s: float = 5.0) -> Failure:
        make: Any = connect if request.param == "sync" else connect_async
        connected = make(url, timeout_s=timeout_s)
        queues = Either((Rsmq if request.param == "sync" else AsyncRsmq)(connected))
        try:
            with pytest.raises(SERVER_ERRORS) as failed:
                await use(queues)
        finally:
            await (Either(connected).close() if request.param == "sync" else connected.aclose())
        failure = failure_of(failed.value)
        assert PASSWORD not in f"{failure.sentence} {failure.hint}"
        assert failure.kind
        assert failure.sentence == " ".join(failure.sentence.split())
        return failure

    return use_of


@pytest.fixture(scope="module")
def locked() -> Iterator[EmbeddedServer]:
    """A server that wants a password."""
    with EmbeddedServer(extra=("--requirepass", PASSWORD)) as running:
        yield running


@pytest.fixture(scope="module")
def changing() -> Iterator[EmbeddedServer]:
    """A server of this module, whose configuration its tests change."""
    with EmbeddedServer() as running:
        yield running


@pytest.fixture
def admin(changing: EmbeddedServer) -> Iterator[Redis]:
    with Redis.from_url(changing.url) as connected:
        connected.flushall()
        Rsmq(connected).create_queue("orders")
        yield connected
        connected.replicaof("NO", "ONE")
        connected.config_set("maxmemory", 0)
        connected.config_set("replica-serve-stale-data", "yes")
        connected.config_set("busy-reply-threshold", 5000)


def with_user(url: str, user: str) -> str:
    return url.replace("redis://", f"redis://{user}@")


async def test_a_password_that_is_wanted_and_not_given(failure_at: FailureOf, locked: EmbeddedServer) -> None:
    failure = await failure_at(locked.url)

    assert failure == Failure(
        "noauth",
        "the server requires a password",
        "put it in the URL (redis://user:password@host:6379/0), or use password_env, password_file or "
        "password_command in a profile",
    )


@pytest.mark.parametrize("user", [f":not{PASSWORD}", f"default:{PASSWORD}{PASSWORD}", f"nobody:{PASSWORD}"])
async def test_a_user_or_password_that_is_wrong(failure_at: FailureOf, locked: EmbeddedServer, user: str) -> None:
    failure = await failure_at(with_user(locked.url, user))

    assert (failure.kind, failure.sentence) == ("noauth", "the server refused the user name or password")


async def test_a_password_that_the_server_does_not_want(failure_at: FailureOf, redis_url: str) -> None:
    failure = await failure_at(with_user(redis_url, f":{PASSWORD}"))

    assert failure.kind == "noauth"


async def test_a_server_that_does_not_know_auth_and_repeats_what_it_was_sent(failure_at: FailureOf) -> None:
    with EmbeddedServer(extra=("--rename-command", "AUTH", "")) as running:
        failure = await failure_at(with_user(running.url, f"bob:{PASSWORD}"))

    assert "unknown command" in failure.sentence


@pytest.mark.parametrize(
    ("commands", "keys", "use"),
    [
        pytest.param(["+@connection"], ["~rsmq:*"], listing, id="no command"),
        pytest.param(["+@read", "+@connection"], ["~rsmq:*"], reading, id="no scripts"),
        pytest.param(["+@all", "-time"], ["~rsmq:*"], reading, id="no clock within a script"),
        pytest.param(["+@all", "-@write"], ["~rsmq:*"], sending, id="no write within a script"),
        pytest.param(["+@all"], ["~other:*"], listing, id="no key"),
        pytest.param(["+@all"], ["%R~rsmq:*"], sending, id="keys to read only"),
    ],
)
async def test_a_user_without_permission(
    failure_at: FailureOf, client: Redis, redis_url: str, commands: list[str], keys: list[str], use: Use
) -> None:
    Rsmq(client).create_queue("orders")
    client.execute_command("ACL", "SETUSER", "bob", "on", f">{PASSWORD}", *keys, *commands)

    failure = await failure_at(with_user(redis_url, f"bob:{PASSWORD}"), use)

    assert failure.kind == "noperm"


async def test_a_replica_refuses_changes_and_can_be_read(
    failure_at: FailureOf, changing: EmbeddedServer, admin: Redis
) -> None:
    admin.replicaof("127.0.0.1", "1")

    failure = await failure_at(changing.url, sending)

    assert failure.kind == "readonly"
    assert Rsmq(admin).get_queue_attributes("orders").msgs == 0


async def test_a_replica_that_has_lost_its_primary(
    failure_at: FailureOf, changing: EmbeddedServer, admin: Redis
) -> None:
    admin.config_set("replica-serve-stale-data", "no")
    admin.replicaof("127.0.0.1", "1")

    assert (await failure_at(changing.url)).kind == "masterdown"
    assert (await failure_at(changing.url, reading)).kind == "masterdown"


async def test_a_server_out_of_memory_refuses_sends_and_can_be_read_and_emptied(
    failure_at: FailureOf, changing: EmbeddedServer, admin: Redis
) -> None:
    queues = Rsmq(admin)
    first, _ = queues.send_messages("orders", ["a", "b"])
    admin.config_set("maxmemory", 1)

    assert (await failure_at(changing.url, sending)).kind == "oom"
    assert (await failure_at(changing.url, lambda either: either.receive_message("orders"))).kind == "oom"
    assert queues.get_queue_attributes("orders").msgs == 2
    assert queues.delete_message("orders", first)
    assert queues.pop_message("orders").body == b"b"
    queues.delete_queue("orders")


@pytest.fixture
def stuck(changing: EmbeddedServer, admin: Redis) -> Iterator[EmbeddedServer]:
    """The server, busy with a script that never ends by itself."""
    admin.config_set("busy-reply-threshold", 1)
    ended = []

    def run() -> None:
        with Redis.from_url(changing.url) as connected:
            try:
                connected.eval("while true do end", 0)
            except ResponseError as error:
                ended.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    busy = False
    while not busy:
        try:
            admin.ping()
        except ResponseError as error:
            busy = str(error).startswith("BUSY")
    yield changing
    admin.script_kill()
    thread.join()
    assert ended


async def test_a_server_busy_with_a_script(failure_at: FailureOf, stuck: EmbeddedServer) -> None:
    assert (await failure_at(stuck.url)).kind == "busy"
    assert (await failure_at(stuck.url, reading)).kind == "busy"


async def test_a_database_that_the_server_does_not_have(failure_at: FailureOf, redis_url: str) -> None:
    failure = await failure_at(redis_url.removesuffix("/0") + "/9999")

    assert (failure.kind, failure.sentence) == ("database", "the server has no database of that number")


async def test_a_closed_port(failure_at: FailureOf) -> None:
    with socket.socket() as taken:
        # Bound and not listening: nobody else can take it, and it refuses.
        taken.bind(("127.0.0.1", 0))
        failure = await failure_at(f"redis://bob:{PASSWORD}@127.0.0.1:{taken.getsockname()[1]}")

    assert (failure.kind, failure.sentence) == ("refused", "connection refused")


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (-2, "Name or service not known"),
        (-3, "Temporary failure in name resolution"),
        (-5, "No address associated with hostname"),
        (8, "nodename nor servname provided, or not known"),
        (-2, "Name does not resolve"),
        (11001, "getaddrinfo failed"),
    ],
    ids=["Linux", "Linux offline", "Linux without address", "macOS", "musl", "Windows"],
)
async def test_an_unknown_host(failure_at: FailureOf, monkeypatch: pytest.MonkeyPatch, number: int, words: str) -> None:
    def unknown(*_given: object, **_named: object) -> None:
        raise socket.gaierror(number, words)

    monkeypatch.setattr(socket, "getaddrinfo", unknown)

    failure = await failure_at(f"redis://bob:{PASSWORD}@no-such-host.invalid")

    assert failure.kind == "unknown-host"


async def test_a_unix_socket_that_is_not_there(failure_at: FailureOf, tmp_path: Path) -> None:
    assert (await failure_at(f"unix://{tmp_path}/none.sock")).kind == "no-socket"


async def test_a_unix_socket_that_nobody_listens_on(failure_at: FailureOf, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(tmp_path / "s"))

    assert (await failure_at(f"unix://{tmp_path}/s")).kind == "refused"


async def test_a_server_that_accepts_and_never_answers(failure_at: FailureOf, list_server: ListServer) -> None:
    with list_server.fault("stall"):
        failure = await failure_at(list_server.url, timeout_s=0.05)

    assert (failure.kind, failure.sentence) == ("timeout", "the server does not answer")


async def test_a_server_that_hangs_up(failure_at: FailureOf, list_server: ListServer) -> None:
    with list_server.fault("drop-before"):
        assert (await failure_at(list_server.url)).kind == "closed"


async def test_a_port_that_does_not_speak_tls(failure_at: FailureOf) -> None:
    with Responder(b"-ERR what is this?") as responder:
        assert (await failure_at(responder.url.replace("redis://", "rediss://"))).kind == "tls"


def test_a_failure_in_one_line_says_what_to_try() -> None:
    failure = failure_of(ResponseError("BUSY Redis is busy running a script."))
    assert failure.words == "the server is busy running a script; wait, or stop it with SCRIPT KILL"
