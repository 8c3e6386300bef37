"""One message of an alert as an immutable value: its title and sentence for people, and its JSON."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from rsmq_tui.monitor.text import and_more, count, duration, plural, printable, printable_name
from rsmq_tui.profiles.alerts import TROUBLE
from rsmq_tui.protocol.kinds import Reference, kind_of

_SCHEMA = 1
# The maximum of names in the sentence, and of queues in the JSON.
_NAMED = 5
LISTED = 100
_NAME_MAX, _TEXT_MAX, _PART_MAX = 80, 500, 200
_PREFIX = "rsmq-tui: "


class AlertState(StrEnum):
    """Why a message is sent."""

    FIRING = "firing"
    REPEATED = "repeated"
    RESOLVED = "resolved"
    SUMMARY = "summary"
    TEST = "test"


_TITLES = {
    AlertState.FIRING: "{rule}",
    AlertState.REPEATED: "still: {rule}",
    AlertState.RESOLVED: "resolved: {rule}",
    AlertState.SUMMARY: "{rule} of {parts}",
    AlertState.TEST: "test: {rule}",
}


def gone_words(change: str) -> str:
    """Say why queues no longer exist; ``change`` is what happened to them or to their server, empty if unknown."""
    return f"gone ({change or 'deleted, or lost with the server'})"


@dataclass(frozen=True, slots=True)
class Affected:
    """A queue in a message: its name, verdict, depth, and one sentence about it, which may quote names."""

    queue: str
    verdict: str | None
    depth: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class AlertMessage:
    """A message about the queues of one rule in one namespace of a server, or about the server if it has none.

    ``at_ms`` is the local time. ``count`` queues are affected, of which ``queues`` are the first. ``lasts_ms`` is how
    long the condition has held, or held, that of a verdict since before the verdict; the longest of all queues.
    ``reason`` is a sentence about the server. A summary has ``parts`` instead, the oldest first.

    If the condition is over, ``is_gone`` is whether its queues no longer exist. ``change`` is what happened to them, or
    to their server, when it ended; empty for nothing.
    """

    rule: str
    state: AlertState
    when: str
    at_ms: int
    profile: str = ""
    server: str = ""
    ns: str = ""
    queues: tuple[Affected, ...] = ()
    count: int = 0
    lasts_ms: int | None = None
    reason: str = ""
    parts: tuple["AlertMessage", ...] = ()
    is_gone: bool = False
    change: str = ""

    @classmethod
    def summing_up(cls, parts: Sequence["AlertMessage"], at_ms: int) -> "AlertMessage":
        """Return one message in place of several that could not be sent before."""
        return cls("summary", AlertState.SUMMARY, "", at_ms, parts=tuple(parts))

    @property
    def title(self) -> str:
        """A title for people, which is printable."""
        rule = printable(self.rule, _NAME_MAX)
        if self.is_gone or self.change:
            gone = f"{plural(self.count, 'queue')} gone" if self.is_gone else ""
            return f"{_PREFIX}ended: {rule} ({': '.join(filter(None, (gone, self.change)))})"
        return f"{_PREFIX}{_TITLES[self.state].format(rule=rule, parts=plural(len(self.parts), 'message'))}"

    @property
    def text(self) -> str:
        """A sentence for people, which is printable."""
        if self.parts:
            # The last ones describe the current state.
            last = [f"{part.title.removeprefix(_PREFIX)}: {part.text}" for part in self.parts[-_NAMED:]]
            before = f"{count(len(self.parts) - _NAMED)} before; " if len(self.parts) > _NAMED else ""
            return before + "; ".join(printable(each, _PART_MAX) for each in last)
        where = " ".join(filter(None, (self.profile or self.server, self.ns)))
        return printable(": ".join(filter(None, (where, self._what()))), _TEXT_MAX)

    def _what(self) -> str:
        if not self.count:
            return self.reason
        is_over = self.state is AlertState.RESOLVED
        lasted = "" if self.lasts_ms is None else f", {'after' if is_over else 'for'} {duration(self.lasts_ms)}"
        # It may have been in other trouble before.
        of_one = lasted.replace(", for", ", in trouble for") if self.when == TROUBLE else lasted
        if self.change and not self.is_gone:
            # Whether that is the reason is not known: consumers may have emptied it.
            ended = f"ended{lasted.removeprefix(',')}; {self.change} meanwhile"
        else:
            ended = f"over{lasted}"
        if self.count == 1:
            affected = self.queues[0]
            # The reason of most verdicts says for how long.
            says_how_long = lasted and lasted.removeprefix(",") in affected.reason
            words = affected.reason if says_how_long else f"{affected.reason}{of_one}"
            return f"{printable_name(affected.queue, _NAME_MAX)}: {words if self.is_gone or not is_over else ended}"
        names = and_more(map(self._named, self.queues[:_NAMED]), self.count)
        if self.is_gone:
            what = f"{gone_words(self.change)}{lasted}"
        elif is_over:
            what = f"{self.when} {'' if self.change else 'is '}{ended}"
        else:
            what = f"{self.when}{lasted}"
        return f"{plural(self.count, 'queue')}: {what}: {names}"

    def _named(self, affected: Affected) -> str:
        name = printable_name(affected.queue, _NAME_MAX)
        has_verdict = self.when == TROUBLE and self.state is not AlertState.RESOLVED and affected.verdict
        return f"{name} ({affected.verdict})" if has_verdict else name

    def as_json(self) -> dict[str, Any]:
        """Return it as the documented JSON object; queues are named as commands name them."""
        kind = kind_of(self.ns)

        def named(queue: str) -> str:
            return queue if kind.has_namespaces else Reference(kind, self.ns, queue).text

        return {
            "schema": _SCHEMA,
            "alert": self.rule,
            "state": self.state.value,
            "when": self.when,
            "at_ms": self.at_ms,
            "profile": self.profile or None,
            "server": self.server or None,
            "ns": self.ns or None,
            "count": self.count,
            "queues": [
                {"queue": named(each.queue), "verdict": each.verdict, "depth": each.depth, "reason": each.reason}
                for each in self.queues
            ],
            "lasts_ms": self.lasts_ms,
            "title": self.title,
            "text": self.text,
            **({"messages": [part.as_json() for part in self.parts]} if self.parts else {}),
        }
