"""Queue names and namespaces of any bytes are read, told apart and given back as they are."""

from contextlib import aclosing

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.monitor import PageRequest, RsmqPoller
from rsmq_tui.monitor.text import printable
from rsmq_tui.protocol import RsmqReader

NAMES = {
    "ANSI": b"\x1b[2J\x1b[31mred",
    "OSC": b"\x1b]0;title\x07",
    "NUL": b"a\x00b",
    "newline": b"a\nb\r",
    "invalid UTF-8": b"\xff\xfe\x80",
    "cut UTF-8": b"caf\xc3",
    "encoded surrogate": b"\xed\xa0\x80",
    "right to left": "\u202egnp.exe".encode(),
    "zero width": "a\u200bb".encode(),
    "Rich markup": b"[/foo]",
    "Textual action": b"[@click=app.quit]x[/]",
    "colons": b"a:b:Q",
    "spaces": b"  two  words  ",
    "emoji": "🚀 订单".encode(),
    "empty": b"",
    "long": b"x" * 10_000,
}


def put(client: redis.Redis, raw: bytes, *, ns: bytes = b"rsmq") -> None:
    client.sadd(ns + b":QUEUES", raw)
    client.hset(ns + b":" + raw + b":Q", mapping={"vt": 30, "delay": 0, "maxsize": -1, "created": 5, "modified": 5})
    client.hset(ns + b":" + raw + b":Q", b"m" * 32, b"body")
    client.zadd(ns + b":" + raw, {b"m" * 32: 1_750_000_000_000})


@pytest.mark.parametrize("kind", NAMES)
async def test_a_name_is_given_back(client: redis.Redis, poller: RsmqPoller, kind: str) -> None:
    raw = NAMES[kind]
    put(client, raw)
    (queue,) = (await poller.poll()).queues
    page = await poller.peek(PageRequest(queue.name))
    message = await poller.read(queue.name, "m" * 32)

    assert queue.name.encode("utf-8", "surrogateescape") == raw
    assert (queue.depth, queue.broken) == (1, None)
    assert (page.rows[0].preview, message.body) == (b"body", b"body")
    assert printable(queue.name).isprintable()


async def test_all_of_them_are_told_apart(client: redis.Redis, poller: RsmqPoller) -> None:
    for raw in NAMES.values():
        put(client, raw)
    snapshot = await poller.poll()

    assert {queue.name.encode("utf-8", "surrogateescape") for queue in snapshot.queues} == set(NAMES.values())
    assert {queue.depth for queue in snapshot.queues} == {1}
    assert snapshot.trend.series.keys() == {queue.name for queue in snapshot.queues}


@pytest.mark.parametrize("kind", ["ANSI", "NUL", "invalid UTF-8", "right to left", "empty", "colons", "emoji"])
async def test_a_namespace_is_found_and_watched(client: redis.Redis, poller: RsmqPoller, kind: str) -> None:
    put(client, b"q", ns=NAMES[kind])
    (ns,) = (await poller.poll()).namespaces or ()
    poller.switch(ns)
    snapshot = await poller.poll()

    assert ns.encode("utf-8", "surrogateescape") == NAMES[kind]
    assert (snapshot.ns, [queue.name for queue in snapshot.queues]) == (ns, ["q"])


async def test_a_note_about_a_hostile_namespace_can_be_shown(client: redis.Redis, poller: RsmqPoller) -> None:
    client.set(b"\x1b[31m\xff:QUEUES", "x")
    poller.switch("\x1b[31m\udcff")
    (note,) = (await poller.poll()).notes

    assert note.startswith("␛[31m\\xff:QUEUES is not a set of names")
    assert note.isprintable()


async def test_what_a_hostile_queue_is_blamed_for_can_be_shown(client: redis.Redis, poller: RsmqPoller) -> None:
    evil = b"\x1b[31m\x00\xff\xe2\x80\xae"
    for name, field in ((b"vt", b"vt"), (b"delay", b"delay"), (b"created", b"created"), (b"sent", b"totalsent")):
        put(client, name)
        client.hset(b"rsmq:" + name + b":Q", field, evil)
    put(client, b"id")
    client.zadd("rsmq:id", {evil: 1})
    queues = (await poller.poll()).queues

    assert all(sentence.isprintable() for queue in queues for sentence in (*queue.problems, queue.broken or ""))
    assert all(queue.problems or queue.broken for queue in queues)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sets(st.binary(max_size=12), min_size=1, max_size=12))
async def test_any_bytes_are_a_name(server: EmbeddedServer, names: set[bytes]) -> None:
    with redis.Redis.from_url(server.url) as client:
        client.delete("any:QUEUES")
        client.sadd("any:QUEUES", *names)
    async with aclosing(RsmqReader(server.url, "any")) as reader:
        snapshot = await RsmqPoller(reader).poll()

    assert [queue.name.encode("utf-8", "surrogateescape") for queue in snapshot.queues] == sorted(names)
