"""A toy kind of queue: a zset whose members are bodies, each with the time in ms from which it is ready.

It has what ARCHITECTURE.md's recipe asks for: a source, an editor with a batch, a backend, an undo, and rows of the
journal.
"""

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import redis.asyncio
from redis.asyncio.connection import ConnectionPool

from rsmq_tui.monitor import (
    Connection,
    Drain,
    Filter,
    MessageState,
    MessageView,
    Page,
    PageRequest,
    QueueState,
    Snapshot,
)
from rsmq_tui.monitor.audit.rsmq import AuditProgress
from rsmq_tui.monitor.filters.search import SearchProgress
from rsmq_tui.monitor.messages.peek import MessageRow
from rsmq_tui.monitor.model import Totals, Verdict
from rsmq_tui.monitor.poller import Polling
from rsmq_tui.protocol import Address, Namespaces, RawMessage, name_bytes, name_of
from rsmq_tui.protocol.editing import Batch, EditExecutor
from rsmq_tui.protocol.kinds import Kind, Tab
from rsmq_tui.protocol.outcomes import Outcome, letters_of, outcome_of
from rsmq_tui.protocol.rsmq.edits import Edit
from rsmq_tui.protocol.rsmq.operations import Argument, Operation
from rsmq_tui.protocol.rsmq.scripts import Script
from rsmq_tui.triage.change import Entry, Step
from rsmq_tui.triage.errors import TriageError
from rsmq_tui.triage.export import Exporting
from rsmq_tui.triage.journal.batches import edits_of, packed_edits
from rsmq_tui.triage.journal.journal import Journal
from rsmq_tui.triage.scope import Marked, Named, Preview, ScanCallback, Scope, Selection
from rsmq_tui.triage.service import Backend
from rsmq_tui.triage.undo.inverse import BatchUndo

TOY = Kind(
    name="toy",
    noun="toy",
    title="a zset of bodies",
    label="toys",
    ns="(toys)",
    actions=frozenset({"delete"}),
    tabs=(Tab("all", part="all"), Tab("ready", "state:ready")),
    parts={
        "editor": "tests.kinds.toy:ToyEditor",
        "undo": "tests.kinds.toy:ToyUndo",
        "batches": "tests.kinds.toy",
        "place": "tests.kinds.test_toy_commands:ToyPlace",
    },
)

# KEYS zset, marker; ARGV kind, then member and score of each edit.
_EDIT = Script("""
if redis.call('EXISTS', KEYS[2]) == 1 then return redis.error_reply('RSMQ voided') end
local outcome = ''
for at = 2, #ARGV, 2 do
  local score = redis.call('ZSCORE', KEYS[1], ARGV[at])
  if ARGV[1] == 'toy-put' then
    outcome = outcome .. (redis.call('ZADD', KEYS[1], 'NX', ARGV[at + 1], ARGV[at]) == 1 and 'd' or 't')
  elseif not score then
    outcome = outcome .. 'g'
  elseif tonumber(score) ~= tonumber(ARGV[at + 1]) then
    outcome = outcome .. 'c'
  else
    redis.call('ZREM', KEYS[1], ARGV[at])
    outcome = outcome .. 'd'
  end
end
redis.call('SET', KEYS[2], outcome)
return outcome
""")


@dataclass(frozen=True, slots=True)
class ToyBatch:
    """Toys that are removed, or put back."""

    in_order: ClassVar[bool] = False
    has_ids: ClassVar[bool] = True
    target: ClassVar[None] = None
    kind: str
    queue: str
    edits: tuple[Edit, ...]

    @property
    def takes_away(self) -> bool:
        return self.kind == "toy-remove"

    @property
    def size(self) -> int:
        return len(self.edits)

    @property
    def read(self) -> Callable[[Any], str]:
        return outcome_of(self.size)

    @property
    def messages(self) -> list[RawMessage]:
        return [message for edit in self.edits if (message := edit.before or edit.after) is not None]

    def as_done(self, outcome: str) -> tuple[Edit, ...]:
        return self.edits

    def inverse(self, outcome: str) -> "ToyBatch | None":
        letters = zip(self.edits, letters_of(outcome), strict=True)
        edits = tuple(Edit(after, before) for (before, after), letter in letters if letter == Outcome.DONE)
        return ToyBatch("toy-put" if self.takes_away else "toy-remove", self.queue, edits) if edits else None

    def operation(self, marker: bytes) -> Operation[str]:
        arguments: list[Argument] = [self.kind]
        for message in self.messages:
            arguments += (message.id, message.score)
        return Operation(_EDIT, (name_bytes(self.queue), marker), tuple(arguments), self.read)


