"""The dialog with the clients of a queue, on a real server."""

import pytest
import redis
from textual.pilot import Pilot
from textual.widgets import Button, Static

from rsmq_tui.protocol.server.clients import COMMANDS_MAX
from rsmq_tui.tui.queue.clients import ClientsScreen
from rsmq_tui.tui.queue.screen import QueueScreen
from tests.tui.changing import Orders
from tests.tui.driving import press, press_for_screen, until, wait_for_screen
from tests.tui.reading import lines_of


async def _opened(pilot: Pilot[None]) -> ClientsScreen:
    screen = await press_for_screen(pilot, "w", ClientsScreen)
    await until(pilot, lambda: not screen.query_one("#watch", Button).disabled, "CLIENT LIST was read")
    return screen


async def test_it_guesses_at_first_and_watches_if_the_button_says_so(
    orders: Orders, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("protocol.server.clients", "tui.queue.clients"):
        monkeypatch.setattr(f"rsmq_tui.{module}.SECONDS_MAX", 600)
    client.client_setname("[bold]consumer")
    async with orders.opened() as pilot:
        screen = await _opened(pilot)
        words = screen.query_one("#words", Static)
        assert "A guess: all clients of this database" in str(words.content)
        assert "may cost half of its throughput" in str(words.content)
        assert "[bold]consumer" in "\n".join(lines_of(screen.groups))
        assert "cmdstat_monitor" not in client.info("commandstats")
        await press(pilot, "right")
        assert screen.focused is screen.query_one("#watch")
        await pilot.press("enter")
        await until(pilot, lambda: "O" in str([each["flags"] for each in client.client_list()]), "it watches")
        received = orders.queues.receive_message("orders")
        assert received is not None
        # Further commands reach the limit.
        with client.pipeline(transaction=False) as pings:
            for _ in range(COMMANDS_MAX):
                pings.ping()
            pings.execute()
        clients = lambda: [line.split() for line in lines_of(screen.activities)[1:] if line.strip()]  # noqa: E731
        await until(pilot, clients, "the clients are shown")
        (row,) = clients()
        assert row[1:] == ["[bold]consumer", "redis-py", "1", "0", "0", "1"]
        assert "no client tried to receive" not in str(words.content)
        assert received.body.decode("utf-8", "replace") not in "\n".join(lines_of(screen.activities))
        await press(pilot, "escape")
        await wait_for_screen(pilot, QueueScreen)
