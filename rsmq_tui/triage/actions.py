"""The actions, as values: delete, move, hide, purge and the others."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple, dataclass_transform

from rsmq_tui.monitor.audit.findings import Finding, FindingKind
from rsmq_tui.monitor.text import exact_seconds, plural
from rsmq_tui.protocol import kinds
from rsmq_tui.protocol.kinds import Reference, kind_of, read_reference


class Inverse(NamedTuple):
    """What the undo of an action does to messages or queues, and its past."""

    does: str
    past: str


PUT_BACK = Inverse("put back", "put back")
REMOVE = Inverse("remove", "removed")
RESTORE = Inverse("restore", "restored")
MOVE_BACK = Inverse("move back", "moved back")

# Fields, and their options on the command line.
FieldOptions = tuple[tuple[str, str], ...]

_NAMED: dict[str, type["Action"]] = {}


@dataclass_transform(frozen_default=True, kw_only_default=True)
@dataclass(frozen=True, kw_only=True)
class Action:
    """A change to one queue. Every subclass is a frozen dataclass; its class variables hold for all its changes.

    ``name`` is its name in the journal, in the audit log and on the command line; keys and ``Kind.actions`` may have
    another, ``screen_name``. ``verb``, ``does``, ``doing`` and ``done_word`` name it for people, ``verb`` in titles and
    ``does`` in sentences. ``command`` is its command, and ``options`` are the options of its fields there. ``verb``,
    ``does`` and ``command`` follow from the name, unless they are given.

    ``is_scoped``: it applies to the messages of a scope. ``of_processing``: if messages have leases, it applies only
    to those in processing. ``takes_away``: messages are removed from the server, and their bodies go to the journal.
    ``moves_away``: messages go to another queue. ``counts_queue``: the queue counts as one more message.
    ``asks_for_name``: the user must type the queue's name to confirm. ``inverse`` is what its undo does.
    """

    name: ClassVar[str]
    screen_name: ClassVar[str]
    verb: ClassVar[str]
    does: ClassVar[str]
    doing: ClassVar[str]
    done_word: ClassVar[str]
    command: ClassVar[str]
    options: ClassVar[FieldOptions] = ()
    is_scoped: ClassVar[bool] = False
    of_processing: ClassVar[bool] = False
    takes_away: ClassVar[bool] = False
    moves_away: ClassVar[bool] = False
    counts_queue: ClassVar[bool] = False
    asks_for_name: ClassVar[bool] = False
    inverse: ClassVar[Inverse] = PUT_BACK
    queue: str

    def __init_subclass__(cls) -> None:
        own = vars(cls)
        if "name" in own:
            # These are not inherited from an action with another name.
            cls.verb = own.get("verb", cls.name.replace("-", " ").capitalize())
            cls.does = own.get("does", cls.name)
            cls.command = own.get("command", f"messages {cls.name}")
        _NAMED.update({own[key]: cls for key in ("name", "screen_name") if key in own})
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

    def title(self, count: int, unleased: int = 0) -> str:
        """Return the verb with what it applies to; ``unleased`` of its messages are in processing without a lease."""
        return f"{self.verb} {self.about(count)}"

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

    is_scoped = True


class Delete(MessageAction):
    """Remove selected messages."""

    name = "delete"
    doing = "deleting"
    done_word = "deleted"
    takes_away = True


class Purge(Delete):
    """Remove every message that a queue holds."""

    name = "purge"
    does = "delete"
    command = "queues purge"
    is_scoped = False
    asks_for_name = True


class Hide(MessageAction):
    """Make messages invisible until ``seconds`` from now, whatever their state."""

    name = "hide"
    doing = "hiding"
    done_word = "hidden"
    options = (("seconds", "--for"),)
    of_processing = True
    inverse = RESTORE

    seconds: int

    @property
    def details(self) -> tuple[tuple[str, str], ...]:
        """The duration."""
        return (("for", f"{exact_seconds(self.seconds)} from now"),)


class ExtendLease(Hide):
    """Give items in processing a lease that ends ``seconds`` from now; the list queues' form of hiding."""

    screen_name = "extend"
    verb = "Extend"
    doing = "extending"
    done_word = "extended"

    def about(self, count: int) -> str:
        """Return the number of leases."""
        return plural(count, "lease")

    def title(self, count: int, unleased: int = 0) -> str:
        """Say how many leases are extended, and how many are created, of items that have none."""
        if not unleased:
            return super().title(count)
        if unleased == count:
            return f"Create {self.about(count)}"
        return f"{super().title(count - unleased)} and create {unleased:,}"


