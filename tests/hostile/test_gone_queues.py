"""Queues and messages that go, come back or turn into something else while somebody looks at them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from redis import Redis

from rsmq_tui.protocol import Rsmq
from tests.hostile.payloads import plant_message, plant_queue
from tests.hostile.watching import Dashboard, dashboard, open_message, open_queue, polls, press, text_of, until

pytestmark = pytest.mark.slow

GONE = "this queue is gone"


@asynccontextmanager
async def in_orders(redis_url: str, *, interval_s: float = 0.1) -> AsyncIterator[Dashboard]:
    """Open the dashboard on the screen of the queue."""
    async with dashboard(redis_url, interval_s=interval_s) as pilot:
        await until(pilot, "● live")
        await open_queue(pilot, "orders")
        yield pilot


async def test_a_queue_goes_and_comes_back_on_the_overview(orders: Redis, redis_url: str) -> None:
    async with dashboard(redis_url) as pilot:
        await until(pilot, "● live", "orders")
        Rsmq(orders).delete_queue("orders")
        await until(pilot, "● live", "No queues in namespace rsmq")
        Rsmq(orders).create_queue("orders")
        await until(pilot, "● live", "● ok       orders")


async def test_a_queue_goes_and_comes_back_on_its_own_screen(orders: Redis, redis_url: str) -> None:
    async with in_orders(redis_url) as pilot:
        Rsmq(orders).delete_queue("orders")
        await until(pilot, GONE, "There are no messages in this queue")
        await press(pilot, "y", "I", "l", "enter", "]", "[", "G", "j")

        Rsmq(orders).create_queue("orders")
        Rsmq(orders).send_message("orders", "a new one")
        await until(pilot, "a new one", lambda: GONE not in text_of(pilot))
        await press(pilot, "escape")
        await until(pilot, "VERDICT", "orders")


async def test_a_queue_goes_while_one_of_its_messages_is_shown(orders: Redis, redis_url: str) -> None:
    async with in_orders(redis_url) as pilot:
        await open_message(pilot)
        Rsmq(orders).delete_queue("orders")
        # What was read stays readable.
        await polls(pilot)
        await press(pilot, "y")
        await until(pilot, "copied the body", '"order"')
        await press(pilot, "escape")
        await until(pilot, GONE)
        await press(pilot, "escape")
        await until(pilot, "No queues in namespace rsmq")


@pytest.mark.parametrize("key", ["enter", "y"])
async def test_a_message_goes_before_it_is_read(orders: Redis, redis_url: str, key: str) -> None:
    words = {"enter": "this message is no longer in the queue orders", "y": "that message no longer has a body"}
    # Without a second poll, the page is not read again.
    async with in_orders(redis_url, interval_s=3600) as pilot:
        await until(pilot, '{"order": 1}')
        orders.delete("rsmq:orders", "rsmq:orders:Q")
        await press(pilot, key)
        await until(pilot, words[key])


async def test_keys_turn_into_other_types_while_they_are_shown(orders: Redis, redis_url: str) -> None:
    async with in_orders(redis_url) as pilot:
        orders.delete("rsmq:orders")
        orders.set("rsmq:orders", "no set")
        await until(pilot, "✗ broken: its messages key is not a sorted set")
        # Its last messages are still shown, as old ones.
        await until(pilot, "✗ stale", "s: A key of this queue holds another type of value", '{"order": 2}')
        await press(pilot, "y", "l", "]", "G", "enter")
        await until(pilot, "A key of this queue holds another type of value")
        await press(pilot, "escape")

        orders.delete("rsmq:orders", "rsmq:orders:Q")
        orders.set("rsmq:orders:Q", "no hash")
        await until(pilot, "✗ broken: its attributes key is not a hash")
        await press(pilot, "escape")
        await until(pilot, "✗ broken")

        orders.delete("rsmq:QUEUES", "rsmq:orders:Q")
        orders.set("rsmq:QUEUES", "no set")
        await until(pilot, "● live", "rsmq:QUEUES is not a set of names")

        orders.delete("rsmq:QUEUES")
        plant_queue(orders, b"orders")
        plant_message(orders, b"orders", b"m", b"back again")
        await until(pilot, "● ok       orders")
        await open_queue(pilot, "orders")
        await until(pilot, "back again")


async def test_the_whole_database_is_flushed(orders: Redis, redis_url: str) -> None:
    async with in_orders(redis_url) as pilot:
        orders.flushall()
        orders.script_flush()
        await until(pilot, GONE, "● live")
        plant_queue(orders, b"other")
        await press(pilot, "escape")
        await until(pilot, "● ok       other")
