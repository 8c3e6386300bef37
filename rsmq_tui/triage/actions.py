"""The actions, as values: delete, move, hide, purge and the others."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple, dataclass_transform

from rsmq_tui.monitor.audit.findings import Finding, FindingKind
from rsmq_tui.monitor.text import exact_seconds, plural
from rsmq_tui.protocol import kinds
from rsmq_tui.protocol.kinds import Reference, kind_of, read_reference


@dataclass_transform(frozen_default=True, kw_only_default=True)
@dataclass(frozen=True, kw_only=True)
class Action:
    """A change to one queue. Every subclass is a frozen dataclass, and its keywords set the class variables.

    ``verb`` and ``past`` name it for people, ``name`` in the journal, in the audit log and on the command line; the
    verb follows from the name if it is not given. With ``asks_for_name`` the user must type the queue's name to
    confirm. With ``takes_away`` messages are removed from the server, and their bodies go to the journal.
    """

    name: ClassVar[str]
    verb: ClassVar[str]
    done_word: ClassVar[str]
    asks_for_name: ClassVar[bool] = False
    takes_away: ClassVar[bool] = False
    queue: str

    def __init_subclass__(
        cls, name: str = "", verb: str = "", past: str = "", asks_for_name: bool = False, takes_away: bool = False
    ) -> None:
        words = {"name": name, "verb": verb or name.replace("-", " ").capitalize(), "done_word": past}
        for word, value in {**words, "asks_for_name": asks_for_name, "takes_away": takes_away}.items():
            # Keywords that are not given are inherited.
            if value:
                setattr(cls, word, value)
        dataclass(frozen=True, kw_only=True)(cls)

    @property
    def past(self) -> str:
        """The past form of the verb, for reports."""
        return self.done_word

    @property
    def removes(self) -> bool:
        """Whether it removes messages from the server."""
        return self.takes_away

    @property
    def to(self) -> str | None:
        """The queue that messages go to, if there is one for all."""
        return None

    def about(self, count: int) -> str:
        """Return what it applies to: that number of messages, or a queue."""
        return plural(count, "message")

    @property
    def details(self) -> tuple[tuple[str, str], ...]:
        """Further lines of the preview, as (label, text)."""
        return ()


class QueueAction(Action):
    """A change to a queue itself."""

    def about(self, count: int) -> str:
        """Name the queue."""
        return f"queue {self.queue}"


class MessageAction(Action):
    """A change to messages that are in the queue."""


class Delete(MessageAction, name="delete", past="deleted", takes_away=True):
    """Remove selected messages."""


class Purge(Delete, name="purge", asks_for_name=True):
    """Remove every message that a queue holds."""


class Hide(MessageAction, name="hide", past="hidden"):
    """Make messages invisible until ``seconds`` from now, whatever their state."""

    seconds: int

    @property
    def details(self) -> tuple[tuple[str, str], ...]:
        """The duration."""
        return (("for", f"{exact_seconds(self.seconds)} from now"),)


class ExtendLease(Hide, verb="Extend", past="extended"):
    """Give items in processing a lease that ends ``seconds`` from now; the list queues' form of hiding."""

    def about(self, count: int) -> str:
        """Return the number of leases."""
        return plural(count, "lease")


class Release(MessageAction, name="release", past="released"):
    """Make messages visible now."""


class ReleaseItems(Release, verb="Requeue", past="requeued"):
    """Put items in processing back into the queue, taken next; the list queues' form of releasing."""


class Move(MessageAction, name="move", past="moved"):
    """Move messages to ``target`` unchanged: body, rc, fr, due time and id, and so their sent time.

    An id that exists in the target is replaced by another one of the same time. ``create`` creates the target, with the
    attributes of the queue, if it does not exist.
    """

    target: str
    create: bool = False

    @property
    def to(self) -> str | None:
        """The target."""
        return self.target


class Copy(Move, name="copy", past="copied"):
    """Put copies into ``target``, visible at once and without receives; within one queue under new ids."""


class Redrive(MessageAction, name="redrive", past="redriven"):
    """Send dead letters back, visible now and without receives: to ``target``, or each to its source queue.

    The source is at ``origin``, a path into the JSON body, if that is set. Otherwise it is recorded in the journal, or
    follows from the name of the dead-letter queue.
    """

    target: str | None = None
    origin: str | None = None

    @property
    def to(self) -> str | None:
        """The target, if it is one for all."""
        return self.target


