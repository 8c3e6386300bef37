"""Pages of one queue: by rank, around an anchor, among equal scores."""

from collections.abc import Iterable
from contextlib import aclosing
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.protocol import Anchor, PageRequest, RawPage, Rsmq, RsmqError, RsmqReader
from tests.protocol.keyspace import plant

LATER_MS = 4_000_000_000_000


def fill(client: redis.Redis, scores: dict[str, float]) -> None:
    client.zadd("rsmq:q", {letter * 32: score for letter, score in scores.items()})


def letters(page: RawPage) -> str:
    return "".join(message.id[0] for message in page.messages)


def anchor(letter: str, score: float) -> Anchor:
    return Anchor(f"{score:.0f}", letter * 32)


class TestByRank:
    @pytest.fixture(autouse=True)
    def ten_messages(self, client: redis.Redis) -> None:
        """Six ready, a to f, and four hidden, g to j."""
        fill(client, {letter: number for number, letter in enumerate("abcdef", 1)})
        fill(client, {letter: LATER_MS + number for number, letter in enumerate("ghij")})

    @pytest.mark.parametrize(
        ("part", "where", "found", "start"),
        [
            ("all", "first", "abc", 0),
            ("all", "last", "hij", 7),
            ("ready", "first", "abc", 0),
            ("ready", "last", "def", 3),
            ("hidden", "first", "ghi", 6),
            ("hidden", "last", "hij", 7),
        ],
    )
    async def test_ends(self, reader: RsmqReader, part: Any, where: Any, found: str, start: int) -> None:
        page = await reader.pages.page(PageRequest("q", part=part, where=where, count=3))

        assert (letters(page), page.start) == (found, start)
        assert (page.depth, page.ready) == (10, 6)

    @pytest.mark.parametrize(
        ("part", "where", "letter", "found", "start"),
        [
            ("all", "after", "c", "def", 3),
            ("all", "at", "c", "cde", 2),
            ("all", "before", "e", "bcd", 1),
            # Across the border between ready and hidden, and never over it within a part.
            ("all", "after", "e", "fgh", 5),
            ("ready", "after", "d", "ef", 4),
            ("ready", "at", "h", "f", 5),
            ("hidden", "before", "h", "ghi", 6),
            ("hidden", "at", "b", "ghi", 6),
            # At either end a page is as full as it can be, and never empty.
            ("all", "before", "b", "abc", 0),
            ("all", "before", "a", "abc", 0),
            ("all", "after", "i", "j", 9),
            ("all", "after", "j", "j", 9),
        ],
    )
    async def test_around_an_anchor(
        self, client: redis.Redis, reader: RsmqReader, part: Any, where: Any, letter: str, found: str, start: int
    ) -> None:
        score = client.zscore("rsmq:q", letter * 32)
        page = await reader.pages.page(PageRequest("q", part=part, where=where, anchor=anchor(letter, score), count=3))

        assert (letters(page), page.start) == (found, start)

    @pytest.mark.parametrize(("where", "found"), [("after", "efg"), ("at", "efg"), ("before", "abc")])
    async def test_around_an_anchor_that_was_deleted(
        self, client: redis.Redis, reader: RsmqReader, where: Any, found: str
    ) -> None:
        client.zrem("rsmq:q", "d" * 32)

        assert letters(await reader.pages.page(PageRequest("q", where=where, anchor=anchor("d", 4), count=3))) == found

    @pytest.mark.parametrize(("where", "found"), [("after", "cde"), ("at", "cde"), ("before", "acd")])
    async def test_an_anchor_that_was_received_stands_for_its_old_place(
        self, client: redis.Redis, reader: RsmqReader, where: Any, found: str
    ) -> None:
        fill(client, {"b": LATER_MS + 0.5})

        assert letters(await reader.pages.page(PageRequest("q", where=where, anchor=anchor("b", 2), count=3))) == found

    async def test_walking_down_and_up_sees_each_message_once(self, client: redis.Redis, reader: RsmqReader) -> None:
        scores = dict(client.zrange("rsmq:q", 0, -1, withscores=True))
        pages = [await reader.pages.page(PageRequest("q", count=4))]
        while pages[-1].start + len(pages[-1].messages) < pages[-1].depth:
            last = pages[-1].messages[-1]
            pages.append(
                await reader.pages.page(PageRequest("q", where="after", anchor=Anchor(last.score, last.id), count=4))
            )
        top = pages[-1]
        while top.start > 0:
            first = top.messages[0]
            top = await reader.pages.page(
                PageRequest("q", where="before", anchor=Anchor(first.score, first.id), count=4)
            )

        assert "".join(map(letters, pages)) == "abcdefghij"
        assert letters(top) == "abcd"
        assert [float(message.score) for page in pages for message in page.messages] == list(scores.values())

    async def test_a_page_may_be_longer_than_the_queue(self, reader: RsmqReader) -> None:
        assert letters(await reader.pages.page(PageRequest("q", count=1000))) == "abcdefghij"
        assert letters(await reader.pages.page(PageRequest("q", part="hidden", where="last", count=1000))) == "ghij"


