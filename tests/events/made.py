"""Snapshots and events made by hand."""

from typing import Any

from rsmq_tui.events.model import Event, EventKind, Severity
from rsmq_tui.monitor import Connection, Drain, QueueState, Snapshot, Verdict
from rsmq_tui.protocol import Failure

NOON_MS = 1_795_000_000_000
SERVER = "redis://shop:6379/0"


def state(name: str, verdict: Verdict = Verdict.OK, **values: Any) -> QueueState:
    """A queue of these values, otherwise empty and quiet."""
    usual: dict[str, Any] = dict.fromkeys(
        QueueState._fields[: len(QueueState._fields) - len(QueueState._field_defaults)]
    )
    usual |= {"kind": "rsmq", "depth": 0, "ready": 0, "hidden": 0, "vt_s": 30, "delay_s": 0, "maxsize": 65536,
              "created_ms": 1, "poison": 0, "highest_rc": 0, "drain": Drain.EMPTY, "problems": ()}  # fmt: skip
    return QueueState(**{**usual, "name": name, "verdict": verdict, **values})


def polled(
    *queues: QueueState, s: float = 0, failure: Failure | None = None, ns: str = "rsmq", **values: Any
) -> Snapshot:
    """The snapshot of a poll so many seconds after noon."""
    link = Connection(failure, fresh_at_s=1.0)
    at_ms = NOON_MS + round(s * 1000)
    return Snapshot(at_ms, SERVER, ns, tuple(sorted(queues, key=lambda queue: queue.name)), connection=link, **values)


def event(number: int = 0, queue: str | None = "orders", **values: Any) -> Event:
    """An event so many seconds after noon."""
    at_ms = values.pop("at_ms", NOON_MS + number * 1000)
    usual: dict[str, Any] = {
        "ns": "rsmq", "kind": EventKind.VERDICT, "severity": Severity.ERROR, "text": f"stalled: number {number}",
        "same": "stalled", "begin_ms": at_ms,
    }  # fmt: skip
    return Event(**{**usual, "at_ms": at_ms, "server": SERVER, "queue": queue, **values})
