"""What a change came to: how far it is, and what is left to say at its end."""

from collections import Counter
from dataclasses import dataclass, field

from rsmq_tui.protocol.edits import Outcome

# Why a message was left alone. The first two are what compare-and-set is for; the others are failures.
_SKIPPED = {
    Outcome.GONE: "gone meanwhile",
    Outcome.CHANGED: "received or changed meanwhile",
}
_FAILED = {Outcome.TAKEN: "its id is already in use there"}


@dataclass(slots=True)
class Tally:
    """Counts of messages (or of the one queue) that were done, skipped, and failed, each with its reasons."""

    planned: int = 0
    done: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)

    @property
    def handled(self) -> int:
        """How many of the planned ones are behind us."""
        return self.done + self.skipped.total() + self.failed.total()

    def take(self, outcome: str) -> None:
        """Count the letters of an outcome."""
        for letter, count in Counter(outcome).items():
            known = Outcome(letter)
            if known is Outcome.DONE:
                self.done += count
            elif known in _SKIPPED:
                self.skipped[_SKIPPED[known]] += count
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
    def undoable(self) -> bool:
        """True when something was done."""
        return self.change is not None and self.tally.done > 0

    @property
    def sentence(self) -> str:
        """One line for people: what was done, skipped and failed, and why."""
        tally = self.tally
        parts = [f"{self.past} {tally.done:,}"]
        parts.append(f"skipped {tally.skipped.total():,}{_reasons(tally.skipped)}")
        parts.append(f"failed {tally.failed.total():,}{_reasons(tally.failed)}")
        told = ", ".join(parts)
        return f"{told}; {self.stopped}" if self.stopped else told


def _reasons(counts: Counter[str]) -> str:
    if not counts:
        return ""
    if len(counts) == 1:
        return f" ({next(iter(counts))})"
    return " (" + ", ".join(f"{count:,} {reason}" for reason, count in counts.most_common(4)) + ")"
