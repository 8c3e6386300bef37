"""Guarded changes of list queues: as values, and the Lua that applies them, composed of a source and a target.

A value says which items, by their bytes, where they go, and the inverse. An item has no id: a change names values, each
as many times as it occurs; equal items are interchangeable. Here the id of an item is its ``value_id``, ``rc`` is the
token of its lease, and ``score`` is the deadline of its lease.

Places are counted from 0, the item pushed last. Consumers that take items from the other end shift none of them; each
item that producers push shifts all by one. A call reads one window of the list, takes the named items from it, and
keeps the order of the rest. As with RSMQ queues, a call first checks its marker and leaves its outcome there, and
everything that may be refused is checked before the first write.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple

from rsmq_tui.protocol.connections.script_runner import ScriptRunner
from rsmq_tui.protocol.keys import Keys, name_bytes
from rsmq_tui.protocol.lists.naming import Area, ListNames, area_of, digest_of, item_digest, value_id
from rsmq_tui.protocol.lists.scan import whole_walk
from rsmq_tui.protocol.outcomes import FOUND, Outcome, found_in, letters_of, outcome_of
from rsmq_tui.protocol.rsmq.edits import GUARD, Edit, EditCondition, guard_text
from rsmq_tui.protocol.rsmq.operations import Argument, Operation, RawMessage
from rsmq_tui.protocol.rsmq.scripts import Script

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
    conditions: tuple[EditCondition, ...] | None = field(default=None, compare=False)

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

    @property
    def puts_in_list(self) -> bool:
        """True if its items come to a list, where they cannot be told from equal items of others."""
        _, ns = self.destination
        return self.kind in (ListKind.PUT, ListKind.MOVE) and ns is None

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
            target, target_keys = self._side(*self.destination, self.afters)
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
        queue, ns = self.destination
        target, target_ns = (self.queue, self.ns) if self.target is not None else (None, None)
        return ListBatch(kind, queue, edits, self.names, target, ns, target_ns, -self.sent, first=True)

    def traces(self, there: Sequence[bool]) -> str:
        """Return what it may have done, as ``MessageBatch.traces``; ``there`` says which of its items exist."""
        is_put = self.kind is ListKind.PUT
        letters = [Outcome.DONE if is_there is is_put else Outcome.GONE for is_there in there]
        return "".join(letters) if Outcome.DONE in letters else ""

    @property
    def destination(self) -> tuple[str, str | None]:
        """The queue to which its items go, or in which they stay, and its namespace, None for a list."""
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


# KEYS list, leases of the source (RSMQ: zset, hash; none: the marker twice), the same of the target, marker.
# ARGV how many edits, the end that is taken from; then what source and target read in their turn.
_PRELUDE = """
local call, pcall = redis.call, redis.pcall
local marker, count, take = KEYS[5], tonumber(ARGV[1]), ARGV[2]
if call('EXISTS', marker) == 1 then return redis.error_reply('RSMQ voided') end
local place = 2
local function arg() place = place + 1 return ARGV[place] end
local function value(raw) return string.sub(raw, 2) end
local outcome, found, bodies, checks, writes = {}, {}, {}, {}, {}
for n = 1, count do outcome[n] = 'd' end
-- In processing the oldest item is at the right, whichever end consumers take from.
local function is_left_of(area) return area == 'q' and take == 'left' end
-- Tries a command on a key that is not there: what this user may not do, or there is no memory for, is refused now.
local function try(...)
  local reply = pcall(...)
  if type(reply) == 'table' and reply.err and not string.find(reply.err, 'no such key') then return reply end
end
local function try_push(command)
  local refused = try(command, marker, '')
  call('DEL', marker)
  return refused
end
local function push(command, key, items)
  for first = 1, #items, 4000 do call(command, key, unpack(items, first, math.min(first + 3999, #items))) end
end
-- Puts items at the end that is taken from: the first of them is taken next.
local function push_first(command, key, items)
  local turned, last = {}, #items
  for n = 1, last do turned[n] = items[last + 1 - n] end
  push(command, key, turned)
