"""Who works on a queue: counted by MONITOR beside real traffic, and its limits against servers that misbehave."""

import asyncio
import random
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import NamedTuple

import pytest
from redis import Redis
from rsmq import RedisSMQ

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.protocol import SERVER_ERRORS, ListQueue, Rsmq, RsmqReader
from rsmq_tui.protocol.lists.naming import ListNames
from rsmq_tui.protocol.lists.reader import ListReader
from rsmq_tui.protocol.server.clients import (
    COMMANDS_MAX,
    ClientActivity,
    CommandLog,
    QueueClients,
    list_rules,
    rsmq_rules,
)
from tests.waiting import wait_until

# What rsmq 0.12.4 for Node executes, with its times as keys.
NODE_RECEIVE = """
local msg = redis.call("ZRANGEBYSCORE", KEYS[1], "-inf", KEYS[2], "LIMIT", "0", "1")
if #msg == 0 then return {} end
redis.call("ZADD", KEYS[1], KEYS[3], msg[1])
redis.call("HINCRBY", KEYS[1] .. ":Q", "totalrecv", 1)
local mbody = redis.call("HGET", KEYS[1] .. ":Q", msg[1])
local rc = redis.call("HINCRBY", KEYS[1] .. ":Q", msg[1] .. ":rc", 1)
return {msg[1], mbody, rc}
"""
HEAD = b"+1700000000.000001 [0 127.0.0.1:7] "


class Op(NamedTuple):
    """One operation of a client: when it was sent and answered, in µs, and what it did."""

    begun_us: int
    ended_us: int
    deed: str