class Release(MessageAction):
    """Make messages visible now."""

    name = "release"
    doing = "releasing"
    done_word = "released"
    of_processing = True
    inverse = RESTORE


class ReleaseItems(Release):
    """Put items in processing back into the queue, taken next; the list queues' form of releasing."""

    verb = "Requeue"
    doing = "putting back"
    done_word = "requeued"


class Move(MessageAction):
    """Move messages to ``target`` unchanged: body, rc, fr, due time and id, and so their sent time.

    An id that exists in the target is replaced by another one of the same time. ``create`` creates the target, with the
    attributes of the queue, if it does not exist.
    """

    name = "move"
    doing = "moving"
    done_word = "moved"
    options = (("target", "--to"), ("create", "--create"))
    moves_away = True
    inverse = MOVE_BACK

    target: str
    create: bool = False

    @property
    def to(self) -> str | None:
        """The target."""
        return self.target


class Copy(Move):
    """Put copies into ``target``, visible at once and without receives; within one queue under new ids."""

    name = "copy"
    doing = "copying"
    done_word = "copied"
    moves_away = False
    inverse = REMOVE


class Redrive(MessageAction):
    """Send dead letters back, visible now and without receives: to ``target``, or each to its source queue.

    The source is at ``origin``, a path into the JSON body, if that is set. Otherwise it is recorded in the journal, or
    follows from the name of the dead-letter queue.
    """

    name = "redrive"
    doing = "redriving"
    done_word = "redriven"
    options = (("target", "--to"), ("origin", "--origin"))
    moves_away = True
    inverse = MOVE_BACK

    target: str | None = None
    origin: str | None = None

    @property
    def to(self) -> str | None:
        """The target, if it is one for all."""
        return self.target


class Send(Action):
    """Send new messages, visible after ``delay_s`` seconds, or the queue's own delay."""

    name = "send"
    doing = "sending"
    done_word = "sent"
    options: ClassVar[FieldOptions] = (("delay_s", "--delay"),)
    inverse = REMOVE

    bodies: tuple[bytes, ...]
    delay_s: int | None = None

    def about(self, count: int) -> str:
        """Return the number of messages."""
        return plural(len(self.bodies), "message")

    @property
    def details(self) -> tuple[tuple[str, str], ...]:
        """The delay."""
        return () if self.delay_s is None else (("after", f"{self.delay_s:,} s"),)


class CreateQueue(QueueAction):
    """Create a queue; ``vt`` and ``delay`` are in seconds, ``maxsize`` in UTF-16 code units, -1 for no limit."""

    name = "create"
    doing = "creating"
    done_word = "created"
    command = "queues create"
    options = (("vt", "--vt"), ("delay", "--delay"), ("maxsize", "--maxsize"))
    inverse = REMOVE

    vt: int = 30
    delay: int = 0
    maxsize: int = 65536


class SetAttributes(QueueAction):
    """Change a queue's attributes; None leaves one unchanged."""

    name = "set"
    verb = "Change"
    does = "change"
    doing = "changing"
    done_word = "changed"
    command = "queues set"
    options = (("vt", "--vt"), ("delay", "--delay"), ("maxsize", "--maxsize"))
    inverse = RESTORE

    vt: int | None = None
    delay: int | None = None
    maxsize: int | None = None


class DeleteQueue(MessageAction):
    """Remove a queue: its messages, everything else in its keys, and its name from the index."""

    name = "delete-queue"
    does = "delete"
    doing = "deleting"
    done_word = "deleted"
    command = "queues delete"
    is_scoped = False
    takes_away = True
    counts_queue = True
    asks_for_name = True

    def about(self, count: int) -> str:
        """Return the queue and the number of its messages; ``count`` includes the queue."""
        return f"{self.queue} and its {plural(count - 1, 'message')}"


