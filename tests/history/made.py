"""Snapshots made by hand, and what a history holds as any reader of Parquet sees it."""

from math import inf
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds

from rsmq_tui.history.names import Place
from rsmq_tui.history.poll_log import PollLog
from rsmq_tui.history.reading import History
from rsmq_tui.history.rows import inventory_end, message_rows
from rsmq_tui.history.schema import MESSAGES, SAMPLES
from rsmq_tui.history.writer import RecordingSettings, Writer
from rsmq_tui.monitor import Connection, Drain, QueueState, Snapshot, Verdict
from rsmq_tui.protocol import Failure, RawMessage

DAY_MS = 86_400_000
# Noon of a day.
NOON_MS = 20_000 * DAY_MS + DAY_MS // 2
PLACE = Place("prod", "redis://db1:6379/0", "rsmq")
_SEEN = ("at_ms", "recorder", "inventory_ms", "queue", "id", "due_ms", "size")


def state(name: str = "orders", **fields: Any) -> QueueState:
    """A queue with some messages."""
    usual: dict[str, Any] = {
        "name": name, "kind": "rsmq", "depth": 7, "ready": 4, "hidden": 3, "oldest_ready_ms": NOON_MS - 5_000,
        "vt_s": 30.0, "delay_s": 0.0, "maxsize": 65536, "created_ms": 1_000, "modified_ms": 2_000, "totalsent": 90,
        "totalrecv": 80, "arrivals_s": None, "deletes_s": None, "receives_s": None, "poison": 1, "highest_rc": 6,
        "verdict": Verdict.OK, "since_ms": None, "drain": Drain.UNKNOWN, "drain_s": None, "broken": None,
        "problems": (), "oldest_ready_due_ms": NOON_MS - 5_000,
    }  # fmt: skip
    return QueueState(**(usual | fields))


def polled(*queues: QueueState, at_ms: int = NOON_MS, place: str = "prod") -> Snapshot:
    """A poll that went well."""
    return Snapshot(at_ms, PLACE.server, PLACE.ns, queues, connection=Connection(None, 1.0, None), place=place)


def failed(sentence: str = "connection refused", place: str = "prod") -> Snapshot:
    """A poll that failed, after one at noon."""
    link = Connection(Failure("refused", sentence, "start it"), 1.0, 2.0)
    return Snapshot(NOON_MS, PLACE.server, PLACE.ns, (state(),), connection=link, place=place)


class ClockedWriter:
    """Writes polls, by a clock that the test sets."""

    def __init__(self, out: Path | str, state: Path, **settings: Any) -> None:
        self.now_s = 0.0
        self.writer = Writer(
            str(out), state, RecordingSettings(**settings), clock=lambda: self.now_s, wall_s=lambda: NOON_MS / 1000
        )
        self.polls = PollLog(self.writer.recorder, PLACE)
        self.writer.open()

    def poll(self, at_ms: int, queues: int = 2) -> None:
        """Write a poll of some queues, which reaches the disk."""
        states = tuple(state(f"q{number}", depth=number) for number in range(queues))
        poll = self.polls.begin(polled(*states, at_ms=at_ms), at_ms)
        self.writer.append(SAMPLES, poll, poll.at_ms)
        self.writer.sync()


def sealed_one_by_one(out: Path, polls: int = 6, *, at_ms: int = NOON_MS) -> None:
    """Write polls as one recorder, and an inventory of three messages at each, all as files of their own."""
    clocked = ClockedWriter(out, out.parent / "state")
    for number in range(polls):
        clocked.poll(at_ms + number * 5_000)
        known = {"at_ms": at_ms + number * 5_000, "inventory_ms": at_ms + number * 5_000}
        messages = [RawMessage(b"m%d" % (number + k), b"%d" % at_ms, None, None, 7, None) for k in range(3)]
        recorder = clocked.writer.recorder
        for rows in (
            message_rows(recorder, PLACE, "q0", messages, **known),
            inventory_end(recorder, PLACE, "q0", **known),
        ):
            clocked.writer.append(MESSAGES, rows, known["at_ms"])
        for table, day in list(clocked.writer._open):
            clocked.writer._end(table, day)
        clocked.writer._seal_waiting(inf)
    clocked.writer.close()


def read_by(history: History) -> tuple[list[Any], list[Any]]:
    """The polls and the rows of inventories that a history reads."""
    polls = [(poll.at_ms, poll.recorder, poll.rows.to_pylist()) for poll in history.polls()]
    tables = history.again(lambda: [history.columns(file.name, _SEEN, MESSAGES) for file in history.listed(MESSAGES)])
    rows = [row for table in tables if table is not None for row in table.to_pylist()]
    return polls, sorted(rows, key=lambda row: (row["recorder"], row["inventory_ms"], row["id"] or "~"))


def rows_of(out: Path, table: str = SAMPLES) -> list[dict[str, Any]]:
    """All rows, as pyarrow finds them in the folder, sorted by time and queue."""
    folder = out / table
    if not folder.exists():
        return []
    found = ds.dataset(folder, partitioning="hive").to_table()
    return sorted(found.to_pylist(), key=lambda row: (row["at_ms"], row["recorder"], row["queue"] or "￿"))


def left_over(out: Path) -> list[str]:
    """What is in the folder of segments, but for the gate."""
    folder = out / "_segments"
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path != folder / "lock")
