"""A change as the journal records it, and its report."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from rsmq_tui.monitor.changes import AuditedChange, queues_of, to_words
from rsmq_tui.protocol import RawMessage, name_of
from rsmq_tui.protocol.editing import Batch
from rsmq_tui.protocol.outcomes import Outcome, letters_of
from rsmq_tui.triage.actions import Undo, target_reference
from rsmq_tui.triage.scope import Named, Scope

# The outcome of a batch that was not carried out, and never will be.
NOT_CARRIED_OUT = ""
# The audit log has so many queues of a redrive, those with the most messages: a line is limited.
_MOVED_MAX = 100


class State(StrEnum):
    """The state of a change in the journal."""

    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"
    INTERRUPTED = "interrupted"
    UNDONE = "undone"
    DAMAGED = "damaged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change in the journal; ``undoes`` is the change that it undoes, and ``undone_target`` is the target of that.

    ``at_ms`` is server time, ``alive_ms`` the local time of the last heartbeat. ``touched`` is True if anything was
    changed on the server, even if only an empty target queue was created. ``audited`` is True if its current result is
    in the audit log, ``settled`` if an earlier result is there too. ``run_id`` is the server's run id then, None if the
    server did not report it. ``unsure`` is how many of ``done`` may be the work of another client. ``undone`` is how
    many of ``done`` are undone now, and ``redone`` how many were undone and then made again by redos. ``part`` is True
    for an undo of some messages. ``moved`` is for a redrive without a target, and for its undos: how many messages were
    moved so far, by the other queue.
    """

    change: int
    at_ms: int
    name: str
    past: str
    who: str
    host: str
    pid: int
    alive_ms: int
    profile: str
    server: str
    ns: str
    queue: str
    target: str | None
    what: str
    planned: int
    done: int
    skipped: int
    failed: int
    state: State
    undoes: int | None
    audited: bool
    touched: bool
    run_id: str | None = None
    unsure: int = 0
    settled: bool = False
    undone: int = 0
    part: bool = False
    redone: int = 0
    undone_target: str | None = None
    moved: Mapping[str, int] = field(default_factory=dict, hash=False)

    @property
    def can_be_undone(self) -> bool:
        """True if something was done and not undone yet."""
        return self.touched and self.state in (State.DONE, State.STOPPED, State.INTERRUPTED)

    @property
    def was_undone(self) -> int:
        """How many of ``done`` were undone, also if they were made again since: no undo of it changes these again."""
        return self.undone + self.redone

    @property
    def is_part_undone(self) -> bool:
        """True if some of what was done is undone, and some is not."""
        return self.state is not State.DAMAGED and 0 < self.undone < self.done

    @property
    def state_words(self) -> str:
        """Its state, for people."""
        if self.is_part_undone:
            return "part undone"
        return "made again" if self.state is State.UNDONE and self.redone and not self.undone else self.state

    @property
    def to(self) -> str:
        """Where its messages went, for people: the end of a phrase such as `` to dead``; empty if they stayed."""
        target = target_reference(self.target, self.ns)
        return to_words(target, self.moved if self.undoes is None else {})

    def queues_in(self, ns: str) -> list[str]:
        """Return those of its queues that are in that namespace, or of the kind whose ``ns`` that is.

        These are its queue and those that messages were moved to; of an undo, also those of what it undoes.
        """
        target = self.undone_target if self.target is None else self.target
        named = [each.queue for each in queues_of(self.ns, self.queue, target) if each.ns == ns]
        return [*named, *self.moved] if ns == self.ns else named

    def as_audited(self, ended: str, lasted_ms: int | None = None) -> AuditedChange:
        """Return it as the audit log has it; ``ended`` and ``lasted_ms`` are fields there."""
        return AuditedChange(
            at_ms=self.at_ms,
            action=self.name,
            who=self.who,
            host=self.host,
            profile=self.profile,
            server=self.server,
            ns=self.ns,
            queue=self.queue,
            target=self.target,
            filter=self.what,
            planned=self.planned,
            done=self.done,
            skipped=self.skipped,
            failed=self.failed,
            ended=ended,
            change=self.change,
            undoes=self.undoes,
            past=self.past,
            part=self.part,
            lasted_ms=lasted_ms,
            moved={queue: number for queue, number in Counter(self.moved).most_common(_MOVED_MAX) if number},
        )

    @property
    def doubt(self) -> str:
        """What is uncertain about it, as a clause; empty if nothing is."""
        were = "was" if self.unsure == 1 else "were"
        return f"it is not certain that {self.unsure:,} of {self.done:,} {were} {self.past}" if self.unsure else ""


