"""A change as the journal knows it: what was asked for, its batches, and how far it has come."""

from dataclasses import dataclass
from enum import StrEnum

from rsmq_tui.protocol.batches import Batch
from rsmq_tui.protocol.edits import Outcome, letters_of

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
