"""Every state that crashes, evictions and careless clients leave a queue in, all of them on the screen at once."""

import pytest
from redis import Redis

from tests.hostile.keyspace import untouched
from tests.hostile.payloads import plant_message, plant_queue
from tests.hostile.watching import dashboard, dashboard_app, open_message, open_queue, polls, press, until

ID = b"a" * 32

# What the overview says of each queue: its verdict, and words of its reason or problem where the queue is opened.
STATES = {
    "no-keys": ("✗ broken", "it is listed but has no keys"),
    "no-hash": ("✗ broken", "it holds 1 message ids but its attributes hash is gone"),
    "no-vt": ("✗ broken", "its attributes hold no vt"),
    "only-modified": ("✗ broken", "its attributes hold no vt"),
    "dangling": ("✗ broken", "no body: consumers receive only an id"),
    "leak": ("● ok", "There are no messages in this queue"),
    "rc-without-body": ("● ok", "There are no messages in this queue"),
    "wrong-zset": ("✗ broken", "its messages key is not a sorted set"),
    "wrong-hash": ("✗ broken", "its attributes key is not a hash"),
    "wrong-both": ("✗ broken", "its attributes key is not a hash"),
    "QUEUES": ("✗ broken", "its messages key is not a sorted set"),
    "odd-id": ("● ok", "message ids are not canonical (short)"),
    "seconds": ("● ok", "scores are in seconds"),
    "microseconds": ("● ok", "scores are in microseconds"),
    "never": ("● ok", "never"),
    "vt-in-ms": ("● ok", "vt 30000 is probably in milliseconds"),
    "vt-in-words": ("✗ broken", "its vt is not a number: soon"),
    "fine": ("● ok", "There are no messages in this queue"),
}


@pytest.fixture
def broken(client: Redis) -> Redis:
    """A server with a queue in each state, and some keys that no queue lists."""
    client.sadd("rsmq:QUEUES", "no-keys")
    client.sadd("rsmq:QUEUES", "no-hash")
    client.zadd("rsmq:no-hash", {ID: 1})
    for name, fields in (("no-vt", {ID: "body", "totalsent": 1}), ("only-modified", {"modified": 1})):
        client.sadd("rsmq:QUEUES", name)
        client.hset(f"rsmq:{name}:Q", mapping=fields)
    for name in ("dangling", "leak", "rc-without-body", "wrong-zset", "QUEUES", "odd-id", "never", "fine"):
        plant_queue(client, name.encode())
    client.zadd("rsmq:dangling", {ID: 1})
    client.hset("rsmq:leak:Q", ID, "body")
    client.hset("rsmq:rc-without-body:Q", mapping={ID + b":rc": 3, ID + b":fr": 1, ID + b":meta": "x"})
    client.set("rsmq:wrong-zset", "a string")
    plant_message(client, b"odd-id", b"short", b"body")
    client.zadd("rsmq:never", {ID: "inf"})
    client.hset("rsmq:never:Q", ID, "body")
    now_s = client.time()[0]
    for name, score in (("seconds", now_s), ("microseconds", now_s * 1_000_000)):
        plant_queue(client, name.encode())
        client.zadd(f"rsmq:{name}", {ID: score})
        client.hset(f"rsmq:{name}:Q", ID, "body")
    plant_queue(client, b"vt-in-ms", vt=30_000)
    plant_queue(client, b"vt-in-words", vt="soon")
    for name in ("wrong-hash", "wrong-both"):
        client.sadd("rsmq:QUEUES", name)
        client.rpush(f"rsmq:{name}:Q", "a list")
    client.xadd("rsmq:wrong-both", {"a": "stream"})
    # No client lists these.
    client.hset("rsmq:unlisted:Q", mapping={"vt": 30, "delay": 0, "maxsize": -1})
    client.zadd("rsmq:unlisted-too", {ID: 1})
    return client


@pytest.fixture(params=["scripts", "pipeline"])
def url(request: pytest.FixtureRequest, broken: Redis, redis_url: str) -> str:
    """The server's URL for a user who may run scripts, and for one who may not."""
    if request.param == "scripts":
        return redis_url
    broken.acl_setuser("reader", enabled=True, nopass=True, keys="*", commands=["+@read", "+@connection", "+time"])
    return redis_url.replace("://", "://reader:any@")


async def test_all_of_them_on_the_overview(broken: Redis, url: str) -> None:
    with untouched(broken):
        async with dashboard(url) as pilot:
            text = await until(pilot, "● live", f"{len(STATES)} queues")
            shown = {words[2]: " ".join(words[:2]) for line in text.splitlines() if len(words := line.split()) > 3}
            assert {name: shown[name] for name in STATES} == {name: verdict for name, (verdict, _) in STATES.items()}
            assert "unlisted" not in text
            await press(pilot, *["s"] * 12, "S", "t")
            await polls(pilot)


async def test_each_of_them_says_what_is_wrong(broken: Redis, redis_url: str) -> None:
    with untouched(broken):
        async with dashboard(redis_url, size=(240, 48)) as pilot:
            await until(pilot, "● live")
            for name, (_, words) in STATES.items():
                dashboard_app(pilot).dashboard.navigation.open_queue(name)
                await until(pilot, f"◀ {name}", words)


async def test_a_message_without_a_body(broken: Redis, url: str) -> None:
    async with dashboard(url) as pilot:
        await until(pilot, "● live")
        await open_queue(pilot, "dangling")
        await press(pilot, "y")
        await until(pilot, "that message no longer has a body")
        await open_message(pilot)
        await until(pilot, "it has no body")
        await press(pilot, "l", "y", "end")
