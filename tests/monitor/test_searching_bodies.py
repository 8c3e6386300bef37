"""A search that looks at nothing but bodies walks through these alone, and finds what any other search would."""

import random
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest
import redis

from rsmq_tui.monitor import parse_filter, search
from rsmq_tui.protocol import Rsmq, RsmqReader
from rsmq_tui.protocol.rsmq import scan_strategies
from rsmq_tui.protocol.rsmq.scan import SCAN_BODY_BYTES
from rsmq_tui.protocol.rsmq.scan_strategies import BodyChunk, BodyScan

BODIES = [
    b"one 717", b"two \xc3\xa9 727", b"three 7a7", b"\xff\xfe 737", b"", "vier – 747".encode(), b"777\n", b"a.b", b"axb"
]  # fmt: skip


async def _found(reader: RsmqReader, text: str, limit: int | None = None) -> tuple[list[bytes], list[int]]:
    bodies, scanned = [], []
    async with aclosing(search(reader, "q", parse_filter(text), limit=limit)) as parts:
        async for progress in parts:
            bodies += [message.body for message in progress.messages]
            scanned.append(progress.scanned)
    return sorted(body or b"" for body in bodies), scanned


@pytest.mark.parametrize("regex", ["7[0-9]7", "^777$", r"a\.b", "a.b", "é", "[^0-9]7", ".", "$", r"\d{3}", "x|one"])
async def test_both_ways_find_the_same(queues: Rsmq, client: redis.Redis, reader: RsmqReader, regex: str) -> None:
    queues.create_queue("q")
    queues.send_messages("q", BODIES)
    queues.receive_messages("q", 3)
    client.hset("rsmq:q:Q", b"leaked" * 4 + b"12345678", b"717 leaked")
    by_bodies, scanned = await _found(reader, f'body~"{regex}"')
    client.hset("rsmq:q:Q", "maxsize", -1)
    by_messages, _ = await _found(reader, f'body~"{regex}"')
    expected = [body for body in BODIES if re.search(regex, body.decode("utf-8", "surrogateescape"))]
    assert by_bodies == by_messages == sorted(expected)
    assert scanned[-1] >= len(BODIES)


async def test_a_slow_link_finds_the_same(
    queues: Rsmq, client: redis.Redis, reader: RsmqReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    queues.create_queue("q")
    queues.send_messages("q", [b"%s %d" % (body, number) for number in range(1_500) for body in BODIES])
    queues.receive_messages("q", 300)
    texts = [r'body~"[0-9][0-9]7 1"', "body~ax?b", "zwei", "TWO", 'body~"(?i)three 7"', r'body~"\n 77$"', "body:é"]
    quick = [await _found(reader, text) for text in texts]
    monkeypatch.setattr(scan_strategies, "_SLOW_S", 0.0)
    for text, (bodies, scanned) in zip(texts, quick, strict=True):
        found, counted = await _found(reader, text)
        assert found == bodies
        assert counted[-1] == pytest.approx(scanned[-1], rel=0.02)
        assert len((await _found(reader, text, limit=7))[0]) == min(7, len(bodies))


async def test_it_ends_at_its_limit(queues: Rsmq, reader: RsmqReader) -> None:
    queues.create_queue("q")
    queues.send_messages("q", [b"717"] * 3_000)
    bodies, _ = await _found(reader, "body~7[0-9]7", limit=250)
    assert len(bodies) == 250
    bodies, scanned = await _found(reader, "body~7[0-9]7")
    assert len(bodies) == 3_000
    assert len(scanned) > 2


async def test_what_matches_comes_once_while_the_queue_shrinks(client: redis.Redis, reader: RsmqReader) -> None:
    bodies = {b"%032d" % number: b"body %d" % number for number in range(40_000)}
    client.hset("rsmq:q:Q", mapping={**bodies, b"vt": b"30", b"delay": b"0", b"maxsize": b"65536"})
    client.zadd("rsmq:q", dict.fromkeys(bodies, 1))
    stay = set(random.Random(4).sample(sorted(bodies), 300))
    gone = [id for id in bodies if id not in stay]
    found: list[bytes] = []
    async with aclosing(search(reader, "q", parse_filter("body:body"))) as parts:
        number = 0
        async for part in parts:
            number += 1
            found += [message.id for message in part.messages]
            if number in (3, 4, 5):
                # A third at a time: the table shrinks more than once.
                some = gone[number - 3 :: 3]
                client.zrem("rsmq:q", *some)
                client.hdel("rsmq:q:Q", *some)
    assert number > 5
    assert len(found) == len(set(found))
    assert stay <= set(found)


async def test_what_comes_again_is_found_and_counted_once(
    queues: Rsmq, client: redis.Redis, reader: RsmqReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    queues.create_queue("q")
    queues.send_messages("q", [b"%s %d" % (body, number) for number in range(50) for body in (b"a", b"b")])
    client.hset("rsmq:q:Q", (await _ids(reader))[0], b"a" * (SCAN_BODY_BYTES + 1))
    chunks = BodyScan.chunks

    async def twice(*arguments: Any, **keywords: Any) -> AsyncGenerator[BodyChunk, None]:
        async with aclosing(chunks(*arguments, **keywords)) as coming:
            async for chunk in coming:
                yield chunk._replace(is_last=False)
                yield chunk

    async def counted(text: str) -> tuple[int, int, int]:
        async with aclosing(search(reader, "q", parse_filter(text))) as parts:
            return [(part.scanned, part.matched, part.not_searched) async for part in parts][-1]

    once = await counted("body:a"), await counted("body~^[ab]")
    monkeypatch.setattr(BodyScan, "chunks", twice)
    (scanned, *found), of_all = await counted("body:a"), await counted("body~^[ab]")
    assert (found, of_all) == ([*once[0][1:]], once[1])
    # Of what does not match, it is not known.
    assert scanned == once[0][0] + 50


async def _ids(reader: RsmqReader) -> list[bytes]:
    async with aclosing(search(reader, "q", parse_filter(""))) as parts:
        return [message.id async for part in parts for message in part.messages]
