"""What the server says of a guarded change: a letter for each edit, and after them what it found of some messages."""

import re
from collections.abc import Callable
from enum import StrEnum
from typing import Any, NamedTuple

from rsmq_tui.protocol.replies import decode_text, misshapen

# The separator between the letters of an outcome and what the server found in place of what was seen; KEPT if a move
# kept that.
FOUND, KEPT = ";", "="
# Earlier versions wrote numbers after an @ in the outcomes of list queues.
_SEPARATOR = re.compile(f"[{FOUND}{KEPT}@]")


class Outcome(StrEnum):
    """The result of one edit; a missed item of a list was not where the call looked, and may be elsewhere."""

    DONE = "d"
    GONE = "g"
    CHANGED = "c"
    UNMATCHED = "n"
    TAKEN = "t"
    MISSED = "m"


def outcome_of(size: int, *, finds: bool = False) -> Callable[[Any], str]:
    """Return a function that decodes the outcome of a call: a letter of ``Outcome`` for each edit.

    With ``finds``, what the server found in place of what was seen may follow. Raises ``InvalidResponse``.
    """
    allowed = frozenset(Outcome)

    def read(reply: Any) -> str:
        outcome = decode_text(reply)
        try:
            found_in(outcome, size)
        except ValueError as error:
            raise misshapen("in reply to a change") from error
        letters = letters_of(outcome)
        if len(letters) != size or not allowed.issuperset(letters) or not (finds or letters == outcome):
            raise misshapen("in reply to a change")
        return outcome

    return read


def letters_of(outcome: str) -> str:
    """Return the letters of an outcome alone."""
    return _SEPARATOR.split(outcome, maxsplit=1)[0]


class Found(NamedTuple):
    """What the server found of the message at ``place`` in a batch, if it differed from what had been seen."""

    place: int
    score: bytes
    rc: bytes | None
    fr: bytes | None


def found_in(outcome: str, size: int) -> tuple[bool, list[Found]]:
    """Return from an outcome of ``size`` edits whether a move kept what it found, and what the server found.

    Raises ValueError.
    """
    rest = outcome[len(letters_of(outcome)) :]
    found = []
    for entry in rest[1:].split() if rest[:1] in (FOUND, KEPT) else ():
        place, score, rc, fr = entry.split(":")
        if not 0 <= int(place) < size:
            raise ValueError(f"no outcome of {size} edits: {outcome[:80]!r}")
        found.append(Found(int(place), score.encode(), rc.encode() or None, fr.encode() or None))
    return rest.startswith(KEPT), found
