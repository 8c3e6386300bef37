"""Guarded changes as values: what a message or field must be, what it becomes, and the way back.

A batch is what one call carries out. ``inverse`` is the batch that undoes those of its edits that were done, guarded in
the same way: what somebody else has touched since is left alone. Nothing here does I/O.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from rsmq_tui.protocol.edit_scripts import CHANGED, DONE, EDIT_FIELDS, EDIT_LOOSE, EDIT_MESSAGES, GONE, TAKEN
from rsmq_tui.protocol.keys import Keys, name_bytes
from rsmq_tui.protocol.messages import RawMessage
from rsmq_tui.protocol.operations import Argument, Operation


class Outcome(StrEnum):
    """What became of one edit."""

    DONE = DONE
    GONE = GONE
    CHANGED = CHANGED
    TAKEN = TAKEN


class EditKind(StrEnum):
    """How the messages of a batch change; dropped is what has no body, and only that."""

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


class Edit(NamedTuple):
    """One message before and after; None where it is not there. A move carries no body: the server has it."""

    before: RawMessage | None
    after: RawMessage | None


@dataclass(frozen=True, slots=True)
class MessageBatch:
    """Edits of one kind on one queue, or from ``queue`` to ``target`` for a move.

    ``must_exist`` says that the queue written to must be one; ``sent`` is what each edit adds to its totalsent.
    """

    kind: EditKind
    queue: str
    edits: tuple[Edit, ...]
    target: str | None = None
    must_exist: bool = True
    sent: int = 0

    def inverse(self, outcome: str) -> "MessageBatch | None":
        """Return the batch that undoes what that outcome says was done, or None where nothing was."""
        edits = tuple(
            Edit(edit.after, edit.before)
            for edit, letter in zip(self.edits, outcome, strict=True)
            if letter == Outcome.DONE
        )
        if not edits:
            return None
        queue, target = (self.target, self.queue) if self.target is not None else (self.queue, None)
        return MessageBatch(_INVERSE[self.kind], queue, edits, target, self.must_exist, -self.sent)

    def operation(self, keys: Keys, marker: bytes) -> Operation[str]:
        """Return the call that carries it out once, and leaves its outcome under the marker."""
        queues = (self.queue,) if self.target is None else (self.queue, self.target)
        names = [key for queue in queues for key in (keys.messages(queue), keys.attributes(queue))]
        arguments: list[Argument] = [self.kind, "1" if self.must_exist else "0", self.sent, len(self.edits)]
        if self.kind is EditKind.PUT:
            for _, after in self._edits():
                arguments += (after.id, after.score, _raw(after.rc), _raw(after.fr), _raw(after.body))
            return Operation(EDIT_MESSAGES, (*names, marker), tuple(arguments), bytes.decode)
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
        return Operation(EDIT_MESSAGES, (*names, marker), tuple(arguments), bytes.decode)

    @property
    def size(self) -> int:
        """How many messages it is for."""
        return len(self.edits)

    @property
    def ids(self) -> list[bytes]:
        """The ids of its messages in ``queue``."""
        return [message.id for message, _ in self._edits()]

    def traces(self, now: Iterable[tuple[bytes | None, bytes | None]]) -> str:
        """Tell from the score and rc of each message what it may have done: an outcome, empty when surely nothing.

        Done is then what is no longer as it was before, whoever changed it: undoing is guarded.
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
        # What is there still was neither removed nor moved.
        return Outcome.DONE if score is None or self.kind is EditKind.RESCORE else Outcome.CHANGED

    def _edits(self) -> Iterable[tuple[RawMessage, RawMessage]]:
        """Walk through both sides; the one that a kind does not have is the other one."""
        for before, after in self.edits:
            known = before or after
            if known is None:
                raise ValueError("an edit of nothing")
            yield before or known, after or known


class FieldEdit(NamedTuple):
    """One field of a queue's hash before and after, raw; None where it is not there."""

    name: bytes
    before: bytes | None
    after: bytes | None


