"""What people may ask for of list queues beyond what they ask of all queues, and how they name a target."""

from dataclasses import dataclass
from typing import NamedTuple

from rsmq_tui.protocol.lists.naming import LISTS_NS
from rsmq_tui.triage.actions import MessageAction, Purge, Send

LIST = "list:"
RSMQ = "rsmq:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Push(Send):
    """Send new items to a list queue; ``first`` puts them where they are taken next, the first of them first."""

    first: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Pop(MessageAction):
    """Take away the ``count`` items that consumers would take next; they go to the journal."""

    name = "pop"
    verb = "Pop"
    past = "popped"
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Requeue(MessageAction):
    """Put items that are in processing back into the queue, taken next or, with ``to_back``, last; leases go."""

    name = "requeue"
    verb = "Requeue"
    past = "requeued"
    to_back: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ack(MessageAction):
    """Remove items that are in processing, and their leases, as a consumer does who is done with them."""

    name = "ack"
    verb = "Ack"
    past = "acked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trim(MessageAction):
    """Keep ``keep`` items of a queue: the newest, or with ``keep_oldest`` those that would be taken next."""

    name = "trim"
    verb = "Trim"
    past = "trimmed"
    keep: int
    keep_oldest: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeList(Purge):
    """Remove every item of a list queue, and with ``processing`` those that are being worked on, and all leases."""

    processing: bool = False


class Target(NamedTuple):
    """Where items go: a list queue, or one of RSMQ where ``ns`` is set."""

    queue: str
    ns: str | None

    @property
    def text(self) -> str:
        """It as people write it, of whatever kind their own queue is."""
        return f"{LIST}{self.queue}" if self.ns is None else f"{RSMQ}{self.ns}/{self.queue}"


def target_of_list(text: str, ns: str) -> Target:
    """Read a target that is named from a list queue: a key, or ``rsmq:queue`` (of ``ns``), or ``rsmq:ns/queue``."""
    if not text.startswith(RSMQ):
        return Target(text.removeprefix(LIST), None)
    named, slash, queue = text.removeprefix(RSMQ).rpartition("/")
    return Target(queue, named if slash else ns)


def target_of_rsmq(text: str, ns: str) -> Target:
    """Read a target that is named from a queue of RSMQ: a queue, or ``list:key``."""
    if text.startswith(LIST):
        return Target(text.removeprefix(LIST), None)
    return Target(text, ns)


def reference(queue: str, ns: str) -> str:
    """Return a queue of a change as commands take it: the name of one of RSMQ, or ``list:key``."""
    return Target(queue, None).text if ns == LISTS_NS else queue


def target_reference(target: str | None, ns: str) -> str | None:
    """Return the target of a change of a queue of ``ns`` as commands take it, however it was written."""
    is_key = target is not None and ns == LISTS_NS and not target.startswith((LIST, RSMQ))
    return f"{LIST}{target}" if is_key else target
