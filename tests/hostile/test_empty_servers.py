"""Servers on which there is nothing to see."""

from redis import Redis

from tests.hostile.keyspace import untouched
from tests.hostile.watching import dashboard, polls, press, until


async def test_an_empty_server(client: Redis, redis_url: str) -> None:
    with untouched(client):
        async with dashboard(redis_url) as pilot:
            text = await until(pilot, "No queues in namespace rsmq. No other namespaces were found.")
            assert "● live" in text
            assert "0 queues · 0 messages" in text
            # Whatever is asked of an empty table.
            await press(pilot, "enter", "G", "g", "j", "k", "pagedown", "pageup", "s", "S", "/", "x", "enter")
            await press(pilot, "escape", "t", "r", "n")
            await until(pilot, "none found")
            await press(pilot, "enter", "escape", "?")
            await until(pilot, "─ Help ─")
            await press(pilot, "escape")
            await polls(pilot)


async def test_a_namespace_that_does_not_exist(orders: Redis, redis_url: str) -> None:
    orders.sadd("mail:QUEUES", "inbox")

    with untouched(orders):
        async with dashboard(redis_url, ns="nowhere") as pilot:
            await until(pilot, "No queues in namespace nowhere. Other namespaces: mail, rsmq. Press n to switch.")
            await press(pilot, "n")
            await until(pilot, "Namespaces on this server", "enter switches")
            await press(pilot, "down", "enter")
            await until(pilot, "● ok       orders")


async def test_a_database_that_does_not_exist(client: Redis, redis_url: str) -> None:
    with untouched(client):
        async with dashboard(redis_url.removesuffix("0") + "99999") as pilot:
            await until(pilot, "✗ no data yet", "the server has no database of that number", "Try: ")