@dataclass(frozen=True, slots=True)
class FieldBatch:
    """Edits of a queue's hash and of its place in the index, all or none; ``empty`` allows no message in it.

    ``held`` says that the messages were there before the queue was: undoing may leave them without it again.
    """

    queue: str
    fields: tuple[FieldEdit, ...]
    listed_before: bool
    listed_after: bool
    empty: bool = False
    held: bool = False

    def inverse(self, outcome: str) -> "FieldBatch | None":
        """Return the batch that undoes it, or None where it was not done."""
        if outcome != Outcome.DONE:
            return None
        fields = tuple(FieldEdit(name, after, before) for name, before, after in self.fields)
        empty = self._takes_queue_away() and not self.held
        return FieldBatch(self.queue, fields, self.listed_after, self.listed_before, empty, self.held)

    def operation(self, keys: Keys, marker: bytes) -> Operation[str]:
        """Return the call that carries it out once, and leaves its outcome under the marker."""
        arguments: list[Argument] = [name_bytes(self.queue)]
        arguments += ("1" if flag else "0" for flag in (self.listed_before, self.listed_after, self.empty))
        for name, before, after in self.fields:
            arguments += (name, _raw(before), _raw(after))
        names = (_zset(keys, self.queue, marker), keys.attributes(self.queue), keys.index, marker)
        return Operation(EDIT_FIELDS, names, tuple(arguments), bytes.decode)

    @property
    def size(self) -> int:
        """It is all or nothing."""
        return 1

    def traces(self, values: Iterable[bytes | None], listed: bool) -> str:
        """Tell from its fields and its place in the index what it may have done, as ``MessageBatch.traces``."""
        same = listed == self.listed_before and list(values) == [before for _, before, _ in self.fields]
        return "" if same else Outcome.DONE

    def _takes_queue_away(self) -> bool:
        """Tell whether undoing it removes the queue, which must then hold no message."""
        return any(name == b"vt" and before is None for name, before, _ in self.fields)


class LooseKind(StrEnum):
    """Whose the fields of a batch are: nobody's, or the counters of messages that are there."""

    STRAY = "stray"
    OWNED = "owned"


@dataclass(frozen=True, slots=True)
class LooseBatch:
    """Edits of single fields of a queue's hash, each for itself; one whose owner is another by then is left alone."""

    kind: LooseKind
    queue: str
    fields: tuple[FieldEdit, ...]

    def inverse(self, outcome: str) -> "LooseBatch | None":
        """Return the batch that undoes what that outcome says was done, or None where nothing was."""
        fields = tuple(
            FieldEdit(name, after, before)
            for (name, before, after), letter in zip(self.fields, outcome, strict=True)
            if letter == Outcome.DONE
        )
        return LooseBatch(self.kind, self.queue, fields) if fields else None

    def operation(self, keys: Keys, marker: bytes) -> Operation[str]:
        """Return the call that carries it out once, and leaves its outcome under the marker."""
        arguments: list[Argument] = [self.kind]
        for name, before, after in self.fields:
            arguments += (name, _raw(before), _raw(after))
        names = (_zset(keys, self.queue, marker), keys.attributes(self.queue), marker)
        return Operation(EDIT_LOOSE, names, tuple(arguments), bytes.decode)

    @property
    def size(self) -> int:
        """How many fields it is for."""
        return len(self.fields)

    def traces(self, values: Iterable[bytes | None]) -> str:
        """Tell from its fields what it may have done, as ``MessageBatch.traces``."""
        letters = [
            Outcome.GONE if value == before else Outcome.DONE
            for (_, before, _), value in zip(self.fields, values, strict=True)
        ]
        return "".join(letters) if Outcome.DONE in letters else ""


def _zset(keys: Keys, queue: str, marker: bytes) -> bytes:
    """Return where a queue's messages are; one of the index's name has none, and the marker's key is no zset yet."""
    messages = keys.messages(queue)
    return marker if messages == keys.index else messages


def _raw(value: bytes | None) -> bytes:
    return b"" if value is None else b"=" + value


def _same_score(one: bytes, other: bytes) -> bool:
    try:
        return one == other or float(one) == float(other)
    except ValueError:
        return False
