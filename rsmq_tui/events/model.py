"""One event as an immutable value, and its forms: JSON, and words to filter by."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from rsmq_tui.monitor import Verdict
from rsmq_tui.monitor.text import passes
from rsmq_tui.protocol.kinds import Reference, kind_of


class Severity(StrEnum):
    """How bad an event is, worst first."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class EventKind(StrEnum):
    """What happened."""

    VERDICT = "verdict"
    FLAPPING = "flapping"
    CREATED = "created"
    DELETED = "deleted"
    EMPTIED = "emptied"
    SHRUNK = "shrunk"
    ATTRIBUTES = "attributes"
    LOST = "lost"
    BACK = "back"
    RESTARTED = "restarted"
    FAILOVER = "failover"
    ROLE = "role"
    EVICTED = "evicted"
    CONFIG = "config"
    MAINTENANCE = "maintenance"
    KNOWN = "known"
    CHANGE = "change"


class ReportedVerdict(NamedTuple):
    """The last verdict of a queue in the log, and its time there."""

    verdict: Verdict
    at_ms: int


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened at ``at_ms``, by the server's clock.

    ``queue`` is None if it is about the server, or about many queues. ``text`` is one sentence, which may quote names:
    it is not printable as it is. ``details`` is an object for JSON.

    ``run_id`` is the server's run id, empty if it is not known. Two dashboards that see the same event give it the same
    ``same``, and nearly the same ``begin_ms``, when it began. If a dashboard was paused, it may have begun at any time
    since ``after_ms``, the previous poll, which is not stored.
    """

    at_ms: int
    server: str
    ns: str
    queue: str | None
    kind: EventKind
    severity: Severity
    text: str
    details: Mapping[str, Any] = field(default_factory=dict)
    same: str = ""
    begin_ms: int = 0
    run_id: str = ""
    after_ms: int | None = field(default=None, compare=False)

    def as_json(self) -> dict[str, Any]:
        """Return it as the documented JSON object; a queue is named as commands name it."""
        kind = kind_of(self.ns)
        is_plain = self.queue is None or kind.has_namespaces
        return {
            "at_ms": self.at_ms,
            "server": self.server,
            "ns": self.ns,
            "queue": self.queue if is_plain else Reference(kind, self.ns, self.queue or "").text,
            "kind": self.kind.value,
            "severity": self.severity.value,
            "text": self.text,
            "details": dict(self.details),
        }

    def matches(self, typed: str) -> bool:
        """Return whether each word is in the queue, server or text, or starts the kind or severity; ! negates one."""
        return passes(typed, self._holds)

    def _holds(self, word: str) -> bool:
        texts = (self.queue or "", self.server, self.text)
        return (
            any(word in text.lower() for text in texts) or self.kind.startswith(word) or self.severity.startswith(word)
        )
