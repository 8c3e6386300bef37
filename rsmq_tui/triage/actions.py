"""The actions that people can ask for, as values: delete, move, hide, purge and the others."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

from rsmq_tui.monitor.audit.findings import Finding, FindingKind
from rsmq_tui.monitor.text import plural
from rsmq_tui.protocol import kinds
from rsmq_tui.protocol.kinds import Reference, kind_of, read_reference


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """A change to one queue.

    ``verb`` and ``past`` name it to people, ``name`` in the journal, in the audit log and on the command line.
    ``asks_for_name`` is set for what wants the queue's name typed.
    """

    name: ClassVar[str]
    verb: ClassVar[str]
    past: ClassVar[str]
    asks_for_name: ClassVar[bool] = False
    queue: str

    def about(self, count: int) -> str:
        """Say what it is done to: that number of messages, or a queue."""
        return plural(count, "message")

    @property
    def details(self) -> tuple[tuple[str, str], ...]:
        """What people should know of how it is done, as (label, words)."""
        return ()


class QueueAction(Action):
    """A change to a queue itself."""

    __slots__ = ()

    def about(self, count: int) -> str:
        """Name the queue."""
        return f"queue {self.queue}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageAction(Action):
    """A change to messages that are in the queue."""

    # Whether messages are nowhere afterwards: their bodies go to the journal.
    takes_away: ClassVar[bool] = False

    @property
    def to(self) -> str | None:
        """The queue that messages go to, where there is one and it is known."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete(MessageAction):
    """Remove messages."""

    name = "delete"
    verb = "Delete"
    past = "deleted"
    takes_away = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Purge(Delete):
    """Remove every message that a queue holds."""

    name = "purge"
    verb = "Purge"
    past = "deleted"
    asks_for_name = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Hide(MessageAction):
    """Make messages invisible until ``seconds`` from now, whatever they were before."""

    name = "hide"
    verb = "Hide"
    past = "hidden"
    seconds: int

    @property
    def details(self) -> tuple[tuple[str, str], ...]:
        """For how long."""
        return (("for", f"{self.seconds:,} s from now"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Release(MessageAction):
    """Make messages visible now."""

    name = "release"
    verb = "Release"
    past = "released"


@dataclass(frozen=True, slots=True, kw_only=True)
class Move(MessageAction):
    """Move messages to ``target`` as they are: body, rc, fr, id and so their sent time, and when they become visible.

    An id that the target already knows is replaced by one of the same time. ``create`` makes the target, with the
    attributes of the queue, where it does not exist.
    """

    name = "move"
    verb = "Move"
    past = "moved"
    target: str
    create: bool = False

    @property
    def to(self) -> str | None:
        """The target."""
        return self.target


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy(Move):
    """Put copies into ``target`` that were never received and are visible at once; within one queue under new ids."""

    name = "copy"
    verb = "Copy"
    past = "copied"


@dataclass(frozen=True, slots=True, kw_only=True)
class Redrive(MessageAction):
    """Send dead letters back, visible now and as if never received: to ``target``, or to where each came from.

    Where a message came from is told by ``origin``, a path into its JSON body, or else by the queue's own name.
    """

    name = "redrive"
    verb = "Redrive"
    past = "redriven"
    target: str | None = None
    origin: str | None = None

    @property
    def to(self) -> str | None:
        """The target, where it is one for all."""
        return self.target


@dataclass(frozen=True, slots=True, kw_only=True)
class Send(Action):
    """Send new messages, visible after ``delay_s`` seconds, or the queue's own delay."""

    name = "send"
    verb = "Send"
    past = "sent"
    bodies: tuple[bytes, ...]
    delay_s: int | None = None

    def about(self, count: int) -> str:
        """Count what is sent."""
        return plural(len(self.bodies), "message")

    @property
    def details(self) -> tuple[tuple[str, str], ...]:
        """After how long."""
        return () if self.delay_s is None else (("after", f"{self.delay_s:,} s"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateQueue(QueueAction):
    """Make a queue; ``vt`` and ``delay`` are in seconds, ``maxsize`` in characters, -1 for no limit."""

    name = "create"
    verb = "Create"
    past = "created"
    vt: int = 30
    delay: int = 0
    maxsize: int = 65536


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAttributes(QueueAction):
    """Change a queue's attributes; what is None stays."""

    name = "set"
    verb = "Change"
    past = "changed"
    vt: int | None = None
    delay: int | None = None
    maxsize: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteQueue(MessageAction):
    """Remove a queue: its messages, everything else in its keys, and its name from the index."""

    name = "delete-queue"
    verb = "Delete queue"
    past = "deleted"
    asks_for_name = True
    takes_away = True

    def about(self, count: int) -> str:
        """Name the queue, and count its messages; the queue is one of ``count``."""
        return f"{self.queue} and its {plural(count - 1, 'message')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fix(QueueAction):
    """Mend what an audit found in a queue; of ``ns``, where that is known, and of no other namespace."""

    name = "fix"
    verb = "Fix"
    past = "fixed"
    findings: tuple[Finding, ...]
    ns: str | None = None

    @property
    def kinds(self) -> frozenset[FindingKind]:
        """What is to be mended."""
        # Nothing of a list queue is mended by a fix.
        return frozenset(kind for finding in self.findings if isinstance(kind := finding.kind, FindingKind))


@dataclass(frozen=True, slots=True, kw_only=True)
class Import(Action):
    """Put messages from an export back, each field as it was; an id that the queue already knows is left alone."""

    name = "import"
    verb = "Import"
    past = "imported"
    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Undo(Action):
    """Take back what the change of that number in the journal did.

    ``unsettled`` says that messages which consumers may have taken come back too.
    """

    name = "undo"
    verb = "Undo"
    past = "put back"
    change: int
    summary: str
    unsettled: bool = False

    def about(self, count: int) -> str:
        """Say what is taken back."""
        return self.summary


LIST, RSMQ = kinds.LIST.prefix, kinds.RSMQ.prefix


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
    takes_away = True
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
    takes_away = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Trim(MessageAction):
    """Keep ``keep`` items of a queue: the newest, or with ``keep_oldest`` those that would be taken next."""

    name = "trim"
    verb = "Trim"
    past = "trimmed"
    takes_away = True
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
        return Reference(kinds.LIST if self.ns is None else kinds.RSMQ, self.ns or "", self.queue).text


def target_of_list(text: str, ns: str) -> Target:
    """Read a target that is named from a list queue: a key, or ``rsmq:queue`` (of ``ns``), or ``rsmq:ns/queue``."""
    found = read_reference(text, ns) or Reference(kinds.LIST, "", text)
    return Target(found.queue, None if found.kind is kinds.LIST else found.ns)


def target_of_rsmq(text: str, ns: str) -> Target:
    """Read a target that is named from a queue of RSMQ: a queue, or ``list:key``."""
    return target_of_list(text, ns) if text.startswith(LIST) else Target(text, ns)


def reference(queue: str, ns: str) -> str:
    """Return a queue of a change as commands take it: the name of one of RSMQ, or ``list:key``."""
    return queue if kind_of(ns).has_namespaces else Reference(kind_of(ns), ns, queue).text


def target_reference(target: str | None, ns: str) -> str | None:
    """Return the target of a change of a queue of ``ns`` as commands take it, however it was written."""
    return reference(target, ns) if target is not None and read_reference(target, ns) is None else target
