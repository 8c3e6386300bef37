"""Bodies that are harmful by their size or their depth alone."""

import pytest
from redis import Redis

from rsmq_tui.tui.queue.message import MessageScreen
from tests.hostile.keyspace import untouched
from tests.hostile.payloads import large, plant_message, plant_queue
from tests.hostile.watching import dashboard, dashboard_app, open_message, open_queue, press, until

pytestmark = pytest.mark.slow


async def test_large_bodies_in_all_views(client: Redis, redis_url: str) -> None:
    plant_queue(client, b"orders")
    bodies = large()
    for name, body in bodies.items():
        plant_message(client, b"orders", name.encode(), body)
    count, long_ones = len(bodies), sum(len(body) > 1_000_000 for body in bodies.values())
    del bodies, body

    with untouched(client):
        async with dashboard(redis_url) as pilot:
            await until(pilot, "● live", f"{count} messages")
            text = await open_queue(pilot, "orders")
            # What is too long for a page is only told in words: the server must not copy it at each poll.
            assert text.count("enter shows it") >= long_ones
            snapshot = dashboard_app(pilot).dashboard.snapshot
            assert snapshot is not None
            assert snapshot.cost.bytes < 100_000

            for row in range(count):
                await open_message(pilot, row)
                screen = pilot.app.screen
                assert isinstance(screen, MessageScreen)
                for _ in range(3):
                    screen.body_view.action_scroll_to_end(1)
                    await until(pilot, "lines")
                    screen.body_view.action_scroll_pages(-1)
                    screen.action_view(1)
                await press(pilot, "escape")
            await press(pilot, "y")
            await until(pilot, "the body is too long for the terminal's clipboard")


async def test_a_body_beyond_the_limit_is_not_fetched(
    client: Redis, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rsmq_tui.protocol.rsmq.pages.BODY_BYTES_MAX", 99_999)
    plant_queue(client, b"orders")
    plant_message(client, b"orders", b"m", b"x" * 100_000)

    async with dashboard(redis_url) as pilot:
        await until(pilot, "● live")
        await open_queue(pilot, "orders")
        await open_message(pilot)
        await until(
            pilot, "its body of 97.7 KiB is long: space or Enter reads it", "rsmq-tui messages get --raw orders m -r"
        )
        await press(pilot, "y", "l", "end", "home")
