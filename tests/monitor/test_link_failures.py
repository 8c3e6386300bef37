"""Whatever a server refuses or fails to do becomes a failed link with a kind and a sentence, never an exception."""

import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import pytest
import redis

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.listserver import ListServer
from rsmq_tui.monitor import PageRequest, PeekError, RsmqPoller, Snapshot
from rsmq_tui.monitor.poller import retry_delay_s
from rsmq_tui.protocol import Rsmq, RsmqReader
from tests.protocol.keyspace import plant
from tests.protocol.responder import Responder


@asynccontextmanager
async def polling(url: str, *, timeout_s: float = 5.0) -> AsyncIterator[RsmqPoller]:
    poller = RsmqPoller(RsmqReader(url, timeout_s=timeout_s))
    try:
        yield poller
    finally:
        await poller.aclose()


def as_user(url: str, user: str, password: str = "x") -> str:
    return url.replace("redis://", f"redis://{user}:{password}@")


def check(snapshot: Snapshot, kind: str, words: str) -> None:
    failure = snapshot.connection.failure
    assert failure is not None
    assert failure.kind == kind
    assert words in failure.sentence
    assert failure.hint
    assert snapshot.connection.retry_at_s is not None


async def fails(url: str, kind: str, words: str, *, timeout_s: float = 5.0) -> None:
    """Check that a poll of a server that was never read fails so, and so does every look."""
    async with polling(url, timeout_s=timeout_s) as poller:
        snapshot = await poller.poll()
        check(snapshot, kind, words)
        assert (snapshot.queues, snapshot.at_ms, snapshot.connection.fresh_at_s) == ((), 0, None)
        assert not snapshot.is_empty
        with pytest.raises(PeekError, match=words):
            await poller.peek(PageRequest("q"))
        with pytest.raises(PeekError, match=words):
            await poller.read("q", "x" * 32)
        with pytest.raises(PeekError, match=words):
            await poller.due("q", 0)


@pytest.fixture
def locked() -> Iterator[str]:
    """The URL of a server that requires a password."""
    with EmbeddedServer(extra=("--requirepass", "secret")) as server:
        yield server.url


async def test_a_password_that_is_missing_or_wrong(locked: str) -> None:
    await fails(locked, "noauth", "requires a password")
    await fails(as_user(locked, "", "wrong"), "noauth", "refused the user name or password")
    await fails(as_user(locked, "nobody", "secret"), "noauth", "refused the user name or password")


async def test_a_password_that_is_right(locked: str) -> None:
    async with polling(as_user(locked, "", "secret")) as poller:
        assert (await poller.poll()).connection.failure is None


async def test_a_user_who_may_read_no_key(client: redis.Redis, redis_url: str) -> None:
    client.acl_setuser("blind", enabled=True, passwords=["+x"], commands=["+@all"])
    async with polling(as_user(redis_url, "blind")) as poller:
        check(await poller.poll(), "noperm", "may not read")


@pytest.mark.parametrize("may_run_scripts", [True, False])
async def test_a_user_who_may_read_the_index_and_no_queue(
    client: redis.Redis, redis_url: str, may_run_scripts: bool
) -> None:
    Rsmq(client).create_queue("q")
    commands = ["+@all"] if may_run_scripts else ["+@all", "-eval", "-evalsha"]
    client.acl_setuser("half", enabled=True, passwords=["+x"], keys=["rsmq:QUEUES"], commands=commands)
    async with polling(as_user(redis_url, "half")) as poller:
        check(await poller.poll(), "noperm", "may not read")
        check(await poller.poll(), "noperm", "may not read")


async def test_a_user_who_loses_a_permission_and_gets_it_back(client: redis.Redis, redis_url: str) -> None:
    Rsmq(client).create_queue("q")
    client.acl_setuser("half", enabled=True, passwords=["+x"], keys=["*"], commands=["+@all"])
    async with polling(as_user(redis_url, "half")) as poller:
        (queue,) = (await poller.poll()).queues
        client.acl_setuser("half", commands=["-smembers"])
        refused = await poller.poll()
        client.acl_setuser("half", commands=["+smembers"])

        check(refused, "noperm", "may not read")
        assert refused.queues == (queue,)
        assert (await poller.poll()).connection.failure is None


async def test_a_closed_port() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        await fails(f"redis://127.0.0.1:{unused.getsockname()[1]}", "refused", "connection refused")


async def test_a_socket_that_is_not_there(tmp_path: Path) -> None:
    await fails(f"unix://{tmp_path}/none", "no-socket", "does not exist")


async def test_a_server_that_accepts_and_never_answers(list_server: ListServer) -> None:
    with list_server.fault("stall"):
        await fails(list_server.url, "timeout", "does not answer", timeout_s=0.05)


@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        ("LOADING", "loading", "loading its data"),
        ("NOAUTH", "noauth", "requires a password"),
        ("cut", "closed", "closed the connection"),
        ("drop-before", "closed", "closed the connection"),
        ("drop-after", "closed", "closed the connection"),
    ],
)
async def test_a_server_with_a_fault(list_server: ListServer, fault: str, kind: str, words: str) -> None:
    with list_server.fault(fault):
        await fails(list_server.url, kind, words)


