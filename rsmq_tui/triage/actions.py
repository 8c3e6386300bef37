"""The actions, as values: delete, move, hide, purge and the others."""

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

    ``verb`` and ``past`` name it for people, ``name`` in the journal, in the audit log and on the command line. With
    ``asks_for_name`` the user must type the queue's name to confirm.
    """

    name: ClassVar[str]
    verb: ClassVar[str]
    past: ClassVar[str]
    asks_for_name: ClassVar[bool] = False
    queue: str

    def about(self, count: int) -> str:
        """Return what it applies to: that number of messages, or a queue."""
        return plural(count, "message")

    @property
    def details(self) -> tuple[tuple[str, str], ...]:
        """Further lines of the preview, as (label, text)."""
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

    # Whether messages are removed from the server: their bodies go to the journal.
    takes_away: ClassVar[bool] = False

    @property
    def to(self) -> str | None:
        """The queue that messages go to, if there is one for all."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete(MessageAction):
    """Remove selected messages."""

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
    """Make messages invisible until ``seconds`` from now, whatever their state."""

    name = "hide"
    verb = "Hide"
    past = "hidden"
    seconds: int

    @property
    def details(self) -> tuple[tuple[str, str], ...]:
        """The duration."""
        return (("for", f"{self.seconds:,} s from now"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Release(MessageAction):
    """Make messages visible now."""

    name = "release"
    verb = "Release"
    past = "released"


@dataclass(frozen=True, slots=True, kw_only=True)
class Move(MessageAction):
    """Move messages to ``target`` unchanged: body, rc, fr, due time and id, and so their sent time.

    An id that exists in the target is replaced by another one of the same time. ``create`` creates the target, with the
    attributes of the queue, if it does not exist.
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
    """Put copies into ``target``, visible at once and without receives; within one queue under new ids."""

    name = "copy"
    verb = "Copy"
    past = "copied"


@dataclass(frozen=True, slots=True, kw_only=True)
class Redrive(MessageAction):
    """Send dead letters back, visible now and without receives: to ``target``, or each to its source queue.

    The source is at ``origin``, a path into the JSON body, if that is set. Otherwise it is recorded in the journal, or
    follows from the name of the dead-letter queue.
    """

    name = "redrive"
    verb = "Redrive"
    past = "redriven"
    target: str | None = None
    origin: str | None = None

    @property
    def to(self) -> str | None:
        """The target, if it is one for all."""
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
        """Return the number of messages."""
        return plural(len(self.bodies), "message")

    @property
    def details(self) -> tuple[tuple[str, str], ...]:
        """The delay."""
        return () if self.delay_s is None else (("after", f"{self.delay_s:,} s"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateQueue(QueueAction):
    """Create a queue; ``vt`` and ``delay`` are in seconds, ``maxsize`` in UTF-16 code units, -1 for no limit."""

    name = "create"
    verb = "Create"
    past = "created"
    vt: int = 30
    delay: int = 0
    maxsize: int = 65536


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAttributes(QueueAction):
    """Change a queue's attributes; None leaves one unchanged."""

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
        """Return the queue and the number of its messages; ``count`` includes the queue."""
        return f"{self.queue} and its {plural(count - 1, 'message')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fix(QueueAction):
    """Fix the findings of an audit in one queue; ``ns`` is the audited namespace, if it is known."""

    name = "fix"
    verb = "Fix"
    past = "fixed"
    findings: tuple[Finding, ...]
    ns: str | None = None

    @property
    def kinds(self) -> frozenset[FindingKind]:
        """The kinds of findings to fix."""
        # Findings in list queues have no automatic fix.
        return frozenset(kind for finding in self.findings if isinstance(kind := finding.kind, FindingKind))


@dataclass(frozen=True, slots=True, kw_only=True)
class Import(Action):
    """Put messages from an export back, each field as it was; messages whose ids exist in the queue are skipped."""

    name = "import"
    verb = "Import"
    past = "imported"
    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Undo(Action):
    """Undo the change with that number in the journal.

    ``unsettled`` also puts back messages that consumers may have taken.
    """

    name = "undo"
    verb = "Undo"
    past = "put back"
    change: int
    summary: str
    unsettled: bool = False

    def about(self, count: int) -> str:
        """Return what is undone."""
        return self.summary


LIST, RSMQ = kinds.LIST.prefix, kinds.RSMQ.prefix


@dataclass(frozen=True, slots=True, kw_only=True)
class Push(Send):
    """Push new items to a list queue; with ``first`` they are taken next, in their order."""

    first: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Pop(MessageAction):
    """Remove the ``count`` items that consumers would take next; they go to the journal."""

    name = "pop"
    verb = "Pop"
    past = "popped"
    takes_away = True
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Requeue(MessageAction):
    """Put items in processing back into the queue, taken next or, with ``to_back``, last; their leases are removed."""

    name = "requeue"
    verb = "Requeue"
    past = "requeued"
    to_back: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ack(MessageAction):
    """Remove items in processing and their leases, as a consumer does when it has finished."""

    name = "ack"
    verb = "Ack"
    past = "acked"
    takes_away = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Trim(MessageAction):
    """Remove all but ``keep`` items of a queue: the newest stay, or with ``keep_oldest`` those that are taken next."""

    name = "trim"
    verb = "Trim"
    past = "trimmed"
    takes_away = True
    keep: int
    keep_oldest: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeList(Purge):
    """Remove every item of a list queue; with ``processing`` also the items in processing and all leases."""

    processing: bool = False


class Target(NamedTuple):
    """Where items go: an RSMQ queue if ``ns`` is set, otherwise a list queue."""

    queue: str
    ns: str | None

    @property
    def text(self) -> str:
        """The full reference, with its kind."""
        return Reference(kinds.LIST if self.ns is None else kinds.RSMQ, self.ns or "", self.queue).text


def target_of_list(text: str, ns: str) -> Target:
    """Parse a target of a list queue: a key, or ``rsmq:queue`` (in ``ns``), or ``rsmq:ns/queue``."""
    found = read_reference(text, ns) or Reference(kinds.LIST, "", text)
    return Target(found.queue, None if found.kind is kinds.LIST else found.ns)


def target_of_rsmq(text: str, ns: str) -> Target:
    """Parse a target of an RSMQ queue: a queue, or ``list:key``."""
    return target_of_list(text, ns) if text.startswith(LIST) else Target(text, ns)


def reference(queue: str, ns: str) -> str:
    """Return a queue of a change in the syntax of commands: the name of an RSMQ queue, or ``list:key``."""
    return queue if kind_of(ns).has_namespaces else Reference(kind_of(ns), ns, queue).text


def target_reference(target: str | None, ns: str) -> str | None:
    """Return the target of a change in ``ns`` in the syntax of commands, whichever syntax it has."""
    return reference(target, ns) if target is not None and read_reference(target, ns) is None else target
