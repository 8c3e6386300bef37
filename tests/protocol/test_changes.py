"""Only what changed is read again, and nothing that changes is missed, whoever tells: the server, or nobody."""

import random
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, suppress
from itertools import chain
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.listserver import ListServer
from rsmq_tui.protocol import Row, Rsmq, RsmqError, RsmqReader
from rsmq_tui.protocol.keys import Keys
from rsmq_tui.protocol.polling import FULL_EVERY, FULL_ROWS_MAX, RowCache
from rsmq_tui.protocol.rsmq.reader import RsmqRowCodec
from tests.protocol.keyspace import now_ms, plant
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

# 2096: hidden whenever these tests run.
LATER_MS = 4_000_000_000_000
ID = "x" * 32
CROWD = FULL_EVERY * 10


def refused_url(client: redis.Redis, url: str) -> str:
    """The URL of a user whom the server does not tell what changed."""
    client.acl_setuser("untold", enabled=True, passwords=["+x"], keys=["*"], commands=["+@all", "-client|tracking"])
    return url.replace("redis://", "redis://untold:x@")


@pytest.fixture(params=["told", "untold"])
async def either(request: pytest.FixtureRequest, client: redis.Redis, redis_url: str) -> AsyncIterator[RsmqReader]:
    """A reader that is told what changed, and one that is not."""
    url = redis_url if request.param == "told" else refused_url(client, redis_url)
    async with aclosing(RsmqReader(url)) as opened:
        await opened.rows.index()
        assert is_tracking(opened) == (request.param == "told")
        yield opened


@pytest.fixture
def crowd(client: redis.Redis) -> list[str]:
    """So many queues before all others that hardly any of them has its turn to be read although nothing changed."""
    names = [f"a{number:04d}" for number in range(CROWD)]
    with client.pipeline(transaction=False) as to:
        for name in names:
            to.sadd("rsmq:QUEUES", name).hset(f"rsmq:{name}:Q", "vt", 30)
        to.execute()
    return names


def is_tracking(reader: RsmqReader) -> bool:
    return reader.rows._connection.tracks


async def read_all(reader: RsmqReader, at_ms: int) -> dict[str, Row]:
    await reader.rows.index()
    return await reader.rows.rows(at_ms)


async def read_afresh(url: str, at_ms: int) -> dict[str, Row]:
    async with aclosing(RsmqReader(url)) as fresh:
        return await read_all(fresh, at_ms)


async def settle(reader: RsmqReader, at_ms: int) -> dict[str, Row]:
    """Read until every quiet row is known to be so."""
    await read_all(reader, at_ms)
    return await read_all(reader, at_ms)


def busy(client: redis.Redis) -> Rsmq:
    """A queue ``q`` with five messages, two of them received."""
    queues = Rsmq(client)
    queues.create_queue("q")
    queues.send_messages("q", ["x"] * 5)
    queues.receive_messages("q", 2)
    return queues


async def read_twice(reader: RsmqReader, client: redis.Redis) -> tuple[dict[str, Row], dict[str, Row], dict[str, Any]]:
    """Read all rows, and all again; returns both, and what the server counted of the commands of the second."""
    at_ms = now_ms(client)
    first = await read_all(reader, at_ms)
    client.config_resetstat()
    again = await read_all(reader, at_ms)
    return first, again, client.info("commandstats")


def test_of_very_many_quiet_queues_a_poll_reads_so_many_that_all_have_their_turn() -> None:
    known = RowCache(RsmqRowCodec(Keys("rsmq")))
    known.keep(frozenset(b"q%d" % number for number in range(50 * FULL_ROWS_MAX)))
    all_of_them = known.to_ask(1)
    known.store(all_of_them, [[[None] * 7, 0] for _ in all_of_them], 1)
    asked = [known.to_ask(2) for _ in range(50)]

    assert {len(places) for places in asked} == {FULL_ROWS_MAX}
    assert sorted(chain.from_iterable(asked)) == all_of_them == list(range(50 * FULL_ROWS_MAX))