@pytest.mark.parametrize(
    ("line", "kind", "words"),
    [
        (b"-NOPERM User x has no permissions to run the 'time' command", "noperm", "may not read"),
        (b"-READONLY You can't write against a read only replica.", "readonly", "read-only replica"),
        (b"-OOM command not allowed when used memory > 'maxmemory'.", "oom", "out of memory"),
        (b"-MISCONF Errors writing to the AOF file", "misconf", "cannot save"),
        (b"-CLUSTERDOWN The cluster is down", "clusterdown", "cluster is down"),
        (b"-ERR something new", "error", "something new"),
        (b"-\x1b[31mhostile\x00", "error", "hostile"),
        (b"HTTP/1.1 400 Bad Request", "error", "rotocol"),
    ],
)
async def test_a_server_that_answers_all_with(line: bytes, kind: str, words: str) -> None:
    with Responder(line) as responder:
        await fails(responder.url, kind, words)


async def test_a_sentence_of_the_servers_can_be_shown() -> None:
    with Responder(b"-ERR \x1b[31m\x07 hostile \xff") as responder:
        async with polling(responder.url) as poller:
            failure = (await poller.poll()).connection.failure
            with pytest.raises(PeekError) as words:
                await poller.peek(PageRequest("q"))

    assert failure is not None
    assert failure.sentence.isprintable()
    assert str(words.value).isprintable()


async def test_a_long_sentence_of_the_servers_is_cut() -> None:
    with Responder(b"-ERR " + b"x" * 100_000) as responder:
        async with polling(responder.url) as poller:
            failure = (await poller.poll()).connection.failure

    assert failure is not None
    assert len(failure.sentence) == 300


async def test_namespaces_cannot_be_looked_for_either(list_server: ListServer) -> None:
    with list_server.fault("drop-before"):
        async with polling(list_server.url) as poller:
            with pytest.raises(PeekError, match="closed the connection"):
                await poller.namespaces()


@contextmanager
def beside(server: EmbeddedServer, work: Callable[[redis.Redis], object]) -> Iterator[threading.Thread]:
    """Work in a thread and on a connection of its own, which may take long and may be killed; wait for its end."""

    def run() -> None:
        with redis.Redis.from_url(server.url, socket_timeout=None) as client, suppress(redis.ResponseError):
            work(client)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield thread
    finally:
        thread.join()


async def first_failure(poller: RsmqPoller, cause: threading.Thread) -> Snapshot:
    while (snapshot := await poller.poll()).connection.failure is None:
        assert cause.is_alive()
    return snapshot


async def test_a_server_that_is_loading_is_waited_for() -> None:
    # A long pause for each key, and a look at other clients every few keys; the test ends the pauses.
    slow = (
        "--enable-debug-command",
        "yes",
        "--key-load-delay",
        "1000",
        "--loading-process-events-interval-bytes",
        "1024",
    )
    with EmbeddedServer(extra=slow) as server, redis.Redis.from_url(server.url) as admin:
        Rsmq(admin).create_queue("q")
        admin.mset({f"key:{number}": "x" * 50 for number in range(5000)})

        with beside(server, lambda client: client.execute_command("DEBUG", "RELOAD")) as loading:
            async with polling(server.url) as poller:
                snapshot = await first_failure(poller, loading)
                admin.config_set("key-load-delay", 0)
                check(snapshot, "loading", "loading its data")
                while (snapshot := await poller.poll()).connection.failure is not None:
                    check(snapshot, "loading", "loading its data")
                assert [queue.name for queue in snapshot.queues] == ["q"]


@contextmanager
def one_message() -> Iterator[tuple[EmbeddedServer, redis.Redis]]:
    """A server with a message in its one queue."""
    with EmbeddedServer() as server, redis.Redis.from_url(server.url) as admin:
        Rsmq(admin).create_queue("q")
        plant(admin, "q", "x" * 32, due_ms=5, body="x")
        yield server, admin


async def _check_is_read(poller: RsmqPoller) -> None:
    """Check that the one queue is, with its one message."""
    snapshot = await poller.poll()
    page = await poller.peek(PageRequest("q"))
    assert snapshot.connection.failure is None
    assert (snapshot.queues[0].depth, len(page.rows)) == (1, 1)


async def test_a_replica_is_read_as_any_server() -> None:
    with one_message() as (server, admin):
        admin.replicaof("127.0.0.1", 1)
        async with polling(server.url) as poller:
            await _check_is_read(poller)
            admin.config_set("replica-serve-stale-data", "no")
            check(await poller.poll(), "masterdown", "lost its primary")


async def test_a_full_server_is_read_as_any_server() -> None:
    with one_message() as (server, admin):
        admin.config_set("maxmemory", 1)
        async with polling(server.url) as poller:
            await _check_is_read(poller)


async def test_a_server_that_is_busy_with_a_script() -> None:
    with (
        EmbeddedServer(extra=("--busy-reply-threshold", "1")) as server,
        redis.Redis.from_url(server.url) as admin,
        beside(server, lambda client: client.eval("while true do end", 0)) as busy,
    ):
        try:
            async with polling(server.url) as poller:
                check(await first_failure(poller, busy), "busy", "busy running a script")
                admin.script_kill()
                busy.join()
                assert (await poller.poll()).connection.failure is None
        finally:
            with suppress(redis.ResponseError):
                admin.script_kill()


async def test_an_outage_may_last_for_days(tmp_path: Path) -> None:
    async with polling(f"unix://{tmp_path}/nothing") as poller:
        link = (await poller.poll()).connection
        for _ in range(2_000):
            link = poller.fail(ConnectionError("still nothing"), waited_s=0).connection
        assert link.failure is not None
        assert link.retry_at_s is not None


def test_the_time_between_attempts_doubles_up_to_a_bound() -> None:
    assert [retry_delay_s(failures, 1.0, 10.0) for failures in (1, 2, 3, 4, 5, 1_025, 10**9)] == [
        1,
        2,
        4,
        8,
        10,
        10,
        10,
    ]
