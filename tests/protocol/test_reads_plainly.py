"""Where scripts are refused, plain commands read the same rows, counts and pages."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from typing import Any

import pytest
import redis

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.protocol import Anchor, PageRequest, RawPage, Row, RsmqError, RsmqReader
from rsmq_tui.protocol.connections.script_runner import ScriptRunner, ScriptsRefusedError
from rsmq_tui.protocol.keys import Keys
from rsmq_tui.protocol.polling import CHUNK_QUEUES
from rsmq_tui.protocol.rsmq.pages import PAGE_BODY_BYTES
from rsmq_tui.protocol.rsmq.reader import RsmqRows
from rsmq_tui.protocol.rsmq.scripts import RC_MAX
from tests.protocol.keyspace import plant

# Scripts count by the server's time, unless the poll's is later.
NOW_MS = 2_750_000_000_000
# 2096: hidden whenever these tests run.
LATER_MS = 4_000_000_000_000
# By what is odd about them: the scores of a queue's messages.
SCORES: dict[str, list[Any]] = {
    "ms": [NOW_MS - 5000, NOW_MS, NOW_MS + 1, NOW_MS + 60_000],
    "fractions": [NOW_MS - 0.5, NOW_MS + 0.5],
    "seconds": [NOW_MS // 1000 - 5, NOW_MS // 1000, NOW_MS // 1000 + 5],
    "microseconds": [NOW_MS * 1000 - 5, NOW_MS * 1000, NOW_MS * 1000 + 5],
    "never": ["inf"],
    "at-once": ["-inf", 0, -7],
    "mixed": ["-inf", 3, NOW_MS // 1000 + 9, NOW_MS + 9, NOW_MS * 1000 + 9, 1e300, "inf"],
    "equal": [NOW_MS] * 9,
    "hidden": [LATER_MS] * 3,
    "both": [NOW_MS, NOW_MS, LATER_MS, LATER_MS + 1, LATER_MS + 2],
    "empty": [],
}
ODD_RC = [b"0", b"7", b" 7", b"+7", b"-3", b"7.5", b"7abc", b"abc", b"", b"0x10", b"1e3", b"inf", b"nan", b"9" * 30]


@pytest.fixture
def plain_url(client: redis.Redis, server: EmbeddedServer) -> str:
    """The URL of a user that may read everything and run no script."""
    client.acl_setuser(
        "plain", enabled=True, passwords=["+x"], keys=["*"], categories=["+@all"], commands=["-eval", "-evalsha"]
    )
    return server.url.replace("redis://", "redis://plain:x@")


@pytest.fixture
async def readers(redis_url: str, plain_url: str) -> AsyncIterator[tuple[RsmqReader, RsmqReader]]:
    async with aclosing(RsmqReader(redis_url)) as scripted, aclosing(RsmqReader(plain_url)) as plain:
        yield scripted, plain
        assert scripted.scripts_refused is None


@pytest.fixture
def odd_queues(client: redis.Redis) -> list[str]:
    """Queues with odd scores, bodies, receive counts and types; returns their names."""
    with client.pipeline(transaction=False) as to:
        for name, scores in SCORES.items():
            to.sadd("rsmq:QUEUES", name)
            to.hset(f"rsmq:{name}:Q", mapping={"vt": "15.5", "delay": 0, "maxsize": -1, "created": "2022-07-19"})
            for number, score in enumerate(scores):
                identity = f"{'aZ09'[number % 4]}{number:031d}"
                to.zadd(f"rsmq:{name}", {identity: score})
                if number % 3:
                    to.hset(f"rsmq:{name}:Q", identity, b"\xff\x00" * number * 200)
                if number % 2:
                    to.hset(f"rsmq:{name}:Q", mapping={f"{identity}:rc": number, f"{identity}:fr": NOW_MS - number})
        to.sadd("rsmq:QUEUES", "ghost", "no-hash", "string", "list", b"\xff\x00\x1b[31m", "no-vt")
        to.zadd("rsmq:no-hash", {"short": 5})
        to.set("rsmq:string:Q", "x")
        to.zadd("rsmq:string", {"short": 5})
        to.rpush("rsmq:list", "x")
        to.hset("rsmq:list:Q", "vt", "30")
        to.hset("rsmq:no-vt:Q", "totalsent", 1)
        to.execute()
    return sorted(name.decode("utf-8", "surrogateescape") for name in client.smembers("rsmq:QUEUES"))


async def by_both(readers: Sequence[RsmqReader], read: Callable[[RsmqReader], Any]) -> list[Any]:
    """What each reader answers; an error counts as an answer, by its code."""
    answers: list[Any] = []
    for reader in readers:
        try:
            answers.append(await read(reader))
        except RsmqError as error:
            answers.append((error.code, str(error)))
    assert readers[1].scripts_refused is not None
    return answers


async def all_rows(reader: RsmqReader) -> dict[str, Row]:
    await reader.rows.index()
    return await reader.rows.rows(NOW_MS)


async def test_rows(readers: tuple[RsmqReader, RsmqReader], odd_queues: list[str]) -> None:
    scripted, plain = await by_both(readers, all_rows)
    for rows in (scripted, plain):
        for row in rows.values():
            # The script's error text says in which script it happened.
            row[:2] = [part[:9] if isinstance(part, bytes) else part for part in row[:2]]

    assert sorted(scripted) == odd_queues
    assert plain == scripted


async def test_rows_of_queues_that_are_deleted_during_a_poll(
    client: redis.Redis, readers: tuple[RsmqReader, RsmqReader], odd_queues: list[str]
) -> None:
    gone: list[bytes | str] = ["empty", "both", b"\xff\x00\x1b[31m"]
    listed = [await reader.rows.index() for reader in readers]
    client.srem("rsmq:QUEUES", *gone)
    client.delete("rsmq:empty:Q", "rsmq:both", "rsmq:both:Q")
    rows = await by_both(readers, lambda reader: reader.rows.rows(NOW_MS))

    assert all(list(index.names) == odd_queues for index in listed)
    left = sorted(name.decode("utf-8", "surrogateescape") for name in client.smembers("rsmq:QUEUES"))
    assert len(left) == len(odd_queues) - len(gone)
    # Still listed, a queue without keys has a row.
    assert "ghost" in left
    assert [sorted(each) for each in rows] == [left, left]


async def test_rows_of_many_queues(client: redis.Redis, readers: tuple[RsmqReader, RsmqReader]) -> None:
    names = [f"q{number:04d}" for number in range(CHUNK_QUEUES * 5 + 3)]
    client.sadd("rsmq:QUEUES", *names)
    for name in names[::100]:
        plant(client, name, "x" * 32, due_ms=NOW_MS)
    scripted, plain = await by_both(readers, all_rows)

    assert list(plain) == names
    assert plain == scripted


@pytest.mark.parametrize("span", [1, 2, 50])
async def test_receive_counts(readers: tuple[RsmqReader, RsmqReader], odd_queues: list[str], span: int) -> None:
    scripted, plain = await by_both(
        readers, lambda reader: reader.rows.receive_counts(odd_queues, NOW_MS, threshold=3, span=span)
    )

    assert plain == scripted
    assert max(highest for _, _, highest in plain) > 0


@pytest.mark.parametrize("rc", ODD_RC)
async def test_odd_receive_counts(client: redis.Redis, readers: tuple[RsmqReader, RsmqReader], rc: bytes) -> None:
    plant(client, "q", "x" * 32, due_ms=NOW_MS, rc=rc, body="x")
    scripted, plain = await by_both(readers, lambda reader: reader.rows.receive_counts(["q"], NOW_MS, 5, 50))
    ((_, poison, highest),) = scripted
    (row,) = (await readers[0].pages.page(PageRequest("q", count=1))).messages

    assert plain == scripted
    # A page says the same count; below 0 is none.
    assert (poison, highest) == (int(row.rc >= 5), min(max(0, row.rc), RC_MAX))


ANCHORS = [Anchor(str(NOW_MS), "Z" + f"{1:031d}"), Anchor("0", ""), Anchor("inf", ""), Anchor("-inf", "")]


@pytest.mark.parametrize("part", ["all", "ready", "hidden"])
@pytest.mark.parametrize("where", ["first", "last", "after", "before", "at"])
async def test_pages(readers: tuple[RsmqReader, RsmqReader], odd_queues: list[str], part: Any, where: Any) -> None:
    async def pages(queue: str, anchor: Anchor) -> list[Any]:
        return await by_both(
            readers,
            lambda reader: reader.pages.page(PageRequest(queue, part, where, anchor, 3)),
        )

    is_anchored = where in {"after", "before", "at"}
    for queue in ("mixed", "equal", "both", "empty") if is_anchored else odd_queues:
        for anchor in ANCHORS if is_anchored else ANCHORS[:1]:
            scripted, plain = await pages(queue, anchor)
            if not isinstance(scripted, RawPage):
                assert plain == scripted
                continue
            assert (plain.depth, plain.ready, plain.start) == (scripted.depth, scripted.ready, scripted.start)
            assert plain.messages == scripted.messages
            assert plain.at_ms >= scripted.at_ms


async def test_a_page_of_long_bodies(client: redis.Redis, readers: tuple[RsmqReader, RsmqReader]) -> None:
    size = PAGE_BODY_BYTES // 5
    for number in range(8):
        plant(client, "q", f"{number:032d}", due_ms=number, body=bytes([65 + number]) * size)
    plant(client, "q", "z" * 32, due_ms=9, body=b"z" * (PAGE_BODY_BYTES // 4 + 1))
    scripted, plain = await by_both(readers, lambda reader: reader.pages.page(PageRequest("q", count=20)))

    assert plain.messages == scripted.messages
    assert [message.preview[:1] for message in plain.messages if message.preview is not None] == [
        *(b"A", b"B", b"C", b"D", b"E"),
        *(b"",) * 4,
    ]


async def test_due_counts(readers: tuple[RsmqReader, RsmqReader], odd_queues: list[str]) -> None:
    bounds = (0, NOW_MS, NOW_MS + 10)
    for reader in readers:
        for queue, scores in SCORES.items():
            due = [sum(float(score) <= bound for score in scores) for bound in bounds]
            assert await reader.pages.due_counts(queue, bounds) == (*due, len(scores))


async def test_a_vanished_anchor_goes_before_all_of_its_score(
    client: redis.Redis, readers: tuple[RsmqReader, RsmqReader]
) -> None:
    for letter in "abcde":
        plant(client, "q", letter * 32, due_ms=5)
    client.zrem("rsmq:q", "c" * 32)
    scripted, plain = await by_both(
        readers,
        lambda reader: reader.pages.page(PageRequest("q", where="after", anchor=Anchor("5", "c" * 32), count=9)),
    )

    # The one thing that plain commands cannot find out in a few round trips.
    assert [message.id[0] for message in scripted.messages] == ["d", "e"]
    assert [message.id[0] for message in plain.messages] == ["a", "b", "d", "e"]


async def test_the_reason_is_remembered_and_no_script_is_tried_again(
    client: redis.Redis, readers: tuple[RsmqReader, RsmqReader], odd_queues: list[str]
) -> None:
    _, plain = readers
    await all_rows(plain)
    client.acl_log_reset()
    await all_rows(plain)
    await plain.pages.page(PageRequest("ms", count=5))

    assert "evalsha" in (plain.scripts_refused or "")
    assert client.acl_log() == []


async def test_a_server_without_the_commands_is_read_plainly(odd_queues: list[str]) -> None:
    with EmbeddedServer(extra=("--rename-command", "EVALSHA", "", "--rename-command", "EVAL", "")) as bare:
        async with aclosing(RsmqReader(bare.url)) as reader:
            with redis.Redis.from_url(bare.url) as admin:
                admin.sadd("rsmq:QUEUES", "q")

            assert await all_rows(reader) == {"q": [[None] * 7, 0]}
            assert "unknown command" in (reader.scripts_refused or "")


class Interrupted(ScriptRunner):
    """Refuses scripts, and lets another client work between any two commands."""

    def __init__(self, reader: RsmqReader, between: Callable[[], object]) -> None:
        super().__init__(reader.rows._runner.pool, reader.traffic)
        self.refused = "for this test"
        self._between = between

    async def commands(self, *commands: Sequence[bytes | str | int]) -> list[Any]:
        replies: list[Any] = []
        for command in commands:
            replies += await super().commands(command)
            self._between()
        return replies


@pytest.mark.parametrize("when", range(8))
@pytest.mark.parametrize("grows", [True, False])
async def test_a_row_makes_sense_although_the_queue_changed_between_two_commands(
    client: redis.Redis, redis_url: str, when: int, grows: bool
) -> None:
    client.sadd("rsmq:QUEUES", "q")
    plant(client, "q", "a" * 32, due_ms=NOW_MS)
    steps = iter(range(100))

    def between() -> None:
        if next(steps) == when:
            if grows:
                client.zadd("rsmq:q", {f"{number:032d}": NOW_MS + 5 for number in range(9)})
            else:
                client.delete("rsmq:q")

    async with aclosing(RsmqReader(redis_url)) as reader:
        rows = RsmqRows(reader.rows._connection, Interrupted(reader, between), Keys("rsmq"))
        await rows.index()
        (row,) = (await rows.rows(NOW_MS)).values()
    _, depth, *head = row

    assert (depth > 0) == bool(head)
    assert not head or 0 <= head[2] <= depth


@pytest.mark.parametrize("when", range(6))
async def test_a_message_in_flight_has_the_counts_of_its_score(client: redis.Redis, redis_url: str, when: int) -> None:
    id, steps = "a" * 32, iter(range(100))

    def receive(rc: int) -> None:
        client.zadd("rsmq:q", {id: NOW_MS + 1_000 * rc})
        client.hset("rsmq:q:Q", mapping={f"{id}:rc": rc, f"{id}:fr": NOW_MS - 5})

    def between() -> None:
        if next(steps) == when:
            receive(2)

    receive(1)
    async with aclosing(RsmqReader(redis_url)) as reader:
        rows = RsmqRows(reader.rows._connection, Interrupted(reader, between), Keys("rsmq"))
        *_, (flights,) = await rows.looks(["q"], (), NOW_MS, 5, 10)

    assert [int(flight.score) - NOW_MS for flight in flights] == [1_000 * int(flight.rc) for flight in flights]
    # If it is received between the reads of its score, it is left out.
    assert len(flights) == (when not in (2, 3))


async def test_refusal_is_an_error_of_its_own(readers: tuple[RsmqReader, RsmqReader]) -> None:
    from rsmq_tui.protocol.rsmq import scripts

    _, plain = readers
    with pytest.raises(ScriptsRefusedError, match="evalsha"):
        await plain.rows._runner.run(scripts.SIZES, (b"rsmq:q:Q",), (b"vt",))
