"""A history of release 0.1 is read, replayed as that release replayed it, and shown in the dashboard."""

import json
from pathlib import Path
from typing import Any

import pytest

from rsmq_tui.history.reading import History
from rsmq_tui.history.replay.replay import Replay
from tests.earlier import BEGIN_MS, END_MS, FOLDER
from tests.history.made import rows_of
from tests.tui.reading import app_of, names_in, text_of
from tests.tui.test_replay import replayed

SHOWN: dict[str, Any] = json.loads((FOLDER / "shown.json").read_text())


def test_what_was_recorded_is_found(history: Path) -> None:
    span = Replay(History(history, state=history)).span
    assert (span.from_ms, span.to_ms) == (BEGIN_MS, END_MS)
    assert len({row["queue"] for row in rows_of(history)} - {None}) == 8
    assert {row["status"] for row in rows_of(history)} == {"ok", "down"}


def test_it_begins_when_each_place_was_polled(history: Path) -> None:
    """That release began with the first poll of all, of one place."""
    shown = [queue["name"] for queue in SHOWN[str(BEGIN_MS)]["queues"]]
    snapshot = Replay(History(history, state=history), from_ms=BEGIN_MS).snapshot
    lists = {queue.name for queue in snapshot.queues if queue.kind == "list"}
    assert lists
    assert {queue.name for queue in snapshot.queues} == {*shown, *lists}


@pytest.mark.parametrize("at_ms", [*SHOWN][1:])
def test_a_moment_is_replayed_as_it_was(history: Path, at_ms: str) -> None:
    snapshot = Replay(History(history, state=history), from_ms=int(at_ms)).snapshot
    shown = SHOWN[at_ms]
    names = shown["queues"][0].keys()
    assert [{name: getattr(queue, name) for name in names} for queue in snapshot.queues] == shown["queues"]
    parts = snapshot.parts or (snapshot,)
    assert sorted(part.place for part in parts if part.connection.failure is not None) == shown["down"]


def test_it_plays_to_its_end(history: Path) -> None:
    replay = Replay(History(history, state=history), from_ms=BEGIN_MS)
    polls = 0
    while not replay.is_at_end:
        assert replay.step(1)
        polls += 1
    # It begins with the first two polls, one of each place.
    assert polls == len({row["at_ms"] for row in rows_of(history)}) - 2
    assert replay.position_ms == END_MS


async def test_the_dashboard_replays_it(history: Path) -> None:
    at_ms = [*SHOWN][2]
    async with replayed(history, int(at_ms)) as pilot:
        shown = [key.rpartition("\0")[2] for key in names_in(pilot)]
        assert sorted(shown) == sorted(queue["name"] for queue in SHOWN[at_ms]["queues"])
        assert "REPLAY" in text_of(app_of(pilot))
