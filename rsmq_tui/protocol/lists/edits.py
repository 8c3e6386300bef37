"""Guarded changes of list queues as values: which items, by their bytes, where they go, and the inverse.

An item has no id: a change names values, each as many times as it occurs; equal items are interchangeable. Here the id
of an item is its ``value_id``, ``rc`` is the token of its lease, and ``score`` is the deadline of its lease.

Places are counted from 0, the item pushed last. Consumers that take items from the other end shift none of them; each
item that producers push shifts all by one.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple

from rsmq_tui.protocol.connections.script_runner import ScriptRunner
from rsmq_tui.protocol.keys import Keys, name_bytes
from rsmq_tui.protocol.lists.edit_scripts import EDIT_LISTS
from rsmq_tui.protocol.lists.naming import Area, ListNames, area_of, digest_of, item_digest, value_id
from rsmq_tui.protocol.lists.scan import whole_walk
from rsmq_tui.protocol.rsmq.edits import Condition, Edit, Outcome, found_in, guard_text, letters_of, outcome_of
from rsmq_tui.protocol.rsmq.operations import Argument, Operation, RawMessage

# In an outcome: an edit that was done and has been undone since.
TAKEN_BACK = "u"
_EVERYWHERE = 2**40


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


class Window(NamedTuple):
    """Where a call looks for items, in places counted from 0, the item pushed last.

    From ``near`` to ``far`` first, then up to ``slack`` places beyond both; never at the ``spared`` places from 0 on.
    """

    near: int = 0
    far: int = _EVERYWHERE
    slack: int = 0
    spared: int = 0


@dataclass(frozen=True, slots=True)
class ListBatch:
    """Edits of one kind of the list queue at ``queue``, or from it to ``target``.

    ``ns`` and ``target_ns`` are the namespaces of RSMQ queues, None for list queues; ``sent`` is what each edit adds to
    the totalsent of the RSMQ queue. With ``first``, items go to the end that consumers take from, and the first of them
    is taken next; otherwise they go to the other end. ``window`` is where the call looks, and ``conditions`` are for
    RSMQ messages, as in ``MessageBatch``; neither is in the journal.
    """

    # Removed items shift the places of those behind them.
    in_order: ClassVar[bool] = True
    kind: ListKind
    queue: str
    edits: tuple[Edit, ...]
    names: ListNames
    target: str | None = None
    ns: str | None = None
    target_ns: str | None = None
    sent: int = 0
    first: bool = False
    window: Window = field(default=Window(), compare=False)
    conditions: tuple[Condition, ...] | None = field(default=None, compare=False)

    @property
    def read(self) -> Callable[[Any], str]:
        """Decodes the outcome of its call; raises ``InvalidResponse`` for the reply to another."""
        return outcome_of(self.size, finds=self.ns is not None)

    @property
    def size(self) -> int:
        """How many items it has."""
        return len(self.edits)

    @property
    def befores(self) -> list[RawMessage]:
        """The items that its edits take or change."""
        return [before for before, _ in self.edits if before is not None]

    @property
    def afters(self) -> list[RawMessage]:
        """The items that its edits write."""
        return [after for _, after in self.edits if after is not None]

    @property
    def has_ids(self) -> bool:
        """True if it takes RSMQ messages."""
        return self.ns is not None

    @property
    def takes_away(self) -> bool:
        """True if it deletes its items."""
        return self.kind is ListKind.REMOVE

    @property
    def takes_from_list(self) -> bool:
        """True if its items come from a list, and so are found by their values."""
        return self.kind is not ListKind.PUT and self.ns is None

    def operation(self, keys: Keys | None, marker: bytes) -> Operation[str]:
        """Return the call that applies it once and stores its outcome at ``marker``."""
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
        return Operation(script, (*source_keys, *target_keys, marker), tuple(arguments), self.read)

    def as_done(self, outcome: str) -> tuple[Edit, ...]:
        """Return the edits with what the server found if it differs; raises ValueError for a malformed outcome."""
        edits = list(self.edits)
        for place, score, rc, fr in found_in(outcome, self.size)[1]:
            before, after = edits[place]
            if before is not None:
                edits[place] = Edit(before._replace(score=score, rc=rc, fr=fr), after)
        return tuple(edits)

    def inverse(self, outcome: str) -> "ListBatch | None":
        """Return the batch that undoes the edits which ``outcome`` says were done; None if there are none.

        Items go back to the end of a list that consumers take from, in their order; in processing, to the end of the
        oldest items.
        """
        edits = tuple(
            Edit(after, before)
            for (before, after), letter in zip(self.as_done(outcome), letters_of(outcome), strict=True)
            if letter == Outcome.DONE
        )
        if not edits:
            return None
        kind = _INVERSE[self.kind]
        if self.kind is ListKind.PUT:
            return replace(self, kind=kind, edits=edits, sent=-self.sent)
        queue, ns = self._target
        target, target_ns = (self.queue, self.ns) if self.target is not None else (None, None)
        return ListBatch(kind, queue, edits, self.names, target, ns, target_ns, -self.sent, first=True)

    def traces(self, there: Sequence[bool]) -> str:
        """Return what it may have done, as ``MessageBatch.traces``; ``there`` says which of its items exist."""
        is_put = self.kind is ListKind.PUT
        letters = [Outcome.DONE if is_there is is_put else Outcome.GONE for is_there in there]
        return "".join(letters) if Outcome.DONE in letters else ""

    @property
    def _target(self) -> tuple[str, str | None]:
        return (self.queue, self.ns) if self.target is None else (self.target, self.target_ns)

    def _side(self, queue: str, ns: str | None, messages: Sequence[RawMessage]) -> tuple[str, tuple[bytes, bytes]]:
        if ns is not None:
            return "rsmq", (Keys(ns).messages(queue), Keys(ns).attributes(queue))
        key = self.names.processing_key(queue) if _area(messages) == "p" else name_bytes(queue)
        return "list", (key, self.names.leases_key(queue))

    def _from_list(self) -> Iterator[Argument]:
        yield from (_area(self.befores), *self.window, "0" if self.kind is ListKind.LEASE else "1")
        for before in self.befores:
            if before.body is None:
                raise ValueError("an item without its value")
            yield from (before.body, before.rc or b"", before.score if before.rc else b"")

    def _to_list(self) -> Iterator[Argument]:
        yield from (_area(self.afters), "1" if self.first else "0")
        carries = self.kind is ListKind.PUT
        for after in self.afters:
            yield from (after.rc or b"", after.score if after.rc else b"")
            yield b"=" + (after.body or b"") if carries else b""

    def _from_rsmq(self) -> Iterator[Argument]:
        yield self.sent
        yield guard_text(self.conditions)
        for before in self.befores:
            yield from (before.id, before.score, before.rc or b"")

    def _to_rsmq(self) -> Iterator[Argument]:
        yield self.sent
        carries = self.kind is ListKind.PUT
        for after in self.afters:
            yield from (after.id, after.score, _raw(after.rc), _raw(after.fr))
            yield b"=" + (after.body or b"") if carries else b""


def list_item(body: bytes, *, area: Area = "q") -> RawMessage:
    """Return an item as edits hold it."""
    return RawMessage(value_id(area, body), b"0", None, None, len(body), body)


def _area(messages: Sequence[RawMessage]) -> Area:
    return area_of(messages[0].id) if messages else "q"


def _raw(value: bytes | None) -> bytes:
    return b"" if value is None else b"=" + value


async def are_there(read: Callable[..., Awaitable[list[Any]]], runner: ScriptRunner, batch: ListBatch) -> list[bool]:
    """Return for each item that a batch takes (or puts) whether it exists; of equal items, as many as there are.

    ``read`` sends commands and returns the replies.
    """
    messages = batch.afters if batch.kind is ListKind.PUT else batch.befores
    if batch.ns is not None:
        scores = await read(*(("ZSCORE", Keys(batch.ns).messages(batch.queue), message.id) for message in messages))
        return [score is not None for score in scores]
    wanted = Counter(digest_of(message.id) for message in messages)
    there: dict[bytes, list[bytes]] = {digest: [] for digest in wanted}
    walk = whole_walk(runner, batch.names, batch.queue, area_of(messages[0].id))
    while not walk.is_over and any(count > len(there[digest]) for digest, count in wanted.items()):
        for item in (await walk.step()).bodies:
            if wanted[digest := item_digest(item)] > len(there.get(digest, ())):
                there[digest].append(item)

    async def is_there(message: RawMessage) -> bool:
        same = there[digest_of(message.id)]
        if not same:
            return False
        item = same.pop()
        if batch.kind is not ListKind.LEASE or message.rc is None:
            return True
        (score,) = await read(("ZSCORE", batch.names.leases_key(batch.queue), message.rc + b":" + item))
        return score is not None and float(score) == float(message.score)

    return [await is_there(message) for message in messages]
