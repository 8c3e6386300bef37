"""Rules, and the polls of a place that they are applied to."""

from typing import Any

from rsmq_tui.events.alerts.following import EVERY_MS, GROUP_MS
from rsmq_tui.events.alerts.message import AlertMessage
from rsmq_tui.events.alerts.rules import AlertRules
from rsmq_tui.monitor import QueueState, Thresholds, Verdict
from rsmq_tui.profiles.alerts import Rule, read_condition
from rsmq_tui.protocol import Failure
from tests.events.made import NOON_MS, polled, state

GROUP_S, EVERY_S = GROUP_MS // 1000, EVERY_MS // 1000
GONE = Failure("refused", "connection refused", "start it")


def rule(when: str = "stalled", **values: Any) -> Rule:
    return Rule(**{"name": when, "when": read_condition(when), "channels": ("bell",), **values})


class Watched:
    """Rules, and the polls of one place second by second."""

    def __init__(self, *rules: Rule, s: int = 0, **values: Any) -> None:
        self.rules = AlertRules(rules, **values)
        self.s = s
        self.sent: list[AlertMessage] = []
        self.news: list[AlertMessage | None] = []
        self.silenced: set[str] = set()
        self.wall_s = 1_000_000.0

    def poll(
        self, *queues: QueueState, s: int = 1, failure: Failure | None = None, profile: str = "", **values: Any
    ) -> list[AlertMessage]:
        """Poll once a second for so long, and return the messages."""
        found: list[AlertMessage] = []
        for _ in range(s):
            snapshot = polled(*queues, s=self.s, failure=failure, **values)
            notices = self.rules.apply(
                snapshot, Thresholds(), profile=profile, now_ms=self.s * 1000, wall_s=self.wall_s + self.s,
                silenced=self.silenced,
            )  # fmt: skip
            found += [notice.message for notice in notices]
            self.news += [notice.news for notice in notices]
            self.s += 1
        self.sent += found
        return found


def stalled(name: str = "orders", **values: Any) -> QueueState:
    return state(name, Verdict.STALLED, depth=12, ready=12, since_ms=NOON_MS, idle_since_ms=NOON_MS, **values)


def said(messages: list[AlertMessage]) -> list[tuple[str, int]]:
    return [(message.state.value, message.count) for message in messages]
