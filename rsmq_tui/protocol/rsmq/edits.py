"""Guarded changes as values: what a message or field must be, what it becomes, and the inverse. No I/O.

One call applies one batch. ``inverse`` is the batch that undoes those of its edits that were done, guarded in the same
way: what has been changed since is left alone.
"""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Literal, NamedTuple

from rsmq_tui.protocol.keys import Keys, name_bytes
from rsmq_tui.protocol.replies import decode_text, misshapen
from rsmq_tui.protocol.rsmq.edit_scripts import (
    CHANGED,
    DONE,
    EDIT_FIELDS,
    EDIT_LOOSE,
    EDIT_MESSAGES,
    FOUND,
    GONE,
    KEPT,
    TAKEN,
    UNMATCHED,
)
from rsmq_tui.protocol.rsmq.operations import Argument, Operation, RawMessage


class Outcome(StrEnum):
    """The result of one edit; a missed item of a list was not where the call looked, and may be elsewhere."""

    DONE = DONE
    GONE = GONE
    CHANGED = CHANGED
    UNMATCHED = UNMATCHED
    TAKEN = TAKEN
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


class EditKind(StrEnum):
    """How the messages of a batch change; DROP removes only messages without a body."""

    REMOVE = "remove"
    DROP = "drop"
    PUT = "put"
    RESCORE = "rescore"
    MOVE = "move"


_INVERSE = {
    EditKind.REMOVE: EditKind.PUT,
    EditKind.DROP: EditKind.PUT,
    EditKind.PUT: EditKind.REMOVE,
    EditKind.RESCORE: EditKind.RESCORE,
    EditKind.MOVE: EditKind.MOVE,
}


class Comparison(NamedTuple):
    """Compares a number of a message: its receive count, or in how many ms it is due."""

    field: Literal["rc", "due"]
    operator: Literal["=", "!=", "<", "<=", ">", ">="]
    value: int


class Condition(NamedTuple):
    """A condition on a message when it is changed: all comparisons of one group are true; inverted, of no group."""

    any_of: tuple[tuple[Comparison, ...], ...]
    inverted: bool = False


class Edit(NamedTuple):
    """One message before and after; None if it does not exist. A move carries no body: the server has it."""

    before: RawMessage | None
    after: RawMessage | None


