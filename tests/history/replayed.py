"""Histories written by hand, poll by poll, as recorders would have; and what a live poller said of the same polls."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rsmq_tui.history.names import Place
from rsmq_tui.history.reading import History
from rsmq_tui.history.replay.replay import Replay
from rsmq_tui.history.rows import SampleRows, inventory_end, message_rows
from rsmq_tui.history.schema import MESSAGES, SAMPLES, SCHEMA_FILE, describe
from rsmq_tui.history.store import day_of
from rsmq_tui.history.writer import write_sealed
from rsmq_tui.monitor import QueueState, Thresholds
from rsmq_tui.monitor.tracking.forecast import Limit, MemoryGrowth
from rsmq_tui.monitor.tracking.place_tracker import PlaceTracker
from rsmq_tui.protocol import RawMessage, Row, make_id
from rsmq_tui.protocol.server.status import ServerInfo
from tests.history.made import NOON_MS, PLACE, state
from tests.tui.scripted import row_of

STEP_MS = 5_000
_HEAD = (make_id((NOON_MS - 20_000) * 1000), NOON_MS - 20_000)


class Tape:
    """What one recorder writes of one place; a file is sealed after so many polls, or at midnight."""

    def __init__(
        self,
        out: Path,
        recorder: str = "a" * 12,
        place: Place = PLACE,
        *,
        polls_a_file: int = 50,
        first: int = 1,
        thresholds: Thresholds | None = None,
    ) -> None:
        out.mkdir(parents=True, exist_ok=True)
        (out / SCHEMA_FILE).write_text(describe())
        self.out = out
        self.recorder = recorder
        self.place = place
        self.files: list[Path] = []
        self._rows = SampleRows(recorder, place, thresholds)
        self._polls_a_file = polls_a_file
        self._number = first
        self._open: list[tuple[str, pa.RecordBatch]] = []
        self._last_ms: int | None = None

    def poll(
        self, at_ms: int, *queues: QueueState, info: ServerInfo | None = None, memory_limit: Limit | None = None
    ) -> None:
        """Write a poll."""
        interval_ms = None if self._last_ms is None else at_ms - self._last_ms
        self._last_ms = at_ms
        self._keep(at_ms, self._rows.polled(queues, at_ms, interval_ms, info, memory_limit))

    def fail(self, at_ms: int, sentence: str = "connection refused") -> None:
        """Write a poll that failed."""
        self._last_ms = None
        self._keep(at_ms, self._rows.failed(sentence, at_ms))

    def inventory(self, at_ms: int, queue: str, messages: list[RawMessage], *, is_whole: bool = True) -> None:
        """Write an inventory, to a file of its own."""
        known: dict[str, Any] = {"at_ms": at_ms, "inventory_ms": at_ms}
        rows = [message_rows(self.recorder, self.place, queue, messages, **known)]
        if is_whole:
            rows.append(inventory_end(self.recorder, self.place, queue, **known))
        self._write(MESSAGES, day_of(at_ms), rows)

    def seal(self) -> None:
        """Let what was written be read."""
        if self._open:
            day, rows = self._open[0][0], [batch for _, batch in self._open]
            self._open = []
            self.files.append(self._write(SAMPLES, day, rows))

    def _keep(self, at_ms: int, rows: pa.RecordBatch) -> None:
        day = day_of(at_ms)
        if len(self._open) >= self._polls_a_file or (self._open and self._open[0][0] != day):
            self.seal()
        self._open.append((day, rows))

    def _write(self, table: str, day: str, rows: list[pa.RecordBatch]) -> Path:
        path = self.out / table / f"day={day}" / f"{self.recorder}-{self._number:06d}.parquet"
        self._number += 1
        path.parent.mkdir(parents=True, exist_ok=True)
        write_sealed(pa.Table.from_batches(rows), path)
        return path


@dataclass
class Live:
    """Polls queues as a live poller does, and records what it finds."""

    tape: Tape
    tracker: PlaceTracker = field(default_factory=lambda: PlaceTracker(Thresholds(), ""))
    states: dict[int, tuple[QueueState, ...]] = field(default_factory=dict)
    is_down: bool = False
    growth: MemoryGrowth = field(default_factory=MemoryGrowth)

    def poll(self, at_ms: int, rows: dict[str, Row], info: ServerInfo | None = None) -> None:
        """Poll once; ``info`` is what INFO says if it is read."""
        if info is not None:
            self.growth.add(info)
        if self.is_down:
            self.tracker.resume(at_ms)
            self.is_down = False
        self.tracker.begin(at_ms, list(rows), self.growth.limit)
        self.tracker.add_rows(range(len(rows)), rows.values())
        queues, _ = self.tracker.finish()
        self.states[at_ms] = queues
        self.tape.poll(at_ms, *queues, info=info, memory_limit=self.growth.limit)

    def fail(self, at_ms: int, sentence: str = "connection refused") -> None:
        """Fail to poll."""
        self.is_down = True
        self.tape.fail(at_ms, sentence)


def without(tape: Tape, *columns: str) -> None:
    """Make of a tape's files those of a version that did not have these columns."""
    for path in tape.files:
        metadata = pq.read_metadata(path).metadata
        older = pq.ParquetFile(path).read().drop_columns(list(columns))
        pq.write_table(older.replace_schema_metadata(metadata), path)


def queue_row(depth: int, sent: int, received: int, hidden: int = 0) -> Row:
    """A queue with that many messages."""
    return row_of(depth=depth, hidden=hidden, sent=sent, received=received, head=_HEAD)


def said(verdict: str, name: str = "orders", **fields: Any) -> QueueState:
    """A queue of that verdict."""
    return state(name, verdict=verdict, **{"place": "", **fields})


def replay_of(out: Path, **options: Any) -> Replay:
    """A replay of a history."""
    return Replay(History(out, state=out), **options)


__all__ = ["NOON_MS", "PLACE", "STEP_MS", "Live", "Tape", "queue_row", "replay_of", "said", "without"]