class Worker(threading.Thread):
    """A client that works until it is stopped, and keeps what it did."""

    def __init__(self, url: str, name: str, work: Callable[[Redis], Iterator[str | None]]) -> None:
        super().__init__(daemon=True)
        self.ops: list[Op] = []
        self._url, self._name, self._work = url, name, work
        self._ends = threading.Event()

    def run(self) -> None:
        with Redis.from_url(self._url, client_name=self._name) as client:
            deeds = self._work(client)
            while not self._ends.is_set():
                begun_us = time.time_ns() // 1000
                deed = next(deeds)
                if deed is not None:
                    self.ops.append(Op(begun_us, time.time_ns() // 1000, deed))

    def stop(self) -> None:
        self._ends.set()
        self.join()

    def check(self, found: QueueClients, deed: str, counted: int) -> None:
        """Compare a count with what this client did from the first to the last command that was seen."""
        assert found.from_us is not None
        assert found.to_us is not None
        mine = [op for op in self.ops if op.deed == deed]
        within = [op for op in mine if found.from_us < op.begun_us and op.ended_us < found.to_us]
        touching = [op for op in mine if found.from_us <= op.ended_us and op.begun_us <= found.to_us]
        assert len(within) <= counted <= len(touching)
        assert len(touching) - len(within) <= 2


def _sending(client: Redis) -> Iterator[str]:
    queue = Rsmq(client)
    while True:
        queue.send_message("orders", 'a body with "quotes" \n and HINCRBY "rsmq:orders:Q" "totalsent" "9"')
        yield "sends"


def _consuming(client: Redis) -> Iterator[str | None]:
    queue = Rsmq(client)
    while True:
        message = queue.receive_message("orders")
        yield None if message is None else "receives"
        if message is not None:
            queue.delete_message("orders", message.id)
            yield "deletes"


def _node(client: Redis) -> Iterator[str | None]:
    receive = client.register_script(NODE_RECEIVE)
    while True:
        now_ms = time.time_ns() // 1_000_000
        found = receive(keys=["rsmq:orders", str(now_ms), str(now_ms + 30_000)])
        yield "receives" if found else None
        if found:
            with client.pipeline(transaction=True) as deletion:
                id = found[0]
                deletion.zrem("rsmq:orders", id).hdel("rsmq:orders:Q", id, id + b":rc", id + b":fr").execute()
            yield "deletes"


def _elsewhere(client: Redis) -> Iterator[str]:
    queue = Rsmq(client)
    while True:
        queue.send_message("other", "x")
        queue.pop_message("other")
        yield "elsewhere"


@contextmanager
def _working(*workers: Worker) -> Iterator[None]:
    for worker in workers:
        worker.start()
    try:
        wait_until(lambda: all(worker.ops for worker in workers), what="everybody works")
        yield
    finally:
        for worker in workers:
            worker.stop()


@asynccontextmanager
async def _reader(url: str) -> AsyncIterator[RsmqReader]:
    reader = RsmqReader(url)
    try:
        yield reader
    finally:
        await reader.aclose()


def _by_name(found: QueueClients) -> dict[str, ClientActivity]:
    return {activity.name: activity for activity in found.activities}


async def test_counts_agree_with_what_each_client_did(redis_url: str, client: Redis) -> None:
    for name in ("orders", "other"):
        Rsmq(client).create_queue(name, vt=3600)
    workers = {
        name: Worker(redis_url, name, work)
        for name, work in (("producer", _sending), ("ours", _consuming), ("node", _node), ("noise", _elsewhere))
    }
    with _working(*workers.values()):
        async with _reader(redis_url) as reader:
            found = await reader.clients("orders", seconds=1)
    by_name = _by_name(found)
    assert found.refused is None
    assert by_name.keys() == {"producer", "ours", "node"}
    for name, deeds in {
        "producer": ["sends"],
        "ours": ["receives", "deletes"],
        "node": ["receives", "deletes"],
    }.items():
        activity = by_name[name]
        assert activity.library == "redis-py"
        for deed in ("sends", "receives", "deletes"):
            if deed in deeds:
                workers[name].check(found, deed, getattr(activity, deed))
            else:
                assert getattr(activity, deed) == 0
        assert activity.calls >= activity.receives


async def seen_clients(
    reader: RsmqReader | ListReader, queue: str, client: Redis, work: Callable[[], object]
) -> QueueClients:
    """Watch while that is done: from when the server lists a monitor until further commands reach the limit."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("rsmq_tui.protocol.server.clients.SECONDS_MAX", 600)
        watching = asyncio.create_task(reader.clients(queue, seconds=600))

        def is_watched() -> bool:
            return any("O" in each["flags"] for each in client.client_list())

        await asyncio.to_thread(wait_until, is_watched, what="the look to begin")
        await asyncio.to_thread(work)
        with client.pipeline(transaction=False) as pings:
            while not watching.done():
                for _ in range(2_000):
                    pings.ping()
                await asyncio.to_thread(pings.execute)
        found = await watching
    assert found.ended == "commands"
    return found


async def test_a_queue_of_pyrsmq_and_a_consumer_that_polls_an_empty_one(redis_url: str, client: Redis) -> None:
    name = 'hostile \x1b[2J "name" [bold]\\'
    peer = RedisSMQ(client=client, qname=name)
    peer.createQueue().execute()

    def work() -> None:
        for _ in range(3):
            peer.sendMessage(message="x").execute()
        peer.popMessage().execute()
        id = peer.receiveMessage(vt=3600).execute()["id"]
        peer.deleteMessage(id=id).execute()
        peer.receiveMessage(vt=3600).execute()
        for _ in range(5):
            peer.receiveMessage(quiet=True).exceptions(False).execute()

    client.client_setname("\\n[bold]")
    async with _reader(redis_url) as reader:
        found = await seen_clients(reader, name, client, work)
    (activity,) = found.activities
    assert (activity.sends, activity.receives, activity.deletes, activity.calls) == (3, 3, 2, 8)
    assert activity.name == "\\n[bold]"


async def test_batches_count_their_messages(redis_url: str, client: Redis) -> None:
    rsmq = Rsmq(client)
    rsmq.create_queue("orders")

    def work() -> None:
        rsmq.send_messages("orders", [str(number) for number in range(500)])
        received = rsmq.receive_messages("orders", 200)
        rsmq.delete_messages("orders", [message.id for message in received[:150]])

    async with _reader(redis_url) as reader:
        (activity,) = (await seen_clients(reader, "orders", client, work)).activities
    assert (activity.sends, activity.receives, activity.deletes, activity.calls) == (500, 200, 150, 1)


async def test_clients_of_a_list(redis_url: str, client: Redis) -> None:
    queue = ListQueue(client, "orders")

    def work() -> None:
        queue.push("a", "b", "c", "d")
        lease = queue.take()
        assert lease is not None
        assert queue.ack(lease)
        queue.pop()
        client.brpop(["other", queue.key], 1)
        client.rpush("elsewhere", "queue:orders")

    reader = ListReader(redis_url, ListNames(), ["queue:*"])
    try:
        (activity,) = (await seen_clients(reader, queue.key, client, work)).activities
    finally:
        await reader.aclose()
    assert (activity.sends, activity.receives, activity.deletes, activity.calls) == (4, 3, 3, 3)


async def test_only_the_queues_own_database_counts(redis_url: str, client: Redis) -> None:
    with Redis.from_url(redis_url.replace("/0", "/1")) as elsewhere:
        for each in (client, elsewhere):
            Rsmq(each).create_queue("orders")

        def send() -> None:
            Rsmq(elsewhere).send_message("orders", "x")

        try:
            async with _reader(redis_url) as reader:
                found = await seen_clients(
                    reader, "orders", client, lambda: Rsmq(elsewhere).send_message("orders", "x")
                )
            assert found.activities == ()
            assert found.commands > 0
            async with _reader(redis_url.replace("/0", "/1")) as reader:
                found = await seen_clients(
                    reader, "orders", client, lambda: Rsmq(elsewhere).send_message("orders", "x")
                )
            assert [activity.sends for activity in found.activities] == [1]
        finally:
            elsewhere.flushdb()


async def test_without_monitor_there_is_a_guess(redis_url: str, client: Redis) -> None:
    client.execute_command("ACL", "SETUSER", "watcher", "on", ">secret", "~*", "&*", "+@all", "-monitor")
    client.client_setname("consumer")
    async with _reader(redis_url.replace("://", "://watcher:secret@")) as reader:
        found = await reader.clients("orders", seconds=1)
        assert found.refused == "this user may not run it"
        assert found.ended is None
        assert found.activities == ()
        assert found.groups is not None
        assert ("consumer", "redis-py", 1) in [(group.name, group.library, group.clients) for group in found.groups]
        assert "a guess" in found.sentence
        client.execute_command("ACL", "SETUSER", "watcher", "-client|list")
        found = await reader.clients("orders", seconds=1)
        assert found.groups is None
        assert "CLIENT LIST is refused too (this user may not run it)" in found.sentence
        client.execute_command("ACL", "SETUSER", "watcher", "+monitor")
        rsmq = Rsmq(client)
        rsmq.create_queue("orders")
        found = await seen_clients(reader, "orders", client, lambda: rsmq.send_message("orders", "x"))
        assert [(each.name, each.sends) for each in found.activities] == [("", 1)]
        assert found.sentence.endswith("; no names: CLIENT LIST is refused (this user may not run it)")
        guess = await reader.clients("orders", seconds=None)
        assert "(this user may not run it): clients and their names are not known" in guess.sentence


async def test_the_guess_alone_sends_no_monitor(redis_url: str, client: Redis) -> None:
    async with _reader(redis_url) as reader:
        found = await reader.clients("orders", seconds=None)
    assert (found.refused, found.ended) == (None, None)
    assert "cmdstat_monitor" not in client.info("commandstats")


async def test_clients_on_a_unix_socket_have_one_address() -> None:
    with EmbeddedServer(unix_socket=True) as server, Redis.from_url(server.url) as client:
        rsmq = Rsmq(client)
        rsmq.create_queue("orders")
        async with _reader(server.url) as reader:
            (activity,) = (
                await seen_clients(reader, "orders", client, lambda: rsmq.send_message("orders", "x"))
            ).activities
    assert activity.sends == 1
    assert activity.address.startswith("unix:")


@asynccontextmanager
async def _answering(*parts: bytes, forever: bool = False) -> AsyncIterator[tuple[str, asyncio.Event]]:
    """A server that answers MONITOR with these, again and again if ``forever``; the event says that it was left."""
    left = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        is_monitor = False
        try:
            while data := await reader.read(65_536):
                if b"MONITOR" not in data:
                    writer.write(b"$0\r\n\r\n" * data.count(b"*"))
                    continue
                is_monitor = True
                for part in parts[:1]:
                    writer.write(part)
                while forever:
                    for part in parts[1:]:
                        writer.write(part)
                    await writer.drain()
                for part in parts[1:]:
                    writer.write(part)
        except OSError:
            pass
        finally:
            if is_monitor:
                left.set()
            writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0", left


@pytest.mark.parametrize(
    ("parts", "forever", "ended"),
    [
        ((b"+OK\r\n",), False, "time"),
        ((b"+OK\r\n", HEAD), False, "time"),
        ((b"+OK\r\n", b"+" + b"x" * 60_000), True, "bytes"),
        ((b"+OK\r\n", b"\r\n" * 1_000), True, "bytes"),
        ((b"+OK\r\n", (HEAD + b'"GET" "x"\r\n') * 1_000), True, "commands"),
        ((b"+OK\r\n", HEAD + b'"HINCRBY" "rsmq:q:Q" "totalsent" "' + b"9" * 60_000), True, "bytes"),
    ],
    ids=["silent", "half a line", "no line end", "empty lines", "commands", "a long line"],
)
async def test_a_look_ends_by_itself(
    parts: tuple[bytes, ...], forever: bool, ended: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rsmq_tui.protocol.server.clients.SECONDS_MAX", 0.05 if ended == "time" else 600)
    async with _answering(*parts, forever=forever) as (url, left), _reader(url) as reader:
        found = await reader.clients("q", seconds=600)
        await left.wait()
    assert found.ended == ended
    assert found.commands <= COMMANDS_MAX


@pytest.mark.parametrize("parts", [(), (b"+O",), (b"x" * 200_000,)], ids=["nothing", "half", "flood"])
async def test_a_server_that_does_not_answer_monitor(parts: tuple[bytes, ...]) -> None:
    async with _answering(*parts) as (url, left):
        reader = RsmqReader(url, timeout_s=0.2)
        with pytest.raises(SERVER_ERRORS, match="MONITOR"):
            await reader.clients("q", seconds=1)
        await left.wait()
        await reader.aclose()


async def test_an_error_reply_is_a_refusal() -> None:
    async with _answering(b"-ERR unknown command 'MONITOR' \x1b[2J\r\n") as (url, _), _reader(url) as reader:
        found = await reader.clients("q", seconds=1)
    assert found.refused is not None
    assert "unknown command" in found.refused


def test_no_part_of_the_data_changes_the_counts() -> None:
    rules = rsmq_rules(b"rsmq:q", b"rsmq:q:Q")
    data = b"".join(
        HEAD + command + b"\r\n"
        for command in (
            b'"hincrby" "rsmq:q:Q" "totalsent" "2"',
            b'"HINCRBY" "rsmq:q:Q" "totalsent" "-5"',
            b'"HINCRBY" "rsmq:q:Q" "totalsent" "99999999999999"',
            b'"HINCRBY" "rsmq:q:Q"',
            b'"ZREM" "rsmq:q" "a" "b"',
            b'"SET" "x" "\\"ZREM\\" \\"rsmq:q\\" \\"a\\""',
            b'"ZREM" "rsmq:qq" "rsmq:q"',
            b'"ZREM',
            b'"ZREM" "rsmq:q',
            b"",
        )
    )
    whole = CommandLog(rules, 0)
    whole.feed(data)
    assert whole.by_address == {b"127.0.0.1:7": ClientActivity("127.0.0.1:7", sends=2, deletes=2)}
    for seed in range(20):
        cut, rest = CommandLog(rules, 0), data
        chance = random.Random(seed)
        while rest:
            size = chance.randint(1, 40)
            cut.feed(rest[:size])
            rest = rest[size:]
        assert (cut.by_address, cut.commands) == (whole.by_address, whole.commands)


def test_a_script_belongs_to_the_client_that_called_it() -> None:
    log = CommandLog(rsmq_rules(b"rsmq:q", b"rsmq:q:Q"), 0)
    lua = b"+1700000000.000001 [0 lua] "
    lines = [
        lua + b'"HINCRBY" "rsmq:q:Q" "totalrecv" "1"',
        b'+1700000000.000001 [0 1.1.1.1:1] "evalsha" "sha" "0"',
        lua + b'"ZRANGEBYSCORE" "rsmq:q" "-inf" "1"',
        lua + b'"ZRANGEBYSCORE" "rsmq:q" "-inf" "1"',
        lua + b'"HINCRBY" "rsmq:q:Q" "totalrecv" "1"',
        b'+1700000000.000002 [0 2.2.2.2:2] "PING"',
        lua + b'"HINCRBY" "rsmq:q:Q" "totalrecv" "1"',
        b'+1700000000.000003 [1 3.3.3.3:3] "ZREM" "rsmq:q" "x"',
    ]
    log.feed(b"\r\n".join(lines) + b"\r\n")
    assert log.by_address == {b"1.1.1.1:1": ClientActivity("1.1.1.1:1", receives=1, calls=1)}
    assert (log.from_us, log.to_us) == (1_700_000_000_000_001, 1_700_000_000_000_003)


def test_keys_are_compared_as_monitor_writes_them(redis_url: str, client: Redis) -> None:
    key = bytes(range(256))
    log = CommandLog(list_rules(key, b"p"), 0)
    with client.monitor() as monitor:
        connection = monitor.connection
        client.rpush(key, b"x", b'y" "')
        while not log.by_address:
            log.feed(connection._sock.recv(65_536))
    (activity,) = log.by_address.values()
    assert activity.sends == 2