@pytest.mark.parametrize("part", ["all", "ready", "hidden"])
@pytest.mark.parametrize("where", ["first", "last", "after", "before", "at"])
async def test_a_queue_that_is_not_there_is_an_empty_page(reader: RsmqReader, part: Any, where: Any) -> None:
    page = await reader.pages.page(PageRequest("q", part=part, where=where, anchor=anchor("a", 5), count=3))

    assert (page.depth, page.ready, page.start, page.messages) == (0, 0, 0, ())


class TestEqualScores:
    IDS = "09AZaz"

    @pytest.mark.parametrize("gone", IDS)
    async def test_a_vanished_anchor_is_placed_by_its_id(
        self, client: redis.Redis, reader: RsmqReader, gone: str
    ) -> None:
        fill(client, {"!": 1, **dict.fromkeys(self.IDS, 5), "~": 9})
        client.zrem("rsmq:q", gone * 32)
        after = await reader.pages.page(PageRequest("q", where="after", anchor=anchor(gone, 5), count=20))
        before = await reader.pages.page(PageRequest("q", where="before", anchor=anchor(gone, 5), count=1))

        assert letters(after) == self.IDS[self.IDS.index(gone) + 1 :] + "~"
        assert letters(before) == ("!" + self.IDS)[self.IDS.index(gone)]

    @pytest.mark.parametrize("score", ["inf", "-inf", "0", "1750000000000.5"])
    async def test_of_any_kind(self, client: redis.Redis, reader: RsmqReader, score: str) -> None:
        fill(client, dict.fromkeys("abcdef", float(score)))
        client.zrem("rsmq:q", "c" * 32)

        assert (
            letters(await reader.pages.page(PageRequest("q", where="after", anchor=Anchor(score, "c" * 32), count=2)))
            == "de"
        )

    @settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(st.sets(st.binary(max_size=4), min_size=1, max_size=20), st.binary(max_size=4))
    async def test_ids_are_compared_as_the_server_does(
        self, server: EmbeddedServer, ids: set[bytes], at: bytes
    ) -> None:
        with redis.Redis.from_url(server.url) as client:
            client.delete("rsmq:bytes")
            client.zadd("rsmq:bytes", dict.fromkeys(ids, 7))
        async with aclosing(RsmqReader(server.url)) as reader:
            place = Anchor("7", at.decode("utf-8", "surrogateescape"))
            page = await reader.pages.page(PageRequest("bytes", where="at", anchor=place, count=100))
        found = [message.id.encode("utf-8", "surrogateescape") for message in page.messages]

        # At the very end a page holds the last message all the same.
        assert found == ([identity for identity in sorted(ids) if identity >= at] or [max(ids)])

    async def test_deep_in_a_long_queue(self, client: redis.Redis, reader: RsmqReader) -> None:
        client.zadd("rsmq:q", {f"{number:032d}": 5 for number in range(0, 40_000, 2)})
        page = await reader.pages.page(PageRequest("q", where="after", anchor=Anchor("5", f"{25_001:032d}"), count=2))

        assert [int(message.id) for message in page.messages] == [25_002, 25_004]
        assert page.start == 12_501