class UndoChain(NamedTuple):
    """A change, the change that it undoes, the change which that undoes, and so on, while they are in the journal."""

    changes: tuple[Change, ...]

    @classmethod
    def of(cls, change: Change, find: Callable[[int], Change | None]) -> "UndoChain":
        """Return the chain of a change; ``find`` returns a change by its number."""
        changes = [change]
        while (undoes := changes[-1].undoes) is not None and (undone := find(undoes)) is not None:
            changes.append(undone)
        return cls(tuple(changes))

    @property
    def original(self) -> Change:
        """The last change of the chain, which is undone and made again by the others.

        It is an undo or a redo itself if what that undoes is no longer in the journal.
        """
        return self.changes[-1]

    @property
    def is_undo(self) -> bool:
        """True if the first change has undone another; its undo is a redo, which makes the original again."""
        return len(self.changes) % 2 == (1 if self.original.name == Undo.name else 0)


@dataclass(frozen=True, slots=True)
class Entry:
    """One batch of a change; ``outcome`` is None until it is known, and empty if the batch was never carried out.

    ``unsure`` is True if the outcome was inferred from the current state of the queue. ``undoes`` is the number of the
    batch that it undoes. ``counted`` is False for an auxiliary batch, which does not count in the report.
    ``renames`` is True if messages whose ids are taken are sent again in a later batch, under other ids.
    """

    number: int
    token: str
    batch: Batch
    outcome: str | None
    undoes: int | None
    counted: bool = True
    renames: bool = False
    unsure: bool = False

    @property
    def letters(self) -> str:
        """The letters of the outcome that count in the report."""
        if self.outcome is None or not self.counted:
            return ""
        letters = letters_of(self.outcome)
        return letters.replace(Outcome.TAKEN, "") if self.renames else letters


@dataclass(slots=True)
class Step:
    """A batch to carry out, and the messages that were excluded before: ``excluded`` has their outcome letters.

    ``changed`` are the ids of those that have changed since they were seen. ``skip_reason`` is why messages are
    skipped, if it is not what the letter implies. ``failed`` counts, by reason, messages that cannot be changed.
    ``counted`` is False for an auxiliary batch, which does not count in the report. ``renames`` is True if a message
    whose id is taken gets another one. ``alone`` means that all earlier batches are carried out first, and this one
    before the next is prepared. ``undoes`` is the number of the batch that it undoes, in the change that is being
    undone. ``on_outcome`` is called with the outcome. ``note`` is a sentence for the report.
    """

    batch: Batch | None = None
    excluded: str = ""
    changed: list[bytes] = field(default_factory=list)
    skip_reason: str = ""
    failed: Counter[str] = field(default_factory=Counter)
    counted: bool = True
    renames: bool = False
    alone: bool = False
    undoes: int | None = None
    on_outcome: Callable[[str], None] | None = None
    note: str = ""

    def exclude(self, message: RawMessage, letter: Outcome) -> None:
        """Exclude a message, with its outcome letter."""
        self.excluded += letter
        if letter is Outcome.CHANGED:
            self.changed.append(message.id)


# Why a guard skipped a message; other outcomes are failures.
_SKIPPED = {
    Outcome.GONE: "gone meanwhile",
    Outcome.CHANGED: "received or changed meanwhile",
    Outcome.UNMATCHED: "no longer matching",
}
# The prefix of reasons that apply to the queue, not to messages.
OF_QUEUE = "the queue was "
_FAILED = {Outcome.TAKEN: "its id is already in use there"}


