"""A search that looks at nothing but bodies walks through these alone, and finds what any other search would."""

import re
from contextlib import aclosing

import pytest
import redis

from rsmq_tui.monitor import parse_filter, search
from rsmq_tui.protocol import QueueReader, Rsmq
from rsmq_tui.protocol.rsmq import scan_strategies

BODIES = [
    b"one 717", b"two \xc3\xa9 727", b"three 7a7", b"\xff\xfe 737", b"", "vier – 747".encode(), b"777\n", b"a.b", b"axb"
]  # fmt: skip


async def _found(reader: QueueReader, text: str, limit: int | None = None) -> tuple[list[bytes], list[int]]:
    bodies, scanned = [], []
    async with aclosing(search(reader, "q", parse_filter(text), limit=limit)) as parts:
        async for progress in parts:
            bodies += [message.body for message in progress.messages]
            scanned.append(progress.scanned)
    return sorted(body or b"" for body in bodies), scanned


@pytest.mark.parametrize("regex", ["7[0-9]7", "^777$", r"a\.b", "a.b", "é", "[^0-9]7", ".", "$", r"\d{3}", "x|one"])
async def test_both_ways_find_the_same(queues: Rsmq, client: redis.Redis, reader: QueueReader, regex: str) -> None:
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
    queues: Rsmq, client: redis.Redis, reader: QueueReader, monkeypatch: pytest.MonkeyPatch
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


async def test_it_ends_at_its_limit(queues: Rsmq, reader: QueueReader) -> None:
    queues.create_queue("q")
    queues.send_messages("q", [b"717"] * 3_000)
    bodies, _ = await _found(reader, "body~7[0-9]7", limit=250)
    assert len(bodies) == 250
    bodies, scanned = await _found(reader, "body~7[0-9]7")
    assert len(bodies) == 3_000
    assert len(scanned) > 2