end
"""

# ARGV 'q' or 'p' (in the queue, or in processing); the nearest and the furthest place of the window; how far beyond it
# to look for what has shifted; how many places from 0 on to leave alone; '1' to take the items away; for each
# edit its value, its lease's token or '', and its deadline.
_FROM_LIST = """
local source, leases = KEYS[1], KEYS[2]
local is_left = is_left_of(arg())
local near, far, slack, spared, takes = tonumber(arg()), tonumber(arg()), tonumber(arg()), tonumber(arg()), arg() == '1'
local pop_front, pop_back = is_left and 'LPOP' or 'RPOP', is_left and 'RPOP' or 'LPOP'
local push_front, push_back = is_left and 'LPUSH' or 'RPUSH', is_left and 'RPUSH' or 'LPUSH'
local token, deadline, wanted = {}, {}, {}
for n = 1, count do
  bodies[n], token[n], deadline[n] = arg(), arg(), arg()
  local same = wanted[bodies[n]]
  if not same then
    same = {next = 1}
    wanted[bodies[n]] = same
  end
  same[#same + 1] = n
end
local length = call('LLEN', source)
call('ZCARD', leases)
local low, high = math.max(0, spared, near - slack), math.min(length - 1, far + slack)
local window = {}
if count > 0 and low <= high then
  window = is_left and call('LRANGE', source, -1 - high, -1 - low) or call('LRANGE', source, low, high)
end
local places, heavy = {}, 0
local function look(from, to)
  for at = math.min(from, high), math.max(to, low), -1 do
    local item = window[is_left and high - at + 1 or at - low + 1]
    heavy = heavy + #item
    local same = wanted[item]
    local n = same and same[same.next]
    if n then
      same.next = same.next + 1
      places[n] = at
    end
  end
end
look(far, near)
look(high, far + 1)
look(near - 1, low)
for n = 1, count do
  if not places[n] then
    outcome[n] = 'm'
  elseif token[n] ~= '' then
    local now = call('ZSCORE', leases, token[n] .. ':' .. bodies[n])
    if not now then
      outcome[n] = 'g'
    elseif tonumber(now) ~= tonumber(deadline[n]) then
      outcome[n] = 'c'
    end
  end
end
-- How what goes is taken away, once it is known what that is.
local gone, number, from_front, from_back, way, is_nearer_front = {}, 0, 0, 0, 'none', true
local function plan()
  local nearest, furthest = length, -1
  for n = 1, count do
    if outcome[n] == 'd' then
      gone[places[n]] = true
      number = number + 1
      nearest, furthest = math.min(nearest, places[n]), math.max(furthest, places[n])
    end
  end
  if number == 0 or not takes then return end
  from_front, from_back = length - nearest, furthest + 1
  is_nearer_front = from_front <= from_back
  local depth = is_nearer_front and from_front or from_back
  -- In microseconds, or about: through the nearer end and back, or to each place and then past all to the last of them.
  local through = depth * (1 + heavy / #window * 0.005)
  local walk = number * (2 + depth * 0.0003) + depth * 0.05
  if number == depth then
    way = 'end'
  else
    way = through <= walk and 'through' or 'walk'
  end
end
checks[#checks + 1] = function()
  plan()
  call('ZREM', leases, marker)
  if way == 'none' then return end
  local refused = try(is_nearer_front and pop_front or pop_back, marker)
  if way == 'through' then
    refused = refused or try_push(is_nearer_front and push_front or push_back)
  elseif way == 'walk' then
    refused = refused or try('LSET', marker, 0, '') or try('LREM', marker, 1, '')
  end
  return refused
end
writes[#writes + 1] = function()
  if way == 'end' then
    call(is_nearer_front and pop_front or pop_back, source, number)
  elseif way == 'through' then
    local kept = {}
    if is_nearer_front then
      for n, item in ipairs(call(pop_front, source, from_front)) do
        if not gone[length - n] then kept[#kept + 1] = item end
      end
      push_first(push_front, source, kept)
    else
      for n, item in ipairs(call(pop_back, source, from_back)) do
        if not gone[n - 1] then kept[#kept + 1] = item end
      end
      push_first(push_back, source, kept)
    end
  elseif way == 'walk' then
    local tombstone = marker .. ':gone'
    for at in pairs(gone) do call('LSET', source, is_left and -1 - at or at, tombstone) end
    call('LREM', source, is_nearer_front == is_left and number or -number, tombstone)
  end
  if not takes then return end
  for n = 1, count do
    if outcome[n] == 'd' and token[n] ~= '' then call('ZREM', leases, token[n] .. ':' .. bodies[n]) end
  end
end
"""

# ARGV what each adds to totalsent; the guard, as in ``rsmq.edits``; for each edit its id, score, and rc or ''.
_FROM_RSMQ = (
    """
local zset, hash, counted, guard = KEYS[1], KEYS[2], tonumber(arg()), arg()
local conditions = guard ~= '' and cjson.decode(guard)
"""
    + GUARD
    + """
call('ZCARD', zset) call('HLEN', hash)
local ids = {}
for n = 1, count do
  local id, score, rc = arg(), arg(), arg()
  ids[n] = id
  local now = call('ZSCORE', zset, id)
  local body, now_rc, now_fr = unpack(call('HMGET', hash, id, id .. ':rc', id .. ':fr'))
  local is_same = now and tonumber(now) == tonumber(score) and (now_rc or '') == rc
  if not now or not body then
    outcome[n] = 'g'
  elseif not is_same and not (conditions and is_number(now_rc) and is_number(now_fr)) then
    outcome[n] = 'c'
  elseif has_conditions and not meets_all(now, now_rc) then
    outcome[n] = 'n'
  else
    bodies[n] = body
    if not is_same then found[#found + 1] = table.concat({n - 1, now, now_rc or '', now_fr or ''}, ':') end
  end
end
checks[#checks + 1] = function() call('ZREM', zset, marker) call('HDEL', hash, marker) end
writes[#writes + 1] = function()
  local done = 0
  for n = 1, count do
    if outcome[n] == 'd' then
      done = done + 1
      call('ZREM', zset, ids[n])
      call('HDEL', hash, ids[n])
      -- A message may be called as another's counter.
      for _, name in ipairs({ids[n] .. ':rc', ids[n] .. ':fr'}) do
        if not call('ZSCORE', zset, name) then call('HDEL', hash, name) end
      end
    end
  end
  if counted ~= 0 and done > 0 then pcall('HINCRBY', hash, 'totalsent', counted * done) end
end
"""
)

# ARGV 'q' or 'p'; '1' to put them at the end that is taken from; for each edit a lease's token or '', its deadline; '='
# and its bytes, or '' if the source has them.
_TO_LIST = """
local target, target_leases = KEYS[3], KEYS[4]
local is_target_left, is_first = is_left_of(arg()), arg() == '1'
local add = is_target_left == is_first and 'LPUSH' or 'RPUSH'
call('LLEN', target)
call('ZCARD', target_leases)
local new_token, new_deadline = {}, {}
for n = 1, count do
  new_token[n], new_deadline[n] = arg(), arg()
  local body = arg()
  if body ~= '' then bodies[n] = value(body) end
end
checks[#checks + 1] = function() return try_push(add) or try('ZADD', target_leases, 'XX', 0, marker) end
writes[#writes + 1] = function()
  local items = {}
  for n = 1, count do
    if outcome[n] == 'd' then
      items[#items + 1] = bodies[n]
      if new_token[n] ~= '' then
        call('ZADD', target_leases, new_deadline[n], new_token[n] .. ':' .. bodies[n])
      end
    end
  end
  if is_first then push_first(add, target, items) else push(add, target, items) end
end
"""

# ARGV for each edit the new lease of the item: its token, its deadline; '' for none.
_TO_LEASES = """
local given, until_then = {}, {}
for n = 1, count do given[n], until_then[n] = arg(), arg() end
checks[#checks + 1] = function() return try('ZADD', leases, 'XX', 0, marker) end
writes[#writes + 1] = function()
  for n = 1, count do
    if outcome[n] == 'd' then
      if given[n] ~= '' then call('ZADD', leases, until_then[n], given[n] .. ':' .. bodies[n]) end
      if token[n] ~= '' and token[n] ~= given[n] then call('ZREM', leases, token[n] .. ':' .. bodies[n]) end
    end
  end
end
"""

# ARGV what each adds to totalsent; for each edit its id, score, rc and fr ('' or = and the value), '=' and its body, or
# '' if that comes from the source.
_TO_RSMQ = """
local to_zset, to_hash, to_counted = KEYS[3], KEYS[4], tonumber(arg())
call('ZCARD', to_zset)
if call('HEXISTS', to_hash, 'vt') == 0 then return redis.error_reply('RSMQ queueNotFound') end
local messages, is_known = {}, {}
for n = 1, count do
  local id, score, rc, fr, body = arg(), arg(), arg(), arg(), arg()
  messages[n] = {id, score, rc, fr}
  if body ~= '' then bodies[n] = value(body) end
  if outcome[n] == 'd' then
    if is_known[id] or call('ZSCORE', to_zset, id) or call('HEXISTS', to_hash, id) == 1 then outcome[n] = 't' end
    is_known[id] = true
  end
end
checks[#checks + 1] = function()
  return try('ZADD', to_zset, 'XX', 0, marker) or try('HSET', to_hash, marker, '') or try('HDEL', to_hash, marker)
end
writes[#writes + 1] = function()
  local done = 0
  for n = 1, count do
    if outcome[n] == 'd' then
      done = done + 1
      local id, score, rc, fr = unpack(messages[n])
      call('HSET', to_hash, id, bodies[n])
      if rc ~= '' then call('HSET', to_hash, id .. ':rc', value(rc)) end
      if fr ~= '' then call('HSET', to_hash, id .. ':fr', value(fr)) end
      call('ZADD', to_zset, score, id)
    end
  end
  if to_counted ~= 0 and done > 0 then pcall('HINCRBY', to_hash, 'totalsent', to_counted * done) end
end
"""

_FINISH = (
    """
local letters = table.concat(outcome)
if string.find(letters, 'd', 1, true) then
  for _, check in ipairs(checks) do
    local refused = check()
    if refused then return refused end
  end
  for _, write in ipairs(writes) do write() end
end
"""
    + f"""
if #found > 0 then letters = letters .. '{FOUND}' .. table.concat(found, ' ') end
"""
    + """
-- Removing must work on a server that is out of memory, although the marker then cannot be left.
pcall('SET', marker, letters)
return letters
"""
)

_SOURCES = {"list": _FROM_LIST, "rsmq": _FROM_RSMQ, "": ""}
_TARGETS = {"list": _TO_LIST, "rsmq": _TO_RSMQ, "leases": _TO_LEASES, "": ""}

EDIT_LISTS = {
    (source, target): Script(_PRELUDE + _SOURCES[source] + _TARGETS[target] + _FINISH)
    for source in _SOURCES
    for target in _TARGETS
    if (source or target) and (source, target) != ("rsmq", "rsmq") and (target != "leases" or source == "list")
}
"""The script for what items come from and what they go to: a list, an RSMQ queue, or '' for nothing."""