def row_of(batch: ToyBatch) -> dict[str, object]:
    return {"edits": packed_edits(batch.edits)}


def batch_of(row: Mapping[str, Any], queue: str) -> ToyBatch:
    return ToyBatch(row["kind"], queue, tuple(edits_of(row["edits"])))


class ToyEditor(EditExecutor):
    def __init__(self, server: Address | str) -> None:
        super().__init__(server, TOY.ns)

    @classmethod
    def sharing(cls, other: EditExecutor, ns: str) -> "ToyEditor":
        editor = object.__new__(cls)
        editor.share(other, ns)
        return editor

    async def members(self, queue: str) -> list[RawMessage]:
        (found,) = await self._read(("ZRANGE", queue, 0, -1, "WITHSCORES"))
        flat = [part for pair in found for part in (pair if isinstance(pair, list | tuple) else (pair,))]
        return [_raw(body, score) for body, score in zip(flat[::2], flat[1::2], strict=True)]

    async def infer_outcome(self, batch: Batch) -> str:
        assert isinstance(batch, ToyBatch)
        there = {message.id for message in await self.members(batch.queue)}
        letters = ["g" if (message.id in there) is batch.takes_away else "d" for message in batch.messages]
        return "".join(letters) if "d" in letters else ""

    def _operation(self, batch: Batch, token: str) -> Operation[str]:
        assert isinstance(batch, ToyBatch)
        return batch.operation(self._place(token)[1])

    def _place(self, token: str) -> tuple[ConnectionPool, bytes]:
        return self._pool, f"toy-marker:{token}".encode()


def _raw(body: bytes, score: bytes | float) -> RawMessage:
    raw = score if isinstance(score, bytes) else b"%d" % score
    return RawMessage(body, raw, None, None, len(body), body)


class ToyUndo(BatchUndo):
    async def steps(self, editor: EditExecutor, entry: Entry) -> AsyncGenerator[Step, None]:
        inverse = entry.batch.inverse(outcome) if (outcome := self.still_done(entry)) else None
        if inverse is not None:
            yield Step(inverse)


class ToyBackend(Backend):
    def __init__(self, server: Address | str) -> None:
        self._editor = ToyEditor(server)

    @property
    def editor(self) -> EditExecutor:
        return self._editor

    async def preview(self, base: Preview, journal: Journal, scope: Scope | None, on_progress: ScanCallback) -> Preview:
        if base.action.name != "delete":
            raise TriageError("toys can only be deleted")
        found, selection = await self._editor.members(base.action.queue), Selection()
        at_ms = await self._editor.clock_us() // 1000
        meant = _ids(scope)
        selection.add([message for message in found if meant is None or name_of(message.id) in meant], at_ms)
        return replace(base, at_ms=at_ms, count=selection.count, selection=selection)

    async def prepare(self, editor: EditExecutor, journal: Journal, preview: Preview) -> AsyncGenerator[Step, None]:
        assert preview.selection is not None
        edits = tuple(Edit(message, None) for message in preview.selection)
        if edits:
            yield Step(ToyBatch("toy-remove", preview.action.queue, edits))

    def export(self, queue: str, scope: Scope | None, write: Callable[[str], object]) -> Exporting:
        raise TriageError("toys are not exported")

    async def aclose(self) -> None:
        await self._editor.aclose()


def _ids(scope: Scope | None) -> set[str] | None:
    match scope:
        case Marked(messages=messages):
            return {message.id for message in messages}
        case Named(ids=ids):
            return set(ids)
    return None


