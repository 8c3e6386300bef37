"""What must still be true of a message when it is changed; where it is not, the message is left alone.

What was marked or named is changed while nobody has received or changed it since. What a filter counted is changed
while it is in the queue, the same message by its id, and matches the filter still: a message that is received while
people read the preview stays poison. What can change (state, rc, due) the server compares as it makes the change; a
body, its size and its id never change, and ages are compared when the batch is prepared.
"""

from dataclasses import dataclass

from rsmq_tui.monitor.filters import Filter
from rsmq_tui.monitor.matching import Predicate, Term, predicate_of
from rsmq_tui.protocol import RawMessage
from rsmq_tui.protocol.edits import Comparison, Condition, Outcome

_CHANGING = ("state", "rc", "due")
_READY, _HIDDEN = Comparison("due", "<=", 0), Comparison("due", ">", 0)


@dataclass(frozen=True, slots=True)
class Guard:
    """Tells whether a message may still be changed.

    ``conditions`` are those that the server compares; None where a message must be as it was seen. ``ages`` tells
    whether the terms on age hold, None where there are none. ``sentence`` says it to people.
    """

    sentence: str
    conditions: tuple[Condition, ...] | None = None
    ages: Predicate | None = None
    _matches: Predicate | None = None

    def letter(self, seen: RawMessage, now: RawMessage | None, at_ms: int) -> Outcome:
        """Return what becomes of a message that was read again at that server time, ``DONE`` where it may change."""
        if now is None:
            return Outcome.GONE
        if self._matches is not None:
            return Outcome.DONE if self._matches(now, at_ms) else Outcome.UNMATCHED
        is_same = now.rc == seen.rc and float(now.score) == float(seen.score)
        return Outcome.DONE if is_same else Outcome.CHANGED


UNCHANGED = Guard("Messages changed since this preview are skipped and listed.")


SAME_MESSAGE = Guard(
    "Messages received since this preview are changed too; only what is gone is skipped.",
    conditions=(),
    _matches=lambda raw, at_ms: True,
)


def still_matching(wanted: Filter) -> Guard:
    """Return the guard of what a filter counted."""
    if wanted.is_empty:
        return SAME_MESSAGE
    changing = [term for term in wanted.terms if term.field in (*_CHANGING, "age")]
    ages = [term for term in changing if term.field == "age"]
    return Guard(
        "Each must still match when it is changed, also if received since this preview; others are skipped.",
        tuple(_condition(term, wanted.poison_rc) for term in changing if term.field != "age"),
        predicate_of(ages, wanted.poison_rc) if ages else None,
        predicate_of(changing, wanted.poison_rc),
    )


def _condition(term: Term, poison_rc: int) -> Condition:
    """Return what a term on state, rc or due wants; raises ValueError for any other."""
    match term:
        case Term(
            field="rc" | "due" as field, operator="=" | "!=" | "<" | "<=" | ">" | ">=" as operator, value=int(value)
        ):
            return Condition(((Comparison(field, operator, value),),), term.inverted)
        case Term("rc" | "due" as field, "=" | "!=" | "<" | "<=" | ">" | ">=" as operator, int(value)):
            return Condition(((Comparison(field, operator, value),),), term.inverted)
        case Term(field="state", value=tuple(states)):
            groups = {
                "ready": (_READY,),
                "hidden": (_HIDDEN,),
                "inflight": (_HIDDEN, Comparison("rc", "!=", 0)),
                "delayed": (_HIDDEN, Comparison("rc", "=", 0)),
                "poison": (Comparison("rc", ">=", poison_rc),),
            }
            return Condition(tuple(groups[state] for state in states if state in groups), term.inverted)
    raise ValueError(f"no condition on {term.field}")