class Fix(QueueAction):
    """Fix the findings of an audit in one queue; ``ns`` is the audited namespace, if it is known."""

    name = "fix"
    doing = "fixing"
    done_word = "fixed"
    command = "audit --fix"
    inverse = RESTORE

    findings: tuple[Finding, ...]
    ns: str | None = None

    @property
    def kinds(self) -> frozenset[FindingKind]:
        """The kinds of findings to fix."""
        # Findings in list queues have no automatic fix.
        return frozenset(kind for finding in self.findings if isinstance(kind := finding.kind, FindingKind))


class Import(Action):
    """Put messages from an export back, each field as it was; messages whose ids exist in the queue are skipped."""

    name = "import"
    doing = "importing"
    done_word = "imported"
    inverse = REMOVE

    path: Path


class Effect(NamedTuple):
    """What an undo does, as "put back" or "delete", its past, what it applies to; whether messages are removed."""

    does: str
    past: str
    what: str
    removes: bool = False


class Part(NamedTuple):
    """Some of the messages of a change: the indexes of their edits in its batches, by the numbers of the batches."""

    edit_indexes: Mapping[int, Collection[int]]


class Undo(Action):
    """Undo the change with that number in the journal.

    ``unsettled`` also changes messages that other clients may have taken or sent. ``target`` is the target of that
    change. ``part`` are the messages to which the undo is limited, None if it is not. ``whole`` is how many messages
    the change has changed, None if all of them are undone. ``was_undone`` is how many were undone before.
    """

    name = "undo"
    doing = "undoing"
    command = "undo"
    options = (("unsettled", "--unsettled"),)
    inverse = Inverse("undo", "undone")

    change: int
    summary: str
    unsettled: bool = False
    target: str | None = None
    effect: Effect = Effect("put back", "put back", "what the change did")
    part: Part | None = None
    whole: int | None = None
    was_undone: int = 0

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


class Redo(Undo):
    """Undo an undo: the change that it had undone is made again."""

    name = "redo"
    doing = "redoing"
    command = "undo"

    @property
    def to(self) -> str | None:
        """The target of that change."""
        return self.target


class Push(Send):
    """Push new items to a list queue; with ``first`` they are taken next, in their order."""

    options = (("first", "--front"), *Send.options)

    first: bool = False


class Pop(MessageAction):
    """Remove the ``count`` items that consumers would take next; they go to the journal."""

    name = "pop"
    doing = "popping"
    done_word = "popped"
    options = (("count", "--count"),)
    is_scoped = False
    takes_away = True

    count: int = 1


class Requeue(MessageAction):
    """Put items in processing back into the queue, taken next or, with ``to_back``, last; their leases are removed."""

    name = "requeue"
    doing = "putting back"
    done_word = "requeued"
    options = (("to_back", "--back"),)
    of_processing = True
    inverse = MOVE_BACK

    to_back: bool = False


class Ack(MessageAction):
    """Remove items in processing and their leases, as a consumer does when it has finished."""

    name = "ack"
    doing = "acknowledging"
    done_word = "acked"
    of_processing = True
    takes_away = True


class Trim(MessageAction):
    """Remove all but ``keep`` items of a queue: the newest stay, or with ``keep_oldest`` those that are taken next."""

    name = "trim"
    doing = "trimming"
    done_word = "trimmed"
    options = (("keep", "--keep"), ("keep_oldest", "--oldest"))
    is_scoped = False
    takes_away = True

    keep: int
    keep_oldest: bool = False


class PurgeList(Purge):
    """Remove every item of a list queue; with ``processing`` also the items in processing and all leases."""

    options = (("processing", "--processing"),)

    processing: bool = False


class UnknownAction(MessageAction):
    """An action of a later version of this program; in doubt, it removes messages."""

    does = "change"
    takes_away = True


def action_named(name: str) -> type[Action]:
    """Return the action with that name in the journal or on a screen, or ``UnknownAction``."""
    return _NAMED.get(name, UnknownAction)


def action_that(past: str) -> type[Action]:
    """Return an action whose past form that is, with the same inverse as others of that past, or ``UnknownAction``."""
    return next((action for action in _NAMED.values() if getattr(action, "done_word", "") == past), UnknownAction)


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