@dataclass(frozen=True, slots=True)
class MessageBatch:
    """Edits of one kind on one queue, or from ``queue`` to ``target`` for a move.

    With ``must_exist`` the queue written to must exist; ``sent`` is what each edit adds to its totalsent. If
    ``conditions`` is None, the score and rc of a message must be unchanged; otherwise they may have any value that
    meets all conditions, and the outcome says what they were. With ``keeps`` a move keeps the score, rc and fr that it
    finds. Neither is in the journal: the outcome has all that undo needs.
    """

    in_order: ClassVar[bool] = False
    has_ids: ClassVar[bool] = True
    kind: EditKind
    queue: str
    edits: tuple[Edit, ...]
    target: str | None = None
    must_exist: bool = True
    sent: int = 0
    conditions: tuple[Condition, ...] | None = None
    keeps: bool = False

    def as_done(self, outcome: str) -> tuple[Edit, ...]:
        """Return the edits with what the server found if it differs; raises ValueError for a malformed outcome."""
        is_kept, found = found_in(outcome, self.size)
        if not found:
            return self.edits
        edits = list(self.edits)
        for place, score, rc, fr in found:
            before, after = edits[place]
            if before is not None:
                before = before._replace(score=score, rc=rc, fr=fr)
            if after is not None and is_kept:
                after = after._replace(score=score, rc=rc, fr=fr)
            elif after is not None and self.kind is EditKind.RESCORE:
                after = after._replace(rc=rc)
            edits[place] = Edit(before, after)
        return tuple(edits)

    def inverse(self, outcome: str) -> "MessageBatch | None":
        """Return the batch that undoes the edits which ``outcome`` says were done; None if there are none."""
        edits = tuple(
            Edit(edit.after, edit.before)
            for edit, letter in zip(self.as_done(outcome), letters_of(outcome), strict=True)
            if letter == Outcome.DONE
        )
        if not edits:
            return None
        queue, target = (self.target, self.queue) if self.target is not None else (self.queue, None)
        return MessageBatch(_INVERSE[self.kind], queue, edits, target, self.must_exist, -self.sent)

    def operation(self, keys: Keys, marker: bytes) -> Operation[str]:
        """Return the call that applies it once and stores its outcome at ``marker``."""
        queues = (self.queue,) if self.target is None else (self.queue, self.target)
        names = [key for queue in queues for key in (keys.messages(queue), keys.attributes(queue))]
        arguments: list[Argument] = [self.kind, "1" if self.must_exist else "0", self.sent, len(self.edits)]
        arguments += (guard_text(self.conditions), "1" if self.keeps else "0")
        if self.kind is EditKind.PUT:
            for _, after in self._edits():
                arguments += (after.id, after.score, _raw(after.rc), _raw(after.fr), _raw(after.body))
            return Operation(EDIT_MESSAGES, (*names, marker), tuple(arguments), self.read)
        befores = [edit.before for edit in self.edits if edit.before is not None]
        if len(befores) < len(self.edits):
            raise ValueError("an edit of nothing")
        rcs = [before.rc or b"" for before in befores]
        arguments += [before.id for before in befores]
        arguments.append(b" ".join([before.score for before in befores]))
        arguments += rcs if any(rcs) else (b"",)
        if self.kind is EditKind.RESCORE:
            arguments += [after.score for _, after in self._edits()]
        elif self.kind is EditKind.MOVE:
            for _, after in self._edits():
                arguments += (after.id, after.score, _raw(after.rc), _raw(after.fr))
        return Operation(EDIT_MESSAGES, (*names, marker), tuple(arguments), self.read)

    @property
    def read(self) -> Callable[[Any], str]:
        """Decodes the outcome of its call; raises ``InvalidResponse`` for the reply to another."""
        return outcome_of(self.size, finds=True)

    @property
    def size(self) -> int:
        """How many messages it has."""
        return len(self.edits)

    @property
    def takes_away(self) -> bool:
        """True if it deletes its messages."""
        return self.kind in (EditKind.REMOVE, EditKind.DROP)

    @property
    def ids(self) -> list[bytes]:
        """The ids of its messages in ``queue``."""
        return [message.id for message, _ in self._edits()]

    def traces(self, now: Iterable[tuple[bytes | None, bytes | None]]) -> str:
        """Return what it may have done, from the score and rc of each message now: an outcome, empty if nothing.

        An edit counts as done if its message has changed, whoever changed it: undo is guarded.
        """
        letters = [
            self._trace(message, score, rc) for (message, _), (score, rc) in zip(self._edits(), now, strict=True)
        ]
        return "".join(letters) if Outcome.DONE in letters else ""

    def _trace(self, message: RawMessage, score: bytes | None, rc: bytes | None) -> Outcome:
        same = score is not None and _same_score(score, message.score) and (rc or b"") == (message.rc or b"")
        if self.kind is EditKind.PUT:
            return Outcome.DONE if same else Outcome.GONE
        if same:
            return Outcome.GONE
        # A message that is still there was neither removed nor moved.
        return Outcome.DONE if score is None or self.kind is EditKind.RESCORE else Outcome.CHANGED

    def _edits(self) -> Iterable[tuple[RawMessage, RawMessage]]:
        """Yield both sides of each edit; a missing side is replaced by the other one."""
        for before, after in self.edits:
            known = before or after
            if known is None:
                raise ValueError("an edit of nothing")
            yield before or known, after or known


def letters_of(outcome: str) -> str:
    """Return the letters of an outcome alone."""
    return _SEPARATOR.split(outcome, maxsplit=1)[0]


# Earlier versions wrote numbers after an @ in the outcomes of list queues.
_SEPARATOR = re.compile(f"[{FOUND}{KEPT}@]")


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


def guard_text(conditions: tuple[Condition, ...] | None) -> str:
    """Return the guard as the scripts read it: empty if a message must be unchanged."""
    return "" if conditions is None else json.dumps([each._asdict() for each in conditions])


class FieldEdit(NamedTuple):
    """One field of a queue's hash before and after, raw; None if it does not exist."""

    name: bytes
    before: bytes | None
    after: bytes | None