class Send(Action, name="send", past="sent"):
    """Send new messages, visible after ``delay_s`` seconds, or the queue's own delay."""

    bodies: tuple[bytes, ...]
    delay_s: int | None = None

    def about(self, count: int) -> str:
        """Return the number of messages."""
        return plural(len(self.bodies), "message")

    @property
    def details(self) -> tuple[tuple[str, str], ...]:
        """The delay."""
        return () if self.delay_s is None else (("after", f"{self.delay_s:,} s"),)


class CreateQueue(QueueAction, name="create", past="created"):
    """Create a queue; ``vt`` and ``delay`` are in seconds, ``maxsize`` in UTF-16 code units, -1 for no limit."""

    vt: int = 30
    delay: int = 0
    maxsize: int = 65536


class SetAttributes(QueueAction, name="set", verb="Change", past="changed"):
    """Change a queue's attributes; None leaves one unchanged."""

    vt: int | None = None
    delay: int | None = None
    maxsize: int | None = None


class DeleteQueue(MessageAction, name="delete-queue", past="deleted", takes_away=True, asks_for_name=True):
    """Remove a queue: its messages, everything else in its keys, and its name from the index."""

    def about(self, count: int) -> str:
        """Return the queue and the number of its messages; ``count`` includes the queue."""
        return f"{self.queue} and its {plural(count - 1, 'message')}"


class Fix(QueueAction, name="fix", past="fixed"):
    """Fix the findings of an audit in one queue; ``ns`` is the audited namespace, if it is known."""

    findings: tuple[Finding, ...]
    ns: str | None = None

    @property
    def kinds(self) -> frozenset[FindingKind]:
        """The kinds of findings to fix."""
        # Findings in list queues have no automatic fix.
        return frozenset(kind for finding in self.findings if isinstance(kind := finding.kind, FindingKind))


class Import(Action, name="import", past="imported"):
    """Put messages from an export back, each field as it was; messages whose ids exist in the queue are skipped."""

    path: Path


class Effect(NamedTuple):
    """What an undo does, as "put back" or "delete", its past, what it applies to; whether messages are removed."""

    does: str
    past: str
    what: str
    removes: bool = False


class Undo(Action, name="undo"):
    """Undo the change with that number in the journal.

    ``unsettled`` also changes messages that other clients may have taken or sent. ``target`` is the target of that
    change.
    """

    change: int
    summary: str
    unsettled: bool = False
    target: str | None = None
    effect: Effect = Effect("put back", "put back", "what the change did")

    @property
    def past(self) -> str:
        """What the undo does to messages or queues."""
        return self.effect.past

    @property
    def removes(self) -> bool:
        """Whether it removes messages: those that were sent, copied or imported, or put back by an undo."""
        return self.effect.removes

    def about(self, count: int) -> str:
        """Return what is undone."""
        return self.summary

    @property
    def details(self) -> tuple[tuple[str, str], ...]:
        """What it does."""
        return (("does", f"{self.effect.does} {self.effect.what}"),)


class Redo(Undo, name="redo"):
    """Undo an undo: the change that it had undone is made again."""

    @property
    def to(self) -> str | None:
        """The target of that change."""
        return self.target


class Push(Send):
    """Push new items to a list queue; with ``first`` they are taken next, in their order."""

    first: bool = False


class Pop(MessageAction, name="pop", past="popped", takes_away=True):
    """Remove the ``count`` items that consumers would take next; they go to the journal."""

    count: int = 1


class Requeue(MessageAction, name="requeue", past="requeued"):
    """Put items in processing back into the queue, taken next or, with ``to_back``, last; their leases are removed."""

    to_back: bool = False


class Ack(MessageAction, name="ack", past="acked", takes_away=True):
    """Remove items in processing and their leases, as a consumer does when it has finished."""


class Trim(MessageAction, name="trim", past="trimmed", takes_away=True):
    """Remove all but ``keep`` items of a queue: the newest stay, or with ``keep_oldest`` those that are taken next."""

    keep: int
    keep_oldest: bool = False


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
    return target_of_list(text, ns) if text.startswith(kinds.LIST.prefix) else Target(text, ns)


def reference(queue: str, ns: str) -> str:
    """Return a queue of a change in the syntax of commands: the name of an RSMQ queue, or ``list:key``."""
    return queue if kind_of(ns).has_namespaces else Reference(kind_of(ns), ns, queue).text


def target_reference(target: str | None, ns: str) -> str | None:
    """Return the target of a change in ``ns`` in the syntax of commands, whichever syntax it has."""
    return reference(target, ns) if target is not None and read_reference(target, ns) is None else target
