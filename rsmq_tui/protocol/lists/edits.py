"""Guarded changes of list queues as values: where items lie, which bytes they have, where they go, and the way back.

An id of an item here is as ``item_ids`` writes it, but its position may be below 0: then it is counted from the end
that producers push to, -1 is the last. In ``rc`` is the token of an item's lease, in ``score`` its deadline, and in
``fr`` the SHA1 of the item before it, by which its place is found again. Nothing here does I/O.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from hashlib import sha1
from typing import Literal, NamedTuple

from rsmq_tui.protocol.edits import Edit, Outcome
from rsmq_tui.protocol.keys import Keys, name_bytes
from rsmq_tui.protocol.lists.edit_scripts import EDIT_LISTS
from rsmq_tui.protocol.lists.naming import ListNames
from rsmq_tui.protocol.messages import RawMessage
from rsmq_tui.protocol.operations import Argument, Operation

# Stands in an outcome for what was done and has been taken back since.
TAKEN_BACK = "u"
# What lies before the first item.
EDGE = b"-"
# A region is read at once where it holds about this much, and no more items than that.
_REGION_BYTES = 1_000_000
_REGION_ITEMS = 10_000
_SHA_CHARS = 40


class Spot(NamedTuple):
    """Where an item lies, in the queue (``q``) or in processing (``p``), and the SHA1 of its bytes."""

    area: Literal["q", "p"]
    position: int
    sha: str

    @property
    def id(self) -> bytes:
        """It as an id."""
        return f"{self.area}:{self.position}:{self.sha}".encode()


_AREAS: dict[bytes, Literal["q", "p"]] = {b"q": "q", b"p": "p"}
_spot = partial(tuple.__new__, Spot)


def spot_of(id: bytes) -> Spot:
    """Read an id; raises ValueError for one that is no item's."""
    # There may be millions, and a regular expression takes three times as long.
    parts = id.split(b":")
    if len(parts) != 3 or parts[0] not in _AREAS or len(parts[2]) != _SHA_CHARS:
        raise ValueError(f"not the id of a list's item: {id!r}")
    return _spot((_AREAS[parts[0]], int(parts[1]), parts[2].decode("ascii")))


def position_of(id: bytes) -> int:
    """Return the position alone of an id that is an item's."""
    return int(id[2 : id.index(b":", 2)])


def sha_of(item: bytes) -> str:
    """Return the SHA1 of an item's bytes."""
    return sha1(item, usedforsecurity=False).hexdigest()


class ListKind(StrEnum):
    """How the items of a batch change."""

    REMOVE = "list-remove"
    PUT = "list-put"
    MOVE = "list-move"
    LEASE = "list-lease"


_INVERSE = {
    ListKind.REMOVE: ListKind.PUT,
    ListKind.PUT: ListKind.REMOVE,
    ListKind.MOVE: ListKind.MOVE,
    ListKind.LEASE: ListKind.LEASE,
}


class Told(NamedTuple):
    """An outcome in parts: a letter for each edit, how far both sides had shifted, how many are near their place."""

    letters: str
    source_shift: int = 0
    target_shift: int = 0
    inexact: int = 0


def told_by(outcome: str) -> Told:
    """Read an outcome."""
    letters, *numbers = outcome.split("@")
    return Told(letters, *map(int, numbers))


