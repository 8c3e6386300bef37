"""Terminals of any size, also while everything else goes wrong."""

from pathlib import Path

import pytest
from redis import Redis

from tests.hostile.keyspace import untouched
from tests.hostile.payloads import ALL_LINES, ESCAPES, JSON, MARKUP, plant_message, plant_queue
from tests.hostile.proxy import Proxy
from tests.hostile.terminal import Terminal
from tests.hostile.watching import (
    dashboard,
    open_message,
    open_queue,
    polls,
    press,
    resize,
    until,
)

pytestmark = pytest.mark.slow

# The size changes again after it was read, and before the app knows it.
_CHANGED_WHILE_READ = """
import os, sys
from rsmq_tui.cli.main import main
from rsmq_tui.tui.drivers import TerminalDriver

def size_of(driver, size_of=TerminalDriver._get_terminal_size):
    size = size_of(driver)
    if size == (40, 10):
        os.write(1, b"\\x1b]0;read\\x07")
        while size_of(driver) == size:
            pass
    return size

TerminalDriver._get_terminal_size = size_of
sys.exit(main())
"""

SIZES = ((40, 10), (20, 5), (1, 1), (3, 2), (500, 2), (2, 200), (99, 19), (100, 20), (300, 100))


@pytest.fixture
def hostile(orders: Redis) -> Redis:
    """A server with an honest queue and two whose names and bodies are attacks."""
    for name in (ESCAPES, MARKUP):
        plant_queue(orders, name, delay=name)
        plant_message(orders, name, name, ALL_LINES)
        plant_message(orders, name, b"j" + name, JSON)
    return orders


async def test_a_small_terminal_shows_names_numbers_and_verdicts(orders: Redis, redis_url: str) -> None:
    async with dashboard(redis_url, size=(40, 10)) as pilot:
        text = await until(pilot, "● live", "orders")
        row = next(line for line in text.splitlines() if "orders" in line)
        assert row.split()[:4] == ["●", "ok", "orders", "2"]
        await open_queue(pilot, "orders")
        await open_message(pilot)
        await press(pilot, "escape", "escape", "?", "escape", ":", "escape", "n", "escape", "/")


@pytest.mark.parametrize("size", SIZES[1:3])
async def test_a_tiny_terminal_is_no_reason_to_stop(hostile: Redis, redis_url: str, size: tuple[int, int]) -> None:
    with untouched(hostile):
        async with dashboard(redis_url, size=size) as pilot:
            await pilot.pause(0.2)
            await press(
                pilot, "j", "enter", "l", "j", "enter", "l", "l", "G", "?", "escape", ":", "escape", "escape", "n"
            )
            await resize(pilot, (160, 48))
            await until(pilot, "Namespaces on this server")


async def test_what_lies_over_the_overview_in_any_width(hostile: Redis, redis_url: str) -> None:
    async with dashboard(redis_url) as pilot:
        await until(pilot, "● live")
        overview = pilot.app.screen
        for keys in ("?", "n", ":q", "/x"):
            await press(pilot, *keys)
            # Textual divides by what a border and a scrollbar leave of the width.
            await resize(pilot, *((width, width) for width in range(12, 0, -1)), (500, 2), (160, 48))
            await press(pilot, "escape")
            await until(pilot, "● live", lambda: pilot.app.screen is overview)


async def test_every_screen_is_resized(hostile: Redis, redis_url: str) -> None:
    with untouched(hostile):
        async with dashboard(redis_url) as pilot:
            await until(pilot, "● live", "3 queues")
            await resize(pilot, *SIZES, (160, 48))
            await open_queue(pilot, ESCAPES.decode())
            await resize(pilot, *SIZES, (160, 48))
            await open_message(pilot)
            for _ in range(3):
                await resize(pilot, *SIZES[:5], (160, 48))
                await press(pilot, "G", "l")
            await press(pilot, "escape")
            await until(pilot, "BODY")


async def test_resizing_while_the_server_comes_and_goes(hostile: Redis, proxy: Proxy) -> None:
    with untouched(hostile):
        async with dashboard(proxy.url, timeout_s=0.3) as pilot:
            await until(pilot, "● live")
            await open_queue(pilot, MARKUP.decode())
            for misbehave in (proxy.refuse, proxy.listen, proxy.swallow, proxy.forward, proxy.drop):
                misbehave()
                await resize(pilot, *SIZES[:5])
                await press(pilot, "l", "t")
            await resize(pilot, (160, 48))
            await until(pilot, "● live", "[/foo]")
            await polls(pilot)


def test_a_storm_in_a_real_terminal(hostile: Redis, proxy: Proxy, tmp_path: Path) -> None:
    with untouched(hostile), Terminal("-r", proxy.url, "--interval", "0.1", settings=tmp_path) as terminal:
        terminal.wait_for("● live", "[/foo]")
        for number in range(20):
            for size in SIZES:
                terminal.resize(*size)
            if number == 5:
                # What is typed before the queue is opened is for what is shown until then.
                terminal.resize(160, 48)
                terminal.type("\r")
                terminal.wait_for("BODY")
            if number == 10:
                proxy.refuse()
            if number == 15:
                proxy.listen()
                terminal.type("?")
            terminal.wait_for_output()
        terminal.resize(160, 48)
        terminal.wait_for("─ Help ─", "● live")
        terminal.type("\x1b")
        terminal.wait_for("BODY")
        terminal.type("\x03")
        assert terminal.wait_for_end() == 0
        assert terminal.screen.is_restored
        assert b"Traceback" not in terminal.output


def test_the_last_size_is_the_one_that_is_drawn(orders: Redis, redis_url: str, tmp_path: Path) -> None:
    with Terminal("-r", redis_url, settings=tmp_path, command=("-c", _CHANGED_WHILE_READ)) as terminal:
        terminal.wait_for("● live", "orders", "DRAINS IN")
        terminal.resize(40, 10)
        terminal.wait_for_sequence(b"\x1b]0;read\x07")
        terminal.resize(160, 48)
        terminal.type("?")
        # The smaller size has no room for it.
        terminal.wait_for("Reverse the order")