class ToyPoller(Polling):
    """Polls the toys of these keys, and reads them."""

    def __init__(self, url: str, queues: Iterable[str], *, interval_s: float = 0.05, place: str = "") -> None:
        super().__init__(Snapshot(0, url, TOY.ns, place=place), interval_s=interval_s)
        self._client = redis.asyncio.Redis.from_url(url)
        self._queues, self._place = sorted(queues), place

    def switch(self, ns: str) -> None:
        """Do nothing: toys are in no namespace."""

    async def peek(self, request: PageRequest) -> Page:
        at_ms, rows = await self._rows(request.queue)
        ready = sum(row.state is MessageState.READY for row in rows)
        return Page(request, at_ms, len(rows), ready, 0, tuple(rows))

    async def read(self, queue: str, id: str) -> MessageView:
        at_ms, rows = await self._rows(queue)
        row = next((row for row in rows if row.id == id), None)
        body = None if row is None else name_bytes(id)
        return MessageView(at_ms, id, row, body, len(body or b""))

    async def search(
        self, queue: str, wanted: Filter, limit: int | None = None
    ) -> AsyncGenerator[SearchProgress, None]:
        at_ms = await self._at_ms()
        found = [_raw(*pair) for pair in await self._client.zrange(queue, 0, -1, withscores=True)]
        holds = wanted.predicate()
        matching = tuple(message for message in found if holds(message, at_ms))
        yield SearchProgress(at_ms, len(found), len(found), len(matching), 0, matching)

    async def audit(self, queues: object, **limits: object) -> AsyncGenerator[AuditProgress, None]:
        yield AuditProgress(None, len(self._queues), 0, 0, 0)

    async def due(self, queue: str, at_ms: int) -> tuple[tuple[str, int], ...]:
        hidden = sum(row.state is not MessageState.READY for row in (await self._rows(queue))[1])
        return (("later", hidden),)

    async def namespaces(self) -> Namespaces:
        return Namespaces((), complete=True)

    async def aclose(self) -> None:
        await self._client.aclose()

    async def _read(self) -> Snapshot:
        at_ms = await self._at_ms()
        found = [(queue, (await self._rows(queue))[1]) for queue in self._queues]
        states = tuple(self._state(queue, rows) for queue, rows in found if rows)
        depth, ready = sum(state.depth or 0 for state in states), sum(state.ready or 0 for state in states)
        totals = Totals(depth, ready, depth - ready, verdicts={Verdict.OK: len(states)})
        link = Connection(None, self._clock(), None)
        return replace(self._last, at_ms=at_ms, queues=states, totals=totals, connection=link, paused=self._paused)

    def _state(self, queue: str, rows: list[MessageRow]) -> QueueState:
        ready = sum(row.state is MessageState.READY for row in rows)
        unknown = dict.fromkeys(name for name in QueueState._fields if name not in QueueState._field_defaults)
        known = {"name": queue, "kind": TOY.name, "depth": len(rows), "ready": ready, "hidden": len(rows) - ready}
        known |= {"poison": 0, "highest_rc": 0, "verdict": Verdict.OK, "drain": Drain.UNKNOWN, "problems": ()}
        return QueueState(**{**unknown, **known}, place=self._place)  # type: ignore[arg-type]

    async def _rows(self, queue: str) -> tuple[int, list[MessageRow]]:
        at_ms = await self._at_ms()
        found: Any = await self._client.zrange(queue, 0, -1, withscores=True)
        return at_ms, [_row(body, score, at_ms) for body, score in found]

    async def _at_ms(self) -> int:
        seconds, microseconds = await self._client.time()
        return int(seconds * 1000 + microseconds // 1000)


def _row(body: bytes, due_ms: float, at_ms: int) -> MessageRow:
    state = MessageState.READY if due_ms <= at_ms else MessageState.DELAYED
    return MessageRow(name_of(body), f"{due_ms:.0f}", state, due_ms, None, None, None, len(body), body)
