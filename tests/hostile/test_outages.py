"""Servers that restart, go away, hang or break off: the last numbers stay, dimmed, and the dashboard comes back."""

from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager

import pytest
from redis import Redis

from rsmq_tui.cli.demo import EmbeddedServer
from tests.hostile.keyspace import untouched
from tests.hostile.payloads import fill
from tests.hostile.proxy import Change, Proxy
from tests.hostile.using import choose_tab
from tests.hostile.watching import (
    Dashboard,
    dashboard,
    dashboard_app,
    is_dimmed,
    is_fresh,
    open_message,
    open_queue,
    polls,
    press,
    until,
    until_changed,
)

pytestmark = pytest.mark.slow


async def stale(pilot: Dashboard, *words: str) -> str:
    """Wait until the numbers are called stale for a reason, and look at how they are shown."""
    # A page of messages may be called stale before the next poll fails too.
    text = await until(pilot, "✗ stale", *words, lambda: is_dimmed(pilot))
    # The last numbers are still there, and can be told from live ones.
    assert "orders" in text
    assert "1 queue" in text
    return text


async def live(pilot: Dashboard) -> str:
    """Wait until the numbers are live again."""
    text = await until(pilot, "● live", "orders", lambda: is_fresh(pilot))
    await polls(pilot)
    return text


@asynccontextmanager
async def filled_dashboard(server: EmbeddedServer) -> AsyncIterator[Dashboard]:
    """The dashboard of a server that was filled before."""
    with Redis.from_url(server.url) as admin:
        fill(admin)
    async with dashboard(server.url) as pilot:
        await live(pilot)
        yield pilot


async def test_a_restart(redis_url: str) -> None:
    with EmbeddedServer() as server:
        port = server.port
        async with filled_dashboard(server) as pilot:
            server.stop()
            await stale(pilot, "connection refused")
            await press(pilot, "enter", "y", "escape", "n", "escape", "r")

            with EmbeddedServer(port=port) as again, Redis.from_url(again.url) as admin:
                # It has come back empty, and knows no script any more.
                await until(pilot, "● live", "No queues in namespace rsmq")
                fill(admin)
                await live(pilot)


async def test_the_server_goes_away_and_comes_back(orders: Redis, proxy: Proxy) -> None:
    with untouched(orders):
        async with dashboard(proxy.url) as pilot:
            await live(pilot)
            for screen in ("overview", "queue", "message"):
                if screen == "queue":
                    await open_queue(pilot, "orders")
                if screen == "message":
                    await choose_tab(pilot)
                    await open_message(pilot)
                proxy.refuse()
                await stale(pilot, "connection refused", "reconnecting")
                await press(pilot, "l", "y", "t", "?", "escape")

                proxy.listen()
                await until(pilot, "● live", "orders", lambda: is_fresh(pilot))
                if screen == "queue":
                    await until(pilot, '{"order": 2}')
                await polls(pilot)


async def test_a_server_that_never_was(client: Redis, proxy: Proxy) -> None:
    proxy.refuse()
    async with dashboard(proxy.url) as pilot:
        await until(
            pilot,
            "✗ no data yet",
            f"Cannot read redis://127.0.0.1:{proxy.port}/0: connection refused.",
            "Try: check that the server is running, and the host and port",
        )
        await press(pilot, "enter", "n")
        await until(pilot, "connection refused; check that the server is runn")
        await press(pilot, "escape", "/", "x", "enter", "p", "r", "p")

        proxy.listen()
        await press(pilot, "escape")
        await live(pilot)


async def test_a_server_that_hangs(orders: Redis, proxy: Proxy) -> None:
    with untouched(orders):
        async with dashboard(proxy.url, timeout_s=0.3) as pilot:
            await live(pilot)
            for screen in ("overview", "queue"):
                if screen == "queue":
                    await open_queue(pilot, "orders")
                proxy.swallow()
                text = await stale(pilot, "the server does not answer")
                # It hangs for longer than one time-out; keys work all the while.
                failure = dashboard_app(pilot).dashboard.snapshot
                await until_changed(pilot, lambda: dashboard_app(pilot).dashboard.snapshot, failure)
                assert "orders" in text
                await press(pilot, "?", "escape", "t", "r")

                proxy.forward()
                await live(pilot)


async def test_a_server_that_hangs_from_the_start(orders: Redis, proxy: Proxy) -> None:
    proxy.swallow()
    async with dashboard(proxy.url, timeout_s=0.3) as pilot:
        await until(
            pilot,
            "✗ no data yet",
            "the server does not answer",
            "Try: check whether it is overloaded, or whether a firewall blocks it.",
        )
        proxy.forward()
        await live(pilot)


def _cut_off(after: int) -> Change:
    return lambda data: (data[:after], True)


async def test_connections_that_break_in_the_middle_of_a_reply(orders: Redis, proxy: Proxy) -> None:
    with untouched(orders):
        async with dashboard(proxy.url) as pilot:
            await live(pilot)
            await open_queue(pilot, "orders")
            for after in (0, 1, 200):
                proxy.change(_cut_off(after))
                await stale(pilot, "the server closed the connection")
                proxy.forward()
                await live(pilot)


async def test_a_reply_of_which_half_is_missing(orders: Redis, proxy: Proxy) -> None:
    with untouched(orders):
        async with dashboard(proxy.url, timeout_s=0.3) as pilot:
            await live(pilot)
            proxy.change(lambda data: (data[: len(data) // 2], False))
            await stale(pilot, "the server does not answer")
            proxy.forward()
            await live(pilot)


async def test_replies_that_come_in_crumbs(orders: Redis, proxy: Proxy) -> None:
    """A slow link is no failure."""
    with untouched(orders), ExitStack() as stack:
        stack.callback(proxy.forward)
        proxy.crumble()
        async with dashboard(proxy.url) as pilot:
            await live(pilot)
            await open_queue(pilot, "orders")
            assert '"order": 1' in await open_message(pilot)


async def test_each_connection_is_dropped_again_and_again(orders: Redis, proxy: Proxy) -> None:
    with untouched(orders):
        async with dashboard(proxy.url) as pilot:
            await live(pilot)
            await open_queue(pilot, "orders")
            for _ in range(5):
                before = proxy.connections
                proxy.drop()
                await until_changed(pilot, lambda: proxy.connections, before)
                await press(pilot, "l")
            await live(pilot)


async def test_a_unix_socket_that_goes_away(unix_server: EmbeddedServer) -> None:
    async with filled_dashboard(unix_server) as pilot:
        unix_server.stop()
        await stale(pilot, "the unix socket does not exist")
