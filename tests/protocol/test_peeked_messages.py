"""What a page and a message say of each message: counts, scores, ids of any bytes, bodies that are cut or missing."""

import pytest
import redis

from rsmq_tui.protocol import PageRequest, RsmqReader
from rsmq_tui.protocol.rsmq.pages import BODY_BYTES_MAX, PAGE_BODY_BYTES, PREVIEW_BYTES
from tests.protocol.keyspace import now_ms, plant


class TestWhatAMessageSays:
    async def test_all_of_it(self, client: redis.Redis, reader: RsmqReader) -> None:
        plant(client, "q", "a" * 32, due_ms=5, body="hello", rc=3, fr=1_750_000_000_000)
        before_ms = now_ms(client)
        page = await reader.pages.page(PageRequest("q", count=9))
        (message,) = page.messages

        assert (message.id, message.score, message.rc, message.fr_ms) == ("a" * 32, "5", 3, 1_750_000_000_000)
        assert (message.size, message.preview) == (5, b"hello")
        assert before_ms <= page.at_ms <= now_ms(client)

    @pytest.mark.parametrize(
        ("score", "shown"),
        [(1e300, "1e+300"), (1_750_000_000_000.1, "1750000000000.1"), ("-inf", "-inf"), (-0.5, "-0.5")],
    )
    async def test_the_score_as_the_server_says_it(
        self, client: redis.Redis, reader: RsmqReader, score: float, shown: str
    ) -> None:
        client.zadd("rsmq:q", {"a" * 32: score})
        (message,) = (await reader.pages.page(PageRequest("q", count=9))).messages

        assert message.score == shown
        assert (await reader.pages.message("q", "a" * 32)).score == shown

    @pytest.mark.parametrize("raw", [b"", b"\x00\xff", b"\x1b[2J", b"[/b]", b"x" * (PREVIEW_BYTES + 1)])
    async def test_any_body(self, client: redis.Redis, reader: RsmqReader, raw: bytes) -> None:
        plant(client, "q", "a" * 32, due_ms=5, body=raw)
        (message,) = (await reader.pages.page(PageRequest("q", count=9))).messages

        assert (message.size, message.preview) == (len(raw), raw[:PREVIEW_BYTES])
        assert (await reader.pages.message("q", "a" * 32)).body == raw

    async def test_a_missing_body(self, client: redis.Redis, reader: RsmqReader) -> None:
        plant(client, "q", "a" * 32, due_ms=5, rc=2)
        (message,) = (await reader.pages.page(PageRequest("q", count=9))).messages
        whole = await reader.pages.message("q", "a" * 32)

        assert (message.size, message.preview, message.rc) == (0, None, 2)
        assert (whole.score, whole.body, whole.size, whole.rc) == ("5", None, 0, 2)

    @pytest.mark.parametrize(
        ("rc", "fr", "read_rc", "read_fr"),
        [("many", "yesterday", 0, None), ("7abc", "17500000", 7, 17_500_000), ("", "", 0, None), ("1.5", "-3", 1, -3)],
    )
    async def test_odd_counts(
        self, client: redis.Redis, reader: RsmqReader, rc: str, fr: str, read_rc: int, read_fr: int | None
    ) -> None:
        plant(client, "q", "a" * 32, due_ms=5, body="x", rc=rc, fr=fr)
        (message,) = (await reader.pages.page(PageRequest("q", count=9))).messages

        assert (message.rc, message.fr_ms) == (read_rc, read_fr)

    async def test_an_id_of_any_bytes(self, client: redis.Redis, reader: RsmqReader) -> None:
        raw = b"\xff\x00\x1b[31m\xe2\x80\xae"
        client.zadd("rsmq:q", {raw: 5})
        client.hset("rsmq:q:Q", raw, b"body")
        (message,) = (await reader.pages.page(PageRequest("q", count=9))).messages

        assert message.id.encode("utf-8", "surrogateescape") == raw
        assert (await reader.pages.message("q", message.id)).body == b"body"


class TestLongBodies:
    async def test_only_so_many_bytes_are_looked_at_for_a_page(self, client: redis.Redis, reader: RsmqReader) -> None:
        size = PAGE_BODY_BYTES // 4
        for number in range(6):
            plant(client, "q", f"{number:032d}", due_ms=number, body=b"x" * size)
        plant(client, "q", "z" * 32, due_ms=9, body=b"short")
        messages = (await reader.pages.page(PageRequest("q", count=20))).messages

        assert [message.size for message in messages] == [size] * 6 + [5]
        assert [len(message.preview or b"") for message in messages] == [PREVIEW_BYTES] * 4 + [0] * 3

    async def test_a_very_long_one_is_not_looked_at_and_leaves_room_for_others(
        self, client: redis.Redis, reader: RsmqReader
    ) -> None:
        plant(client, "q", "a" * 32, due_ms=1, body=b"x" * (PAGE_BODY_BYTES // 4 + 1))
        plant(client, "q", "b" * 32, due_ms=2, body=b"y" * 10)
        long, short = (await reader.pages.page(PageRequest("q", count=20))).messages

        assert (long.size, long.preview) == (PAGE_BODY_BYTES // 4 + 1, b"")
        assert short.preview == b"y" * 10
        (alone,) = (await reader.pages.page(PageRequest("q", count=1, longest_bytes=PAGE_BODY_BYTES))).messages
        assert (alone.id, alone.preview) == (long.id, b"x" * PREVIEW_BYTES)

    async def test_one_message_is_read_whole_up_to_a_limit(
        self, client: redis.Redis, reader: RsmqReader, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        plant(client, "q", "a" * 32, due_ms=1, body=b"x" * 10_000_000)
        whole = await reader.pages.message("q", "a" * 32)
        monkeypatch.setattr("rsmq_tui.protocol.rsmq.pages.BODY_BYTES_MAX", 9_999_999)
        cut = await reader.pages.message("q", "a" * 32)

        assert whole.body == b"x" * 10_000_000
        assert (cut.size, cut.body) == (10_000_000, None)
        assert BODY_BYTES_MAX >= 10_000_000


class TestOneMessage:
    async def test_that_has_left_the_queue(self, reader: RsmqReader) -> None:
        gone = await reader.pages.message("q", "a" * 32)

        assert (gone.id, gone.score, gone.rc, gone.fr_ms, gone.size, gone.body) == ("a" * 32, None, 0, None, 0, None)

    async def test_whose_body_was_left_behind(self, client: redis.Redis, reader: RsmqReader) -> None:
        client.hset("rsmq:q:Q", mapping={"a" * 32: "left", f"{'a' * 32}:rc": 4})
        leaked = await reader.pages.message("q", "a" * 32)

        assert (leaked.score, leaked.body, leaked.rc) == (None, b"left", 4)
