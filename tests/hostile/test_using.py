"""Tabs, filter, marks, groups and previews of changes: on hostile data, on broken queues, on a server that refuses."""

import pytest
from redis import Redis

from tests.hostile.keyspace import untouched
from tests.hostile.payloads import ALL_LINES, ESCAPES, JSON, MARKUP, SNIPPETS, plant_message, plant_queue
from tests.hostile.proxy import Proxy
from tests.hostile.using import choose_tab, look_at_changes, take_back, use_everything, use_groups, use_marks, walk_tabs
from tests.hostile.watching import dashboard, is_dimmed, is_fresh, open_queue, press, text_of, until

pytestmark = pytest.mark.slow

# Markup, commands of a terminal, what cannot be read and what changes the order: all before any title cuts it.
NAME = b"[/foo]\x1b]0;PWNED\x07\xff\x00\xe2\x80\xae[red]"


async def test_hostile_ids_and_bodies(client: Redis, redis_url: str) -> None:
    plant_queue(client, b"orders")
    for number, snippet in enumerate((*SNIPPETS.values(), ALL_LINES, JSON)):
        plant_message(client, b"orders", b"%02d" % number + snippet, snippet, rc=number % 9, fr=1_795_000_000_000)
        plant_message(client, b"orders", b"j%02d" % number, b'{"type": %s}' % JSON)

    with untouched(client):
        async with dashboard(redis_url, interval_s=1.0) as pilot:
            await until(pilot, "● live")
            await open_queue(pilot, "orders")
            await use_everything(pilot)
            for _ in range(3):
                await press(pilot, *"jjjjjjjjj")
                await look_at_changes(pilot, "xe")


async def test_a_hostile_name(client: Redis, redis_url: str) -> None:
    for queue in (NAME, b"nowhere"):
        plant_queue(client, queue, vt=NAME, delay=NAME)
        plant_message(client, queue, NAME, NAME, rc=NAME, fr=NAME)

    with untouched(client):
        async with dashboard(redis_url, interval_s=1.0) as pilot:
            await until(pilot, "● live")
            await open_queue(pilot, NAME.decode("utf-8", "surrogateescape"))
            # Filters and groups are of what is in the queue, not of its name.
            await walk_tabs(pilot)
            await use_marks(pilot)
            await look_at_changes(pilot)


async def test_messages_that_can_never_be(client: Redis, redis_url: str) -> None:
    scores = "inf", "-inf", "1e308"
    for score in scores:
        plant_queue(client, score.encode(), vt=b"soon", maxsize=b"[/foo]")
        for number in range(3):
            client.execute_command("ZADD", f"rsmq:{score}", score, b"m%d" % number)

    with untouched(client):
        async with dashboard(redis_url, interval_s=1.0) as pilot:
            for score in scores:
                await until(pilot, "● live", f"{len(scores)} queues")
                await open_queue(pilot, score)
                await walk_tabs(pilot)
                await use_marks(pilot)
                await look_at_changes(pilot, "x0P")
                await press(pilot, "escape")


async def test_a_narrow_terminal(orders: Redis, redis_url: str) -> None:
    plant_message(orders, b"orders", ESCAPES, MARKUP)
    with untouched(orders):
        async with dashboard(redis_url, size=(40, 10), interval_s=1.0) as pilot:
            await until(pilot, "● live")
            await open_queue(pilot, "orders")
            await press(pilot, "l", "l", "l", "l", "l", "space", "v", "j", "v", "*", "A", "escape", "b", "enter")
            await press(pilot, "escape")
            await look_at_changes(pilot)


async def test_a_server_that_refuses_each_step(orders: Redis, proxy: Proxy) -> None:
    with untouched(orders):
        async with dashboard(proxy.url) as pilot:
            await until(pilot, "● live")
            await open_queue(pilot, "orders")
            await use_marks(pilot)
            proxy.answer(b"-[/foo] \x1b]0;PWNED\x07[red]\r\n")
            await until(pilot, "✗ stale", lambda: is_dimmed(pilot))
            await press(pilot, "h", "h", "h", "/", "[", "/", "enter", "r", "G", "space", "v", "j", "v", "*", "A")
            await take_back(pilot)
            await use_groups(pilot, "json.order")
            await look_at_changes(pilot)
            await press(pilot, "l", "l", "l")
            proxy.forward()
            await until(pilot, "● live")
            await choose_tab(pilot)
            await until(pilot, "● live", '{"order": 1}', lambda: is_fresh(pilot))
            await walk_tabs(pilot)


@pytest.mark.parametrize("steps", [2, 3, 4])
async def test_what_could_not_be_searched_is_found_when_the_server_is_back(
    orders: Redis, proxy: Proxy, steps: int
) -> None:
    """The tabs in flight, delayed and poison, first looked at while nothing can be."""
    now_ms = orders.time()[0] * 1000
    due = {2: now_ms + 60_000, 3: now_ms + 60_000, 4: now_ms}[steps]
    orders.zadd("rsmq:orders", {"wanted": due})
    orders.hset("rsmq:orders:Q", mapping={"wanted": "found!"} | ({} if steps == 3 else {"wanted:rc": 99}))
    with untouched(orders):
        async with dashboard(proxy.url) as pilot:
            await until(pilot, "● live")
            await open_queue(pilot, "orders")
            proxy.refuse()
            await until(pilot, "✗ stale")
            await press(pilot, *["h"] * (5 - steps))
            await until(pilot, " – ", "✗ connection refused", lambda: "found!" not in text_of(pilot))
            proxy.listen()
            await until(pilot, "● live", "found!", " 1 ", "as of ", lambda: is_fresh(pilot))


@pytest.mark.parametrize("keys", [["l", "l"], ["/", *"order", "enter"]], ids=["tab", "filter"])
async def test_what_was_found_stays_dimmed_until_it_is_found_again(
    orders: Redis, proxy: Proxy, keys: list[str]
) -> None:
    now_ms = orders.time()[0] * 1000
    orders.zadd("rsmq:orders", {"wanted": now_ms + 60_000})
    orders.hset("rsmq:orders:Q", mapping={"wanted": "an order", "wanted:rc": 1})
    with untouched(orders):
        async with dashboard(proxy.url) as pilot:
            await until(pilot, "● live")
            await open_queue(pilot, "orders")
            await press(pilot, *keys)
            await until(pilot, "an order", " · as of ", lambda: is_fresh(pilot))
            for misbehave, words in (
                (proxy.refuse, "connection refused"),
                (lambda: proxy.answer(b"-LOADING Redis is loading\r\n"), "the server is loading"),
                (lambda: proxy.answer(b"-BUSY Redis is busy\r\n"), "the server is busy"),
            ):
                misbehave()
                await until(pilot, "✗ stale", lambda: is_dimmed(pilot))
                await press(pilot, "r")
                text = await until(pilot, f"s: {words}")
                assert "an order" in text
                assert "~1" in text or "enter" in keys
                if misbehave == proxy.refuse:
                    proxy.listen()
                proxy.forward()
                text = await until(pilot, "● live", " · as of ", lambda: is_fresh(pilot))
                assert "an order" in text


async def test_the_queue_goes_while_its_change_is_looked_at(orders: Redis, redis_url: str) -> None:
    async with dashboard(redis_url) as pilot:
        await until(pilot, "● live")
        await open_queue(pilot, "orders")
        await press(pilot, "space")
        orders.delete("rsmq:orders", "rsmq:orders:Q")
        orders.srem("rsmq:QUEUES", "orders")
        await until(pilot, "this queue is gone")
        await use_marks(pilot)
        await look_at_changes(pilot)
        assert orders.dbsize() == 0