@dataclass(frozen=True, slots=True)
class ListBatch:
    """Edits of one kind of the list queue at ``queue``, or from it to ``target``; those of a list in order of position.

    ``ns`` and ``target_ns`` are namespaces where that side is a queue of RSMQ; ``sent`` is what each edit adds to the
    totalsent of that. The hints are how far the items of the source, or the places in the target, are known to have
    shifted since their positions were told.
    """

    kind: ListKind
    queue: str
    edits: tuple[Edit, ...]
    names: ListNames
    target: str | None = None
    ns: str | None = None
    target_ns: str | None = None
    sent: int = 0
    hint: int = 0
    target_hint: int = 0

    @property
    def size(self) -> int:
        """How many items it is for."""
        return len(self.edits)

    @property
    def befores(self) -> list[RawMessage]:
        """What its edits take, or change."""
        return [before for before, _ in self.edits if before is not None]

    @property
    def afters(self) -> list[RawMessage]:
        """What its edits put somewhere."""
        return [after for _, after in self.edits if after is not None]

    def operation(self, keys: Keys | None, marker: bytes) -> Operation[str]:
        """Return the call that carries it out once, and leaves its outcome under the marker."""
        arguments: list[Argument] = [len(self.edits), self.names.take_from]
        source = target = ""
        source_keys = target_keys = (marker, marker)
        if self.kind is not ListKind.PUT:
            source, source_keys = self._side(self.queue, self.ns, self.befores)
            arguments += self._from_rsmq() if source == "rsmq" else self._from_list()
        if self.kind is ListKind.LEASE:
            target = "leases"
            for after in self.afters:
                arguments += (after.rc or b"", after.score if after.rc else b"")
        elif self.kind is not ListKind.REMOVE:
            target, target_keys = self._side(*self._target, self.afters)
            arguments += self._to_rsmq() if target == "rsmq" else self._to_list()
        script = EDIT_LISTS[source, target]
        return Operation(script, (*source_keys, *target_keys, marker), tuple(arguments), bytes.decode)

    def inverse(self, outcome: str) -> "ListBatch | None":
        """Return the batch that undoes what that outcome says was done, or None where nothing was."""
        told = told_by(outcome)
        if Outcome.DONE not in told.letters:
            return None
        left_out, skipped = sum(letter not in (Outcome.DONE, TAKEN_BACK) for letter in told.letters), 0
        edits = []
        for (before, after), letter in zip(self.edits, told.letters, strict=True):
            if letter != Outcome.DONE:
                skipped += letter != TAKEN_BACK
                continue
            was = before if before is None or self.ns is not None else _shifted(before, told.source_shift)
            now = after
            if after is not None and self.kind is not ListKind.LEASE and self._target[1] is None:
                # Those that did not come left their places to the others.
                gap = left_out - skipped if spot_of(after.id).position < 0 else -skipped
                now = _shifted(after, told.target_shift + gap)
            edits.append(Edit(now, was))
        kind = _INVERSE[self.kind]
        if self.kind is ListKind.PUT:
            return replace(self, kind=kind, edits=tuple(edits), sent=-self.sent, hint=0, target_hint=0)
        queue, ns = self._target
        target, target_ns = (self.queue, self.ns) if self.target is not None else (None, None)
        return ListBatch(kind, queue, tuple(edits), self.names, target, ns, target_ns, -self.sent)

    def traces(self, there: Sequence[bool]) -> str:
        """Tell from whether each of what it takes (or puts) is there now what it may have done, as other batches do."""
        is_put = self.kind is ListKind.PUT
        letters = [Outcome.DONE if is_there is is_put else Outcome.GONE for is_there in there]
        return "".join(letters) if Outcome.DONE in letters else ""

    @property
    def _target(self) -> tuple[str, str | None]:
        return (self.queue, self.ns) if self.target is None else (self.target, self.target_ns)

    def _side(self, queue: str, ns: str | None, messages: Sequence[RawMessage]) -> tuple[str, tuple[bytes, bytes]]:
        if ns is not None:
            return "rsmq", (Keys(ns).messages(queue), Keys(ns).attributes(queue))
        is_processing = bool(messages) and messages[0].id.startswith(b"p")
        key = self.names.processing_key(queue) if is_processing else name_bytes(queue)
        return "list", (key, self.names.leases_key(queue))

    def _from_list(self) -> Iterator[Argument]:
        befores = self.befores
        spots = [spot_of(before.id) for before in befores]
        area: Argument = spots[0].area if spots else "q"
        span = spots[-1].position - spots[0].position + 1 if spots else 0
        heaviest = max((before.size for before in befores), default=0)
        is_dense = span <= _REGION_ITEMS and span * heaviest <= _REGION_BYTES
        yield from (area, self.hint, "1" if is_dense else "0", "0" if self.kind is ListKind.LEASE else "1")
        for before, spot in zip(befores, spots, strict=True):
            yield spot.position
            yield b"#" + spot.sha.encode() if before.body is None else b"=" + before.body
            yield b"" if before.fr == EDGE else before.fr or b""
            yield before.rc or b""
            yield before.score if before.rc else b""

    def _to_list(self) -> Iterator[Argument]:
        afters = self.afters
        yield from (spot_of(afters[0].id).area if afters else "q", self.target_hint)
        carries = self.kind is ListKind.PUT
        for after in afters:
            yield from (spot_of(after.id).position, after.fr or b"", after.rc or b"", after.score if after.rc else b"")
            yield b"=" + (after.body or b"") if carries else b""

    def _from_rsmq(self) -> Iterator[Argument]:
        yield self.sent
        for before in self.befores:
            yield from (before.id, before.score, before.rc or b"")

    def _to_rsmq(self) -> Iterator[Argument]:
        yield self.sent
        carries = self.kind is ListKind.PUT
        for after in self.afters:
            yield from (after.id, after.score, _raw(after.rc), _raw(after.fr))
            yield b"=" + (after.body or b"") if carries else b""


def list_item(position: int, body: bytes, *, area: Literal["q", "p"] = "q") -> RawMessage:
    """Return an item as an edit has it."""
    return RawMessage(Spot(area, position, sha_of(body)).id, b"0", None, None, len(body), body)


def _shifted(message: RawMessage, by: int) -> RawMessage:
    if not by:
        return message
    spot = spot_of(message.id)
    moved = spot.position + by
    if spot.position < 0 <= moved:
        # What is counted from the back stays so.
        moved = -1
    return message._replace(id=spot._replace(position=moved).id)


def _raw(value: bytes | None) -> bytes:
    return b"" if value is None else b"=" + value