@pytest.mark.parametrize("key", ["rsmq:q", "rsmq:q:Q"])
async def test_wrong_types_are_a_refusal(client: redis.Redis, reader: RsmqReader, key: str) -> None:
    plant(client, "q", "a" * 32, due_ms=1, body="x")
    client.delete(key)
    client.set(key, "x")
    reads: Iterable[Any] = (
        lambda: reader.pages.page(PageRequest("q", count=9)),
        lambda: reader.pages.message("q", "a" * 32),
        lambda: reader.pages.due_counts("q", (5,)),
    )
    for read in list(reads)[: 3 if key == "rsmq:q" else 2]:
        with pytest.raises(RsmqError) as refusal:
            await read()
        assert refusal.value.code == "wrongType"


async def test_due_counts_are_up_to_each_bound_and_in_all(client: redis.Redis, reader: RsmqReader) -> None:
    fill(client, {letter: number * 10 for number, letter in enumerate("abcdef")})

    assert await reader.pages.due_counts("q", (0, 15, 50, 60)) == (1, 2, 6, 6, 6)
    assert await reader.pages.due_counts("q", ()) == (6,)
    assert await reader.pages.due_counts("nowhere", (5,)) == (0, 0)


async def test_any_queue_name_and_namespace(client: redis.Redis, redis_url: str) -> None:
    for ns, queue in (("{a:b}", "QUEUE"), ("", "q"), ("\udcff\x00", "\x1b[31m"), ("rsmq", "x" * 10_000)):
        identity = "a" * 32
        client.zadd(f"{ns}:{queue}".encode("utf-8", "surrogateescape"), {identity: 5})
        async with aclosing(RsmqReader(redis_url, ns)) as reader:
            assert (await reader.pages.page(PageRequest(queue, count=5))).messages[0].id == identity


async def test_a_canonical_queue(client: redis.Redis, reader: RsmqReader) -> None:
    queues = Rsmq(client)
    queues.create_queue("q")
    identity = queues.send_message("q", "hello")
    queues.send_message("q", "later", delay=60)
    ready, delayed = (await reader.pages.page(PageRequest("q", count=9))).messages

    assert (ready.id, ready.preview, ready.rc) == (identity, b"hello", 0)
    assert (delayed.preview, delayed.rc) == (b"later", 0)


class TestWhereTheyAre:
    async def test_one_look_tells_of_many(self, client: redis.Redis, reader: RsmqReader) -> None:
        rsmq = Rsmq(client)
        rsmq.create_queue("q", vt=600)
        ids = list(rsmq.send_messages("q", ["a", "b", "c"]))
        taken = rsmq.receive_message("q")
        rsmq.delete_message("q", ids[1])
        assert taken is not None
        at_ms, (first, second, third) = await reader.pages.present("q", ids)
        assert abs(at_ms - int(client.time()[0]) * 1000) < 60_000
        assert first is not None
        assert third is not None
        assert (first.rc, first.fr_ms, first.score) == (1, taken.fr_ms, f"{client.zscore('rsmq:q', ids[0]):.0f}")
        assert second is None
        assert (third.rc, third.fr_ms) == (0, None)
        assert await reader.pages.present("q", []) == (0, ())

    async def test_of_a_queue_that_is_gone_nothing_is_there(self, reader: RsmqReader) -> None:
        assert (await reader.pages.present("q", ["a" * 32]))[1] == (None,)

    async def test_keys_of_other_types_are_told(self, client: redis.Redis, reader: RsmqReader) -> None:
        client.set("rsmq:q", "text")
        with pytest.raises(RsmqError):
            await reader.pages.present("q", ["a" * 32])
