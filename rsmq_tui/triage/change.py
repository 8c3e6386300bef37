"""A change as the journal records it, and its report."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from rsmq_tui.protocol import RawMessage, name_of
from rsmq_tui.protocol.editing import Batch
from rsmq_tui.protocol.rsmq.edits import Outcome, letters_of
from rsmq_tui.triage.scope import Named, Scope

# The outcome of a batch that the server never carried out, and never will.
NOT_CARRIED_OUT = ""


class State(StrEnum):
    """How far a change has come."""

    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"
    INTERRUPTED = "interrupted"
    UNDONE = "undone"
    DAMAGED = "damaged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change as the journal knows it; times in ms of the server, ``undoes`` is the change that it takes back.

    ``touched`` says whether anything was done on the server, be it only a queue that was made for messages that did not
    come; ``audited`` whether its line is in the audit log, ``settled`` whether that is not the last of it.
    ``run_id`` is what the server called itself then, None where it did not tell; ``unsure`` how many of ``done`` may
    not be its work.
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

    @property
    def can_be_undone(self) -> bool:
        """True when something was done that was not taken back."""
        return self.touched and self.state in (State.DONE, State.STOPPED, State.INTERRUPTED)

    @property
    def doubt(self) -> str:
        """What is not certain of it, in a sentence without an end, or empty."""
        told = f"it is not certain that {self.unsure:,} of {self.done:,} were {self.past}"
        return told if self.unsure else ""


@dataclass(frozen=True, slots=True)
class Entry:
    """One batch of a change; ``outcome`` is None until it is known, and empty when it was never carried out.

    ``unsure`` says that only what is there now told the outcome. ``undoes`` is the number of the batch that it takes
    back. ``counted`` says whether it is what people asked for, or
    only serves it; ``renames`` that what finds its id taken comes again in a later batch.
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
        """What people are told of its outcome."""
        if self.outcome is None or not self.counted:
            return ""
        letters = letters_of(self.outcome)
        return letters.replace(Outcome.TAKEN, "") if self.renames else letters


@dataclass(slots=True)
class Step:
    """A batch to carry out, and the messages that were sorted out before: the letters of those that may not change.

    ``changed`` are the ids of those of them that are not what was seen.
    ``left`` says why those of them, or of the batch, are left alone, where it is not for what became of messages;
    ``failed`` counts by reason those that cannot be done at all. ``counted`` says whether the batch is what people
    asked for, or only serves it; ``renames`` that a message whose id is taken gets another one. ``alone`` asks for
    everything before it to be carried out first, and for it itself before the next is prepared. ``undoes`` is the
    number of the batch that it takes back, in the change that is being undone. ``heard`` is told the outcome. ``note``
    is a sentence for the report.
    """

    batch: Batch | None = None
    sorted_out: str = ""
    changed: list[bytes] = field(default_factory=list)
    left: str = ""
    failed: Counter[str] = field(default_factory=Counter)
    counted: bool = True
    renames: bool = False
    alone: bool = False
    undoes: int | None = None
    heard: Callable[[str], None] | None = None
    note: str = ""

    def sort_out(self, message: RawMessage, letter: Outcome) -> None:
        """Leave a message alone."""
        self.sorted_out += letter
        if letter is Outcome.CHANGED:
            self.changed.append(message.id)


# Why a message was left alone, which is what guards are for; the others are failures.
_SKIPPED = {
    Outcome.GONE: "gone meanwhile",
    Outcome.CHANGED: "received or changed meanwhile",
    Outcome.UNMATCHED: "no longer matching",
}
# What is said of a queue, and not of messages, begins so.
OF_QUEUE = "the queue was "
_FAILED = {Outcome.TAKEN: "its id is already in use there"}


@dataclass(slots=True)
class Tally:
    """Counts of messages (or of the one queue) that were done, skipped, and failed, each with its reasons.

    ``unsure`` of those that were done may be somebody else's work; of ``unknown`` more nobody knows yet. ``changed``
    are the ids of those that were skipped because they were not what was seen; None where nobody asks. ``notes`` are
    sentences, without an end, about what else was done.
    """

    planned: int = 0
    done: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    unsure: int = 0
    unknown: int = 0
    changed: list[bytes] | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def counts(self) -> dict[str, int]:
        """What the journal keeps of it."""
        skipped, failed = self.skipped.total(), self.failed.total()
        return {"done": self.done, "skipped": skipped, "failed": failed, "unsure": self.unsure}

    @property
    def handled(self) -> int:
        """How many of the planned ones are behind us."""
        return self.done + self.skipped.total() + self.failed.total()

    def take(self, outcome: str, *, unsure: bool = False, left: str = "") -> None:
        """Count the letters of an outcome; ``left`` is why something was left alone, where that is known.

        What was missed is not counted: it is looked for again, and counted then.
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
                self.skipped[left or _SKIPPED[known]] += count
            else:
                self.failed[_FAILED[known]] += count


@dataclass(frozen=True, slots=True)
class Report:
    """The end of a change.

    ``change`` is its number in the journal (None where nothing was begun); ``stopped`` says in a sentence why it did
    not go on to the end, None when it did; ``undoable`` tells whether there is anything to undo.
    """

    name: str
    past: str
    queue: str
    tally: Tally
    change: int | None
    stopped: str | None = None

    @property
    def changed(self) -> tuple[str, ...]:
        """The ids of those that were skipped because they were received or changed, where that was asked for."""
        return tuple(map(name_of, self.tally.changed or ()))

    @property
    def retry(self) -> Scope | None:
        """The scope of these, whatever they are by now; None where there is none."""
        return Named(self.changed, even_if_received=True) if self.changed else None

    @property
    def undoable(self) -> bool:
        """True when something was done, or may have been."""
        return self.change is not None and self.tally.done + self.tally.unknown > 0

    @property
    def sentence(self) -> str:
        """One line for people: what was done, skipped and failed, and why."""
        tally = self.tally
        parts = [f"{self.past} {tally.done:,}"]
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
    told = (reason if reason.startswith(OF_QUEUE) else f"{n:,} {reason}" for reason, n in counts.most_common(4))
    return f" ({', '.join(told)})"
