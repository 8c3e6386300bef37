"""A dashboard that starts with what an earlier one has kept."""

import sqlite3
from array import array
from contextlib import closing
from pathlib import Path

from rsmq_tui.monitor.tracking.memory import Memory
from rsmq_tui.monitor.tracking.place_tracker import PlaceMemory
from tests.monitor.rows import START_MS, Scripted

MOMENT = PlaceMemory(START_MS, ["q"], [array("d", [1])] * 4, [], array("q"), {})


async def began(folder: Path, watched: Scripted, *, at_ms: int = START_MS) -> Memory:
    """Let a dashboard start at that time of the server."""
    watched.at_ms = at_ms
    found = Memory(folder, "a server", "rsmq")
    await found.restore(watched.tracker, at_ms)
    return found


def run(path: Path, statement: str, *values: bytes) -> None:
    """Run a statement on a file."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(statement, values)