@dataclass(slots=True)
class Tally:
    """Counts of messages (or of the one queue) that were done, skipped, and failed, by reason.

    ``queues`` of those that were done are queues, the others messages. ``unsure`` may be the work of another client.
    ``unknown`` counts further messages whose outcome is not known yet. ``changed`` are the ids of those that were
    skipped because they have changed since they were seen, None if they are not collected. ``notes`` are clauses about
    what else was done.
    """

    planned: int = 0
    done: int = 0
    queues: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    unsure: int = 0
    unknown: int = 0
    changed: list[bytes] | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def counts(self) -> dict[str, int]:
        """The counts that the journal stores."""
        skipped, failed = self.skipped.total(), self.failed.total()
        return {"done": self.done, "skipped": skipped, "failed": failed, "unsure": self.unsure}

    @property
    def done_words(self) -> str:
        """What was done: the number of messages, and the queue."""
        messages = f"{self.done - self.queues:,}"
        if not self.queues:
            return messages
        return f"{messages} and the queue" if self.done > self.queues else "the queue"

    @property
    def handled(self) -> int:
        """How many of ``planned`` are finished."""
        return self.done + self.skipped.total() + self.failed.total()

    def add_outcome(self, outcome: str, *, unsure: bool = False, skip_reason: str = "") -> None:
        """Count the letters of an outcome; ``skip_reason`` replaces the usual one.

        Missed items are not counted: they are searched for again, and counted then.
        """
        letters = letters_of(outcome)
        if unsure:
            self.unsure += letters.count(Outcome.DONE)
        for letter, count in Counter(letters).items():
            known = Outcome(letter)
            if known is Outcome.MISSED:
                continue
            if known is Outcome.DONE:
                self.done += count
            elif known in _SKIPPED:
                self.skipped[skip_reason or _SKIPPED[known]] += count
            else:
                self.failed[_FAILED[known]] += count


@dataclass(frozen=True, slots=True)
class ChangeReport:
    """The result of a change.

    ``change`` is its number in the journal, None if it is not there. ``stopped`` says why it ended early, None if it
    was completed.
    """

    name: str
    past: str
    queue: str
    tally: Tally
    change: int | None
    stopped: str | None = None

    @property
    def changed(self) -> tuple[str, ...]:
        """The ids of messages that were skipped because they were received or changed, if they were collected."""
        return tuple(map(name_of, self.tally.changed or ()))

    @property
    def retry(self) -> Scope | None:
        """A scope that selects ``changed`` in any state; None if there are none."""
        return Named(self.changed, even_if_received=True) if self.changed else None

    @property
    def undoable(self) -> bool:
        """True if something was done, or may have been."""
        return self.change is not None and self.tally.done + self.tally.unknown > 0

    @property
    def did_nothing(self) -> bool:
        """True if it is certain that nothing was done to any message or queue."""
        return not (self.tally.done or self.tally.unknown or self.tally.notes)

    @property
    def sentence(self) -> str:
        """One line: what was done, skipped and failed, and why."""
        tally = self.tally
        parts = [f"{self.past} {tally.done_words}"]
        parts.append(f"skipped {tally.skipped.total():,}{_reasons(tally.skipped)}")
        parts.append(f"failed {tally.failed.total():,}{_reasons(tally.failed)}")
        if tally.unsure:
            parts.append(f"uncertain {tally.unsure:,}")
        if tally.unknown:
            parts.append(f"{tally.unknown:,} unknown (checked at the next start)")
        return "; ".join([", ".join(parts), *tally.notes, *([self.stopped] if self.stopped else [])])


def _reasons(counts: Counter[str]) -> str:
    if not counts:
        return ""
    if len(counts) == 1:
        return f" ({next(iter(counts))})"
    parts = (reason if reason.startswith(OF_QUEUE) else f"{n:,} {reason}" for reason, n in counts.most_common(4))
    return f" ({', '.join(parts)})"
