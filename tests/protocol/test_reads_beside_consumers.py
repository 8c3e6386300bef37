"""Score, receive count and first receive belong together: what is read is true, whatever consumers do meanwhile."""

from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import aclosing
from typing import Any, NamedTuple

import pytest
import redis

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.monitor import parse_filter, search
from rsmq_tui.protocol import PageRequest, Rsmq, RsmqReader, leading_int
from rsmq_tui.protocol.connections import script_runner
from rsmq_tui.protocol.rsmq import pages

pytestmark = pytest.mark.slow

VT_S = 600
COUNT = 400


class Told(NamedTuple):
    """A message as a read returned it, and the server's time of that read."""

    at_ms: int
    id: str
    score: str
    rc: int
    fr_ms: int | None


Reading = Callable[[RsmqReader, list[str]], Coroutine[Any, Any, list[Told]]]


async def _scan(reader: RsmqReader, ids: list[str]) -> list[Told]:
    return await _chunks(reader.scan.chunks("q", counts=True, bodies=False))


async def _scan_with_bodies(reader: RsmqReader, ids: list[str]) -> list[Told]:
    return await _chunks(reader.scan.chunks("q", counts=True, bodies=True, sizes=True))


async def _by_score(reader: RsmqReader, ids: list[str]) -> list[Told]:
    return await _chunks(reader.ranges.chunks("q", counts=True))


async def _chunks(coming: Any) -> list[Told]:
    return [
        Told(chunk.at_ms, id.decode(), score.decode(), leading_int(rc) or 0, leading_int(fr))
        async for chunk in coming
        for id, score, rc, fr, _, _ in chunk.messages
    ]


async def _page(reader: RsmqReader, ids: list[str]) -> list[Told]:
    page = await reader.pages.page(PageRequest("q", count=COUNT))
    return [Told(page.at_ms, each.id, each.score, each.rc, each.fr_ms) for each in page.messages]


async def _one_by_one(reader: RsmqReader, ids: list[str]) -> list[Told]:
    found = [await reader.pages.message("q", id) for id in _often(ids)]
    assert {each.body for each in found} == {b"x"}
    return [Told(each.at_ms, each.id, str(each.score), each.rc, each.fr_ms) for each in found]


async def _present(reader: RsmqReader, ids: list[str]) -> list[Told]:
    at_ms, found = await reader.pages.present("q", ids)
    return [Told(at_ms, id, now.score, now.rc, now.fr_ms) for id, now in zip(ids, found, strict=True) if now]


async def _by_body(reader: RsmqReader, ids: list[str]) -> list[Told]:
    assert await reader.bodies.suits("q")
    return await _found(reader, "body~x")


async def _by_id(reader: RsmqReader, ids: list[str]) -> list[Told]:
    return [answer for id in _often(ids) for answer in await _found(reader, f"id:{id}")]


async def _found(reader: RsmqReader, text: str) -> list[Told]:
    return [
        Told(progress.at_ms, row.id, row.score, row.rc or 0, row.fr_ms)
        async for progress in search(reader, "q", parse_filter(text))
        for row in progress.rows
    ]


def _often(ids: list[str]) -> list[str]:
    """Return ids of which some are received while they are read, if reading each takes four commands or more."""
    return [id for start in range(4) for id in ids[start::4][start * 10 : start * 10 + 10]]


READS = [_scan, _scan_with_bodies, _by_score, _page, _one_by_one, _present, _by_body, _by_id]


@pytest.fixture
def ids(client: redis.Redis) -> list[str]:
    queues = Rsmq(client)
    queues.create_queue("q", vt=VT_S)
    return list(queues.send_messages("q", ["x"] * COUNT))


@pytest.fixture(params=["scripts", "plain"])
async def reader(
    request: pytest.FixtureRequest, server: EmbeddedServer, client: redis.Redis
) -> AsyncIterator[RsmqReader]:
    """A reader that may run scripts, or one that may not."""
    client.acl_setuser(
        "plain", enabled=True, passwords=["+x"], keys=["*"], categories=["+@all"], commands=["-eval", "-evalsha"]
    )
    plain_url = server.url.replace("redis://", "redis://plain:x@")
    async with aclosing(RsmqReader(plain_url if request.param == "plain" else server.url)) as opened:
        yield opened


@pytest.fixture
def consumer(client: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Receive a message between any two commands of a reader; return the ids that were received, as they come."""
    honest, queues, received = script_runner.exchange, Rsmq(client), []

    async def beside(connection: Any, commands: Sequence[Any]) -> list[Any]:
        replies = []
        for command in commands:
            replies += await honest(connection, [command])
            if (message := queues.receive_message("q")) is not None:
                received.append(message.id)
        return replies

    monkeypatch.setattr(script_runner, "exchange", beside)
    return received


@pytest.mark.parametrize("read", READS)
async def test_a_message_is_read_as_it_was_at_one_moment(
    read: Reading, reader: RsmqReader, ids: list[str], consumer: list[str], client: redis.Redis
) -> None:
    dues = {id: f"{client.zscore('rsmq:q', id):.0f}" for id in ids}
    answer = await read(reader, ids)
    assert consumer
    assert len(answer) == len({each.id for each in answer}) == (40 if read in (_one_by_one, _by_id) else COUNT)
    for each in answer:
        if each.rc:
            assert each.fr_ms is not None
            assert (each.rc, each.score) == (1, str(each.fr_ms + VT_S * 1000))
            assert each.fr_ms <= each.at_ms
        else:
            assert (each.fr_ms, each.score) == (None, dues[each.id])


async def test_a_message_that_changes_all_the_time_is_not_read_for_ever(
    client: redis.Redis, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.zadd("rsmq:q", {"a" * 32: 1})
    honest = script_runner.exchange

    async def beside(connection: Any, commands: Sequence[Any]) -> list[Any]:
        replies = []
        for command in commands:
            replies += await honest(connection, [command])
            client.zincrby("rsmq:q", 1, "a" * 32)
        return replies

    async with aclosing(RsmqReader(redis_url)) as reader:
        await reader.pages.present("q", ["a" * 32])
        monkeypatch.setattr(script_runner, "exchange", beside)
        client.config_resetstat()
        _, (found,) = await reader.pages.present("q", ["a" * 32])
        assert found is not None
        assert client.info("commandstats")["cmdstat_zmscore"]["calls"] == 2 * pages._READS_MAX