@dataclass(frozen=True, slots=True)
class FieldBatch:
    """Edits of a queue's hash and of its entry in the index, all or none; with ``empty`` it must hold no message.

    ``held`` says that the messages were there before the queue: undo may leave them without it again.
    """

    kind: ClassVar[str] = "fields"
    in_order: ClassVar[bool] = False
    has_ids: ClassVar[bool] = False
    takes_away: ClassVar[bool] = False
    queue: str
    fields: tuple[FieldEdit, ...]
    listed_before: bool
    listed_after: bool
    empty: bool = False
    held: bool = False

    def inverse(self, outcome: str) -> "FieldBatch | None":
        """Return the batch that undoes it, or None if it was not done."""
        if outcome != Outcome.DONE:
            return None
        fields = tuple(FieldEdit(name, after, before) for name, before, after in self.fields)
        empty = self._takes_queue_away() and not self.held
        return FieldBatch(self.queue, fields, self.listed_after, self.listed_before, empty, self.held)

    def operation(self, keys: Keys, marker: bytes) -> Operation[str]:
        """Return the call that applies it once and stores its outcome at ``marker``."""
        arguments: list[Argument] = [name_bytes(self.queue)]
        arguments += ("1" if flag else "0" for flag in (self.listed_before, self.listed_after, self.empty))
        for name, before, after in self.fields:
            arguments += (name, _raw(before), _raw(after))
        names = (_zset(keys, self.queue, marker), keys.attributes(self.queue), keys.index, marker)
        return Operation(EDIT_FIELDS, names, tuple(arguments), self.read)

    @property
    def read(self) -> Callable[[Any], str]:
        """Decodes the outcome of its call; raises ``InvalidResponse`` for the reply to another."""
        return outcome_of(self.size)

    @property
    def size(self) -> int:
        """One: it is all or nothing."""
        return 1

    def traces(self, values: Iterable[bytes | None], listed: bool) -> str:
        """Return what it may have done, from its fields and the index now, as ``MessageBatch.traces``."""
        same = listed == self.listed_before and list(values) == [before for _, before, _ in self.fields]
        return "" if same else Outcome.DONE

    def _takes_queue_away(self) -> bool:
        """Return whether undoing it removes the queue, which must then hold no message."""
        return any(name == b"vt" and before is None for name, before, _ in self.fields)


class LooseKind(StrEnum):
    """The owner of the fields of a batch: STRAY fields have none; OWNED ones are counters of existing messages."""

    STRAY = "stray"
    OWNED = "owned"


@dataclass(frozen=True, slots=True)
class LooseBatch:
    """Edits of single fields of a queue's hash, each on its own; a field whose owner has changed is left alone."""

    in_order: ClassVar[bool] = False
    has_ids: ClassVar[bool] = False
    takes_away: ClassVar[bool] = False
    kind: LooseKind
    queue: str
    fields: tuple[FieldEdit, ...]

    def inverse(self, outcome: str) -> "LooseBatch | None":
        """Return the batch that undoes the edits which ``outcome`` says were done; None if there are none."""
        fields = tuple(
            FieldEdit(name, after, before)
            for (name, before, after), letter in zip(self.fields, outcome, strict=True)
            if letter == Outcome.DONE
        )
        return LooseBatch(self.kind, self.queue, fields) if fields else None

    def operation(self, keys: Keys, marker: bytes) -> Operation[str]:
        """Return the call that applies it once and stores its outcome at ``marker``."""
        arguments: list[Argument] = [self.kind]
        for name, before, after in self.fields:
            arguments += (name, _raw(before), _raw(after))
        names = (_zset(keys, self.queue, marker), keys.attributes(self.queue), marker)
        return Operation(EDIT_LOOSE, names, tuple(arguments), self.read)

    @property
    def read(self) -> Callable[[Any], str]:
        """Decodes the outcome of its call; raises ``InvalidResponse`` for the reply to another."""
        return outcome_of(self.size)

    @property
    def size(self) -> int:
        """How many fields it has."""
        return len(self.fields)

    def traces(self, values: Iterable[bytes | None]) -> str:
        """Return what it may have done, from its fields now, as ``MessageBatch.traces``."""
        letters = [
            Outcome.GONE if value == before else Outcome.DONE
            for (_, before, _), value in zip(self.fields, values, strict=True)
        ]
        return "".join(letters) if Outcome.DONE in letters else ""


def _zset(keys: Keys, queue: str, marker: bytes) -> bytes:
    """Return the key of a queue's messages; for the name of the index, the marker, which does not exist yet."""
    messages = keys.messages(queue)
    return marker if messages == keys.index else messages


def _raw(value: bytes | None) -> bytes:
    return b"" if value is None else b"=" + value


def _same_score(one: bytes, other: bytes) -> bool:
    try:
        return one == other or float(one) == float(other)
    except ValueError:
        return False
