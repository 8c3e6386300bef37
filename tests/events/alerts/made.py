"""Messages made by hand."""

from typing import Any

from rsmq_tui.events.alerts.message import Affected, AlertMessage, AlertState
from tests.events.made import NOON_MS, SERVER


def message(number: int = 0, **values: Any) -> AlertMessage:
    """Return a message about the queue with that number."""
    affected = Affected(f"q{number}", "stalled", 3, "stalled: 3 messages ready")
    usual: dict[str, Any] = {
        "rule": "stalled", "state": AlertState.FIRING, "when": "stalled", "at_ms": NOON_MS, "profile": "prod",
        "server": SERVER, "ns": "rsmq", "queues": (affected,), "count": 1, "lasts_ms": 65_000,
    }  # fmt: skip
    return AlertMessage(**{**usual, **values})