async def test_a_quiet_queue_is_not_read_and_its_row_is_the_same_object(
    client: redis.Redis, crowd: list[str], reader: RsmqReader
) -> None:
    plant(client, "later", ID, due_ms=LATER_MS)
    plant(client, "earlier", ID, due_ms=500_000_000_000)
    client.sadd("rsmq:QUEUES", "earlier", "later")
    first, again, stats = await read_twice(reader, client)

    assert all(again[name] is row for name, row in first.items())
    assert "cmdstat_smembers" not in stats
    # Those whose turn it is to be read all the same.
    assert stats["cmdstat_hmget"]["calls"] == -(-len(first) // FULL_EVERY)


async def test_unless_told_every_queue_is_read_and_rows_that_are_as_before_are_the_same_objects(
    client: redis.Redis, redis_url: str, crowd: list[str]
) -> None:
    plant(client, crowd[0], ID, due_ms=500_000_000_000)
    async with aclosing(RsmqReader(refused_url(client, redis_url))) as reader:
        first, again, stats = await read_twice(reader, client)

    assert all(again[name] == row for name, row in first.items())
    assert again[crowd[0]] is first[crowd[0]]
    assert stats["cmdstat_hmget"]["calls"] == len(crowd)


def _made_anew(client: redis.Redis) -> None:
    Rsmq(client).delete_queue("q")
    Rsmq(client).create_queue("q", vt=7)


CHANGES: dict[str, Callable[[redis.Redis], object]] = {
    "send": lambda client: Rsmq(client).send_message("q", "x"),
    "receive": lambda client: Rsmq(client).receive_message("q"),
    "receive with vt 0": lambda client: Rsmq(client).receive_message("q", vt=0),
    "pop": lambda client: Rsmq(client).pop_message("q"),
    "delete": lambda client: client.zpopmax("rsmq:q"),
    "hide": lambda client: client.zincrby("rsmq:q", 1e12, client.zrange("rsmq:q", 0, 0)[0]),
    "count a send": lambda client: client.hincrby("rsmq:q:Q", "totalsent"),
    "count a receive": lambda client: client.hincrby("rsmq:q:Q", "totalrecv"),
    "modify": lambda client: client.hset("rsmq:q:Q", mapping={"vt": 5, "modified": 12345}),
    "lose the hash": lambda client: client.delete("rsmq:q:Q"),
    "lose the messages": lambda client: client.delete("rsmq:q"),
    "lose both": lambda client: client.delete("rsmq:q", "rsmq:q:Q"),
    "another type for the hash": lambda client: (client.delete("rsmq:q:Q"), client.set("rsmq:q:Q", "x")),
    "another type for the messages": lambda client: (client.delete("rsmq:q"), client.set("rsmq:q", "x")),
    "delete and create": _made_anew,
    "lose everything": lambda client: client.flushall(),
    "lose this database": lambda client: client.flushdb(),
    "list another": lambda client: client.sadd("rsmq:QUEUES", "r"),
    "list it no more": lambda client: client.srem("rsmq:QUEUES", "q"),
    "another type for the index": lambda client: (client.delete("rsmq:QUEUES"), client.set("rsmq:QUEUES", "x")),
    "rename": lambda client: client.rename("rsmq:q:Q", "rsmq:r:Q"),
    "change visibility": lambda client: Rsmq(client).change_message_visibility(
        "q", client.zrange("rsmq:q", 0, 0)[0].decode(), 5000
    ),
    "set attributes": lambda client: Rsmq(client).set_queue_attributes("q", vt=99, delay=7, maxsize=2048),
    "an attribute without a trace": lambda client: client.hset("rsmq:q:Q", "vt", 99),
    "no date": lambda client: client.hset("rsmq:q:Q", "created", "2022-07-19"),
    "one field less": lambda client: client.hdel("rsmq:q:Q", "maxsize"),
    "expire": lambda client: client.pexpire("rsmq:q", -1),
    "seconds": lambda client: client.zadd("rsmq:q", {ID: 1_750_000_000}),
    "never": lambda client: client.zadd("rsmq:q", {ID: "inf"}),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.usefixtures("crowd")
async def test_a_change_is_seen_at_once(client: redis.Redis, redis_url: str, either: RsmqReader, change: str) -> None:
    reader = either
    busy(client)
    at_ms = now_ms(client)
    before = await settle(reader, at_ms)
    CHANGES[change](client)
    after = await read_all(reader, at_ms)

    assert after != before
    assert after == await read_afresh(redis_url, at_ms)
    # And so is the change back to a queue that works.
    client.delete("rsmq:q", "rsmq:q:Q", "rsmq:QUEUES")
    busy(client)
    assert await read_all(reader, at_ms) == await read_afresh(redis_url, at_ms)
    assert await read_all(reader, at_ms) == await read_afresh(redis_url, at_ms)


@pytest.mark.parametrize(
    "scores",
    [
        [1_750_000_000_000, 1_750_000_000_005],
        [1_750_000_000, 1_750_000_001],
        [1_750_000_000_000_000, 1_750_000_000_005_000],
        ["-inf", 1_750_000_001, 1_750_000_000_005, 1_750_000_000_005_000],
        [1_750_000_000_005],
        [1_740_000_000_000, 1_750_000_000_000.5, 1_750_000_000_004.25, "inf"],
    ],
)
@pytest.mark.usefixtures("crowd")
async def test_messages_that_become_visible_by_themselves_are_seen_at_once(
    client: redis.Redis, redis_url: str, reader: RsmqReader, scores: list[int]
) -> None:
    client.sadd("rsmq:QUEUES", "q")
    client.hset("rsmq:q:Q", "vt", 30)
    for number, score in enumerate(scores):
        plant(client, "q", f"{number:032d}", due_ms=score)
    start_ms = 1_749_999_999_999
    await settle(reader, start_ms)
    for at_ms in (start_ms, start_ms + 1, start_ms + 5, start_ms + 6, start_ms + 999, start_ms + 1001, LATER_MS):
        assert await read_all(reader, at_ms) == await read_afresh(redis_url, at_ms)
    # A clock that is set back hides them again.
    assert await read_all(reader, start_ms) == await read_afresh(redis_url, start_ms)


async def test_every_queue_is_read_in_full_in_its_turn(
    client: redis.Redis, crowd: list[str], reader: RsmqReader
) -> None:
    at_ms = now_ms(client)
    await read_all(reader, at_ms)
    client.config_resetstat()
    for _ in range(FULL_EVERY):
        await read_all(reader, at_ms)
    stats = client.info("commandstats")

    assert stats["cmdstat_hmget"]["calls"] == len(crowd)
    assert stats["cmdstat_zcard"]["calls"] == len(crowd)
    assert stats.get("cmdstat_smembers", {"calls": 0})["calls"] <= 1


async def test_what_the_server_does_not_tell_is_found_and_then_nothing_is_taken_for_known(
    client: redis.Redis, redis_url: str, crowd: list[str], reader: RsmqReader
) -> None:
    at_ms = now_ms(client)
    with client.pipeline(transaction=False) as to:
        to.select(1).flushdb()
        for name in crowd:
            to.sadd("rsmq:QUEUES", name).hset(f"rsmq:{name}:Q", "vt", 31)
        to.select(0).execute()
    for time in range(1, 4):
        before = await read_all(reader, at_ms)
        client.swapdb(0, 1)
        wanted = await read_afresh(redis_url, at_ms)
        assert wanted != before
        # Its turn comes to the first queue whose row is another one; then all of them are asked about.
        await read_all(reader, at_ms)
        assert await read_all(reader, at_ms) == wanted
        assert is_tracking(reader) == (time < 3)
    client.swapdb(0, 1)

    # A server that so often does not tell is not relied on any more.
    assert await read_all(reader, at_ms) == before


@pytest.mark.usefixtures("crowd")
async def test_one_key_of_two_queues_changes_both(client: redis.Redis, redis_url: str, reader: RsmqReader) -> None:
    client.sadd("rsmq:QUEUES", "q", "q:Q", "QUEUES")
    client.hset("rsmq:q:Q", "vt", 30)
    at_ms = now_ms(client)
    await read_all(reader, at_ms)
    for step in range(4):
        client.delete("rsmq:q:Q")
        plant(client, "q:Q", ID, due_ms=LATER_MS) if step % 2 else client.hset("rsmq:q:Q", "vt", step)
        assert await read_all(reader, at_ms) == await read_afresh(redis_url, at_ms)


class TestAConnectionThatBreaks:
    @pytest.mark.usefixtures("crowd")
    async def test_loses_nothing(self, client: redis.Redis, redis_url: str, reader: RsmqReader) -> None:
        queues = busy(client)
        at_ms = now_ms(client)
        await read_all(reader, at_ms)
        for change in (queues.send_message, queues.pop_message, queues.delete_queue):
            assert client.client_kill_filter(_type="normal", skipme=True) > 0
            change(*("q", "x")[: 2 if change == queues.send_message else 1])
            assert await read_all(reader, at_ms) == await read_afresh(redis_url, at_ms)
            assert is_tracking(reader)

    async def test_between_the_index_and_the_rows_is_an_error_and_the_next_poll_reads_everything(
        self, client: redis.Redis, redis_url: str, crowd: list[str], reader: RsmqReader
    ) -> None:
        at_ms = now_ms(client)
        await read_all(reader, at_ms)
        client.hset(f"rsmq:{crowd[-1]}:Q", "vt", 5)
        index = await reader.rows.index()
        client.client_kill_filter(_type="normal", skipme=True)
        with pytest.raises(redis.ConnectionError):
            await reader.rows.rows(index.at_ms)

        client.hset(f"rsmq:{crowd[-2]}:Q", "vt", 6)
        assert await read_all(reader, at_ms) == await read_afresh(redis_url, at_ms)

    async def test_by_a_restart_is_one_as_any_other(self) -> None:
        with EmbeddedServer() as first, redis.Redis.from_url(first.url) as client:
            client.sadd("rsmq:QUEUES", "q")
            url, port = first.url, first.port
            reader = RsmqReader(url)
            assert await read_all(reader, 1) == {"q": [[None] * 7, 0]}
        with pytest.raises(redis.ConnectionError):
            await reader.rows.index()
        with EmbeddedServer(port=port) as second, redis.Redis.from_url(second.url) as client:
            client.sadd("rsmq:QUEUES", "r")
            assert await read_all(reader, 1) == {"r": [[None] * 7, 0]}
            assert is_tracking(reader)
            await reader.aclose()

    async def test_leaves_no_connection_behind(self, client: redis.Redis, redis_url: str) -> None:
        async with aclosing(RsmqReader(redis_url)) as reader:
            for _ in range(3):
                await read_all(reader, 1)
                client.client_kill_filter(_type="normal", skipme=True)
                await read_all(reader, 1)
            ours = [found for found in client.client_list() if found.get("lib-name") == "rsmq-tui"]
            assert len(ours) == 1

        def is_gone() -> bool:
            return all(found.get("lib-name") != "rsmq-tui" for found in client.client_list())

        # The server learns of it when it reads from its end.
        wait_until(is_gone, what="the connection to be closed")


class TestAServerThatDoesNotTell:
    @pytest.mark.parametrize("command", ["HELLO", "CLIENT"])
    async def test_for_it_lacks_the_command(self, command: str) -> None:
        with (
            EmbeddedServer(extra=("--rename-command", command, "")) as old,
            redis.Redis.from_url(old.url, protocol=2) as client,
        ):
            async with aclosing(RsmqReader(old.url)) as reader:
                for number in range(3):
                    client.sadd("rsmq:QUEUES", f"q{number}")
                    assert len(await read_all(reader, 1)) == number + 1
                assert not is_tracking(reader)

    async def test_for_a_proxy_hangs_up_on_the_command(self, list_server: ListServer) -> None:
        with (
            list_server.fault("drop-before", commands=["HELLO"]) as fault,
            redis.Redis(port=list_server.port, protocol=2) as client,
        ):
            async with aclosing(RsmqReader(list_server.url)) as reader:
                for number in range(3):
                    client.sadd("rsmq:QUEUES", f"q{number}")
                    assert len(await read_all(reader, 1)) == number + 1
                assert not is_tracking(reader)
            assert fault.happened

    async def test_for_it_is_too_old_to_tell_what_scripts_read(
        self, client: redis.Redis, redis_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("rsmq_tui.protocol.polling._TRACKS_SCRIPTS_FROM", (1000, 0))
        async with aclosing(RsmqReader(redis_url)) as reader:
            for vt in range(3):
                client.sadd("rsmq:QUEUES", "q")
                client.hset("rsmq:q:Q", "vt", vt)
                assert (await read_all(reader, 1))["q"][0][0] == b"%d" % vt
            assert not is_tracking(reader)
            assert client.info("clients")["tracking_clients"] == 0

    async def test_where_scripts_are_refused_every_queue_is_read(
        self, client: redis.Redis, redis_url: str, crowd: list[str]
    ) -> None:
        client.acl_setuser("bare", enabled=True, passwords=["+x"], keys=["*"], commands=["+@all", "-evalsha", "-eval"])
        async with aclosing(RsmqReader(redis_url.replace("redis://", "redis://bare:x@"))) as reader:
            for number in range(3):
                plant(client, crowd[-1], f"{number:032d}", due_ms=LATER_MS)
                assert await read_all(reader, 1) == await read_afresh(redis_url, 1)
            assert reader.scripts_refused


@pytest.mark.usefixtures("crowd")
async def test_queues_that_come_and_go_do_not_confuse_the_others(
    client: redis.Redis, redis_url: str, reader: RsmqReader
) -> None:
    queues = Rsmq(client)
    for name in "bdf":
        queues.create_queue(name, vt=ord(name))
    at_ms = now_ms(client)
    await settle(reader, at_ms)
    for name in "ace":
        queues.create_queue(name, vt=ord(name))
        queues.delete_queue(chr(ord(name) + 1))
        rows = await read_all(reader, at_ms)
        assert rows == await read_afresh(redis_url, at_ms)
        assert {int(rows[found][0][0]) for found in rows if len(found) == 1} == {ord(f) for f in rows if len(f) == 1}


async def test_another_namespace_is_read_from_its_own_keys(client: redis.Redis, reader: RsmqReader) -> None:
    for ns, vt in (("one", 1), ("two", 2)):
        Rsmq(client, ns).create_queue("q", vt=vt)
    seen = []
    for ns in ("one", "two", "one"):
        reader.watch(ns)
        seen.append((await settle(reader, now_ms(client)))["q"][0][0])

    assert seen == [b"1", b"2", b"1"]


def place(client: redis.Redis, name: str, number: int, due_ms: int) -> None:
    client.zadd(f"rsmq:{name}", {f"{number:032d}": due_ms + number})
    client.hincrby(f"rsmq:{name}:Q", "totalsent")


def create_again(client: redis.Redis, name: str, number: int) -> None:
    client.delete(f"rsmq:{name}", f"rsmq:{name}:Q")
    client.hset(f"rsmq:{name}:Q", mapping={"vt": number, "delay": 0, "maxsize": -1, "modified": number})


# What happens to a queue; what its keys' types do not allow does not happen.
EVENTS: dict[str, Callable[[redis.Redis, str, int], object]] = {
    "send": lambda client, name, number: place(client, name, number, 500_000_000_000),
    "send delayed": lambda client, name, number: place(client, name, number, LATER_MS),
    "receive": lambda client, name, number: Rsmq(client).receive_message(name),
    "pop": lambda client, name, number: Rsmq(client).pop_message(name),
    "delete": lambda client, name, number: client.zremrangebyrank(f"rsmq:{name}", 0, 0),
    "create again": create_again,
    "lose messages": lambda client, name, number: client.delete(f"rsmq:{name}"),
    "lose hash": lambda client, name, number: client.delete(f"rsmq:{name}:Q"),
    "wrong messages": lambda client, name, number: client.set(f"rsmq:{name}", "x"),
    "wrong hash": lambda client, name, number: client.set(f"rsmq:{name}:Q", "x"),
    "nothing": lambda client, name, number: None,
}


LONG_EVENTS: dict[str, Callable[[redis.Redis, str, int, int], object]] = {
    "hide": lambda client, name, due_ms, step: plant(client, name, f"{step:032d}", due_ms=due_ms),
    "hide in seconds": lambda client, name, due_ms, step: plant(client, name, f"{step:032d}", due_ms=due_ms // 1000),
    "hide again": lambda client, name, due_ms, step: client.zadd(
        f"rsmq:{name}", {client.zrange(f"rsmq:{name}", 0, 0)[0]: due_ms} if client.zcard(f"rsmq:{name}") else {"x": 1}
    ),
    "delete the last": lambda client, name, due_ms, step: client.zpopmax(f"rsmq:{name}"),
    "list": lambda client, name, due_ms, step: client.sadd("rsmq:QUEUES", name),
    "unlist": lambda client, name, due_ms, step: client.srem("rsmq:QUEUES", name),
    "flush": lambda client, name, due_ms, step: client.flushdb() if step % 40 == 7 else None,
    **{
        event: lambda client, name, due_ms, step, change=change: change(client, name, step)  # type: ignore[misc]
        for event, change in EVENTS.items()
    },
}


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(sorted(EVENTS))), max_size=25))
async def test_whatever_happens_rows_are_those_of_a_fresh_reader(
    server: EmbeddedServer, events: list[tuple[str, str]]
) -> None:
    with redis.Redis.from_url(server.url) as client:
        client.flushall()
        client.sadd("rsmq:QUEUES", "a", "b")
        async with aclosing(RsmqReader(server.url)) as reader, aclosing(RsmqReader(server.url)) as fresh:
            for number, (name, event) in enumerate(events, 1):
                with suppress(RsmqError, redis.ResponseError):
                    EVENTS[event](client, name, number)
                at_ms = now_ms(client)
                # Watching anew forgets all that was known.
                fresh.watch("rsmq")
                assert await read_all(reader, at_ms) == await read_all(fresh, at_ms)


@pytest.mark.parametrize("seed", range(2))
async def test_over_a_long_time_rows_are_those_of_a_fresh_reader(
    client: redis.Redis, redis_url: str, seed: int, crowd: list[str]
) -> None:
    rng = random.Random(seed)
    names = [*(f"q{number}" for number in range(8)), *rng.sample(crowd, 4)]
    # Two clocks: the test's own, which the hidden messages wait for, and the server's, long before.
    at_ms = LATER_MS
    async with aclosing(RsmqReader(redis_url)) as reader:
        await read_all(reader, at_ms)
        for step in range(100):
            for _ in range(rng.randrange(4)):
                name = rng.choice(names)
                event = rng.choice(sorted(LONG_EVENTS))
                with suppress(RsmqError, redis.ResponseError):
                    LONG_EVENTS[event](client, name, at_ms + rng.choice((0, 1, 5, 50, 5000)), step)
            at_ms += rng.choice((0, 1, 1, 7, 100, 1000))
            async with aclosing(RsmqReader(redis_url)) as fresh:
                assert await read_all(reader, at_ms) == await read_all(fresh, at_ms), step
        assert is_tracking(reader)
        assert reader.rows._connection._unreported == 0
