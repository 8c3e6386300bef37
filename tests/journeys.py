"""Count the files of ours in which a function runs, from a key or a poll to its effect, on one queue.

``python -m tests.journeys [--list]`` prints the figures of ARCHITECTURE.md for its first three journeys; ``--list``
names the files as well. What runs while a module is imported does not count, nor what makes modules and classes on
first use.
"""

import argparse
import asyncio
import inspect
import re
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import redis

import rsmq_tui
from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.cli.main import main as run_command
from rsmq_tui.protocol import Rsmq
from tests.tui.changing import asked, changing, confirm, in_queue
from tests.tui.driving import settled, until
from tests.tui.reading import app_of, lines_of, table_of

ROOT = Path(rsmq_tui.__file__).parent


@contextmanager
def files_that_run() -> Iterator[set[str]]:
    """Collect the files of ours in which a function is called, in this thread and in those that are started."""
    found: set[str] = set()
    prefix = f"{ROOT}/"
    importing = threading.local()

    def note(frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        code = frame.f_code
        if code.co_name == "<module>":
            importing.depth = getattr(importing, "depth", 0) + 1
            frame.f_trace_lines = False
            return leave
        # The body of a class is no function.
        if (
            code.co_filename.startswith(prefix)
            and code.co_flags & inspect.CO_OPTIMIZED
            and not getattr(importing, "depth", 0)
        ):
            found.add(code.co_filename.removeprefix(prefix))
        return None

    def leave(frame: FrameType, event: str, _: Any) -> Callable[..., Any]:
        importing.depth -= event == "return"
        return leave

    # A profiler would be called for each function of C too.
    threading.settrace(note)
    sys.settrace(note)
    try:
        yield found
    finally:
        sys.settrace(None)
        threading.settrace(None)


@contextmanager
def with_orders(url: str, *bodies: str) -> Iterator[redis.Redis]:
    """Leave only one queue on the server, with these messages."""
    with redis.Redis.from_url(url) as client:
        client.flushall()
        rsmq = Rsmq(client)
        rsmq.create_queue("orders")
        rsmq.send_messages("orders", bodies)
        yield client


async def from_a_poll_to_a_cell(url: str, folder: Path) -> set[str]:
    """Add a message to the only queue, and wait until the overview shows it."""
    with with_orders(url, "{}") as client:
        async with changing(url, folder) as pilot:
            await until(pilot, lambda: re.search("orders +1 ", lines_of(table_of(pilot))[1]), "the queue is shown")
            await settled(pilot)
            with files_that_run() as found:
                client.zadd("rsmq:orders", {"hocx8qopw" + "0" * 23: 1})
                await until(pilot, lambda: re.search("orders +2 ", lines_of(table_of(pilot))[1]), "the cell changes")
    return found


async def from_x_to_the_journal(url: str, folder: Path) -> set[str]:
    """Delete the message under the cursor, and wait until its outcome is shown."""
    with with_orders(url, "{}", "{}"):
        async with changing(url, folder) as pilot:
            await in_queue(pilot, "orders", 2)
            await settled(pilot)
            with files_that_run() as found:
                await pilot.press("x")
                await asked(pilot)
                words = await confirm(pilot)
            assert words.startswith("deleted 1"), words
            assert app_of(pilot).dashboard.snapshot is not None
    return found


async def from_a_command_to_its_outcome(url: str, folder: Path) -> set[str]:
    """Delete a message with ``messages delete --yes``."""
    with with_orders(url, "1", "2") as client:
        arguments = ["-r", url, "messages", "delete", "orders", "--filter", "body~1", "--yes"]
        with pytest.MonkeyPatch.context() as patched, redirect_stdout(StringIO()), files_that_run() as found:
            patched.setenv("XDG_STATE_HOME", str(folder))
            status = await asyncio.to_thread(run_command, arguments)
        assert (status, client.zcard("rsmq:orders")) == (0, 1)
    return found


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="name the files")
    options = parser.parse_args()
    journeys = (
        ("a poll, until a cell changes", from_a_poll_to_a_cell),
        ("x on a message, until its outcome is in the journal", from_x_to_the_journal),
        ("`messages delete --yes`, until its outcome is printed", from_a_command_to_its_outcome),
    )
    with EmbeddedServer() as server, tempfile.TemporaryDirectory() as folder:
        for number, (title, journey) in enumerate(journeys):
            found = asyncio.run(journey(server.url, Path(folder, str(number))))
            print(f"{len(found):4}  {title}")
            if options.list:
                print(*(f"        {name}" for name in sorted(found)), sep="\n")


if __name__ == "__main__":
    main()
