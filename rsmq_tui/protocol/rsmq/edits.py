"""Guarded changes: as values, which say what a message or field must be and becomes, and the Lua that applies them.

A message, or field, changes only if it is still what was seen. One call applies one batch. ``inverse`` is the batch
that undoes those of its edits that were done, guarded in the same way: what has been changed since is left alone.

A call first checks its marker, a key of its own, and leaves its outcome there: after a lost connection or a crash the
marker says whether the call was executed, and can prevent it from being executed later. A marker has no expiry at
first, because a server that runs out of memory evicts keys with an expiry first; one that is no longer needed to know
the outcome gets one after a day, since the call may still be under way. Before the call, an empty key is written, the
witness: if it is there and the marker is not, the call was not executed. Everything that may be refused is checked
before the first write, so a call is executed whole or not at all.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import chain
from typing import Any, ClassVar, Literal, NamedTuple, overload

from rsmq_tui.protocol.keys import Keys, name_bytes
from rsmq_tui.protocol.outcomes import FOUND, KEPT, Outcome, found_in, letters_of, outcome_of
from rsmq_tui.protocol.rsmq.operations import Argument, Messages, Operation, RawMessage
from rsmq_tui.protocol.rsmq.scripts import (
    IS_QUEUE_FIELD,
    MICROSECONDS_FROM,
    SCORES_OF,
    SECONDS_BELOW,
    TIME_FROM,
    Script,
)


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


class EditCondition(NamedTuple):
    """A condition on a message when it is changed: all comparisons of one group are true; inverted, of no group."""

    any_of: tuple[tuple[Comparison, ...], ...]
    inverted: bool = False


class Edit(NamedTuple):
    """One message before and after; None if it does not exist. A move carries no body: the server has it."""

    before: RawMessage | None
    after: RawMessage | None


# Faster than Edit(…), as ``raw_message`` is.
_edit = partial(tuple.__new__, Edit)


class Edits(Sequence[Edit]):
    """The edits of a batch as columns: ``before`` and ``after`` are its messages, None if they do not exist.

    An edit is made when it is asked for. Raises ValueError for messages of which only some exist.
    """

    __slots__ = ("after", "before")

    def __init__(self, before: Messages | None, after: Messages | None) -> None:
        if before is not None and after is not None and len(before) != len(after):
            raise ValueError("not as many messages after as before")
        self.before, self.after = before, after

    @classmethod
    def of(cls, edits: Sequence[Edit]) -> "Edits":
        """Return edits as columns."""
        if isinstance(edits, Edits):
            return edits
        sides = cls(_side([before for before, _ in edits]), _side([after for _, after in edits]))
        if len(sides) < len(edits):
            raise ValueError("an edit of nothing")
        return sides

    def __len__(self) -> int:
        return len(self.before or self.after or ())

    def __iter__(self) -> Iterator[Edit]:
        nothing = [None] * len(self)
        return map(_edit, zip(self.before or nothing, self.after or nothing, strict=True))

    @overload
    def __getitem__(self, place: int) -> Edit: ...
    @overload
    def __getitem__(self, place: slice) -> "Edits": ...
    def __getitem__(self, place: int | slice) -> "Edit | Edits":
        before, after = self.before, self.after
        if isinstance(place, slice):
            return Edits(before and before[place], after and after[place])
        return Edit(None if before is None else before[place], None if after is None else after[place])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment] # as of a list

    @property
    def known(self) -> Messages:
        """The messages before, or after if they did not exist before."""
        return self.before or self.after or Messages.of(())

    def kept(self, wanted: Sequence[bool]) -> "Edits":
        """Return the edits for which ``wanted`` is true."""
        return Edits(self.before and self.before.kept(wanted), self.after and self.after.kept(wanted))


def _side(messages: list[RawMessage | None]) -> Messages | None:
    there = [message for message in messages if message is not None]
    if there and len(there) < len(messages):
        raise ValueError("a batch must have all messages or none")
    return Messages.of(there) if there else None


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
    edits: Sequence[Edit]
    target: str | None = None
    must_exist: bool = True
    sent: int = 0
    conditions: tuple[EditCondition, ...] | None = None
    keeps: bool = False

    def as_done(self, outcome: str) -> Sequence[Edit]:
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
        return edits

    def inverse(self, outcome: str) -> "MessageBatch | None":
        """Return the batch that undoes the edits which ``outcome`` says were done; None if there are none."""
        letters, edits = letters_of(outcome), Edits.of(self.as_done(outcome))
        if len(letters) != len(edits):
            raise ValueError(f"no outcome of {len(edits)} edits: {outcome[:80]!r}")
        if letters.count(Outcome.DONE) < len(edits):
            edits = edits.kept([letter == Outcome.DONE for letter in letters])
        if not edits:
            return None
        queue, target = (self.target, self.queue) if self.target is not None else (self.queue, None)
        undone = Edits(edits.after, edits.before)
        return MessageBatch(_INVERSE[self.kind], queue, undone, target, self.must_exist, -self.sent)

    def operation(self, keys: Keys, marker: bytes) -> Operation[str]:
        """Return the call that applies it once and stores its outcome at ``marker``."""
        queues = (self.queue,) if self.target is None else (self.queue, self.target)
        names = [key for queue in queues for key in (keys.messages(queue), keys.attributes(queue))]
        edits = Edits.of(self.edits)
        before, after = edits.known, edits.after or edits.known
        arguments: list[Argument] = [self.kind, "1" if self.must_exist else "0", self.sent, len(edits)]
        arguments += (guard_text(self.conditions), "1" if self.keeps else "0")
        if self.kind is not EditKind.PUT:
            if edits and edits.before is None:
                raise ValueError("an edit of nothing")
            arguments += (*before.ids, b" ".join(before.scores))
            arguments += [rc or b"" for rc in before.rcs] if any(before.rcs) else (b"",)
        if self.kind is EditKind.RESCORE:
            arguments += after.scores
        elif self.kind in (EditKind.MOVE, EditKind.PUT):
            ids, scores, rcs, frs, _, bodies = after.columns
            written = [ids, scores, map(_raw, rcs), map(_raw, frs)]
            written += [map(_raw, bodies)] if self.kind is EditKind.PUT else []
            arguments += chain.from_iterable(zip(*written, strict=True))
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
        return list(Edits.of(self.edits).known.ids)

    def questions(self, keys: Keys) -> list[Sequence[Argument]]:
        """Return the commands whose replies ``traces`` needs."""
        zset, attributes, ids = keys.messages(self.queue), keys.attributes(self.queue), self.ids
        return [("HMGET", attributes, *(id + b":rc" for id in ids)), *(("ZSCORE", zset, id) for id in ids)]

    def traces(self, rcs: Iterable[bytes | None], *scores: bytes | None) -> str:
        """Return what it may have done, from the rc and score of each message now: an outcome, empty if nothing.

        An edit counts as done if its message has changed, whoever changed it: undo is guarded.
        """
        known = Edits.of(self.edits).known
        letters = [self._trace(message, score, rc) for message, rc, score in zip(known, rcs, scores, strict=True)]
        return "".join(letters) if Outcome.DONE in letters else ""

    def _trace(self, message: RawMessage, score: bytes | None, rc: bytes | None) -> Outcome:
        same = score is not None and _same_score(score, message.score) and (rc or b"") == (message.rc or b"")
        if self.kind is EditKind.PUT:
            return Outcome.DONE if same else Outcome.GONE
        if same:
            return Outcome.GONE
        # A message that is still there was neither removed nor moved.
        return Outcome.DONE if score is None or self.kind is EditKind.RESCORE else Outcome.CHANGED


def guard_text(conditions: tuple[EditCondition, ...] | None) -> str:
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
    target: ClassVar[None] = None
    edits: ClassVar[tuple[Edit, ...]] = ()
    queue: str
    fields: tuple[FieldEdit, ...]
    listed_before: bool
    listed_after: bool
    empty: bool = False
    held: bool = False

    def as_done(self, outcome: str) -> tuple[Edit, ...]:
        """Return nothing: it has no messages."""
        return self.edits

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

    def questions(self, keys: Keys) -> list[Sequence[Argument]]:
        """Return the commands whose replies ``traces`` needs."""
        attributes = keys.attributes(self.queue)
        listed = "SISMEMBER", keys.index, name_bytes(self.queue)
        return [listed, *(("HGET", attributes, name) for name, _, _ in self.fields)]

    def traces(self, listed: int, *values: bytes | None) -> str:
        """Return what it may have done, from the index and its fields now, as ``MessageBatch.traces``."""
        same = bool(listed) == self.listed_before and list(values) == [before for _, before, _ in self.fields]
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
    target: ClassVar[None] = None
    edits: ClassVar[tuple[Edit, ...]] = ()
    kind: LooseKind
    queue: str
    fields: tuple[FieldEdit, ...]

    def as_done(self, outcome: str) -> tuple[Edit, ...]:
        """Return nothing: it has no messages."""
        return self.edits

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

    def questions(self, keys: Keys) -> list[Sequence[Argument]]:
        """Return the commands whose replies ``traces`` needs."""
        return [("HGET", keys.attributes(self.queue), name) for name, _, _ in self.fields]

    def traces(self, *values: bytes | None) -> str:
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


# Reads ``conditions``, decoded or false; ``meets_all`` returns whether a message meets all of them.
GUARD = (
    f"""
local TIME_FROM, SECONDS_BELOW, MICROSECONDS_FROM = {TIME_FROM}, {SECONDS_BELOW}, {MICROSECONDS_FROM}
"""
    + """
local now_ms, has_conditions = 0, conditions and #conditions > 0
if has_conditions then
  local time = call('TIME')
  now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
end
local compare = {
  ['='] = function(a, b) return a == b end, ['!='] = function(a, b) return a ~= b end,
  ['<'] = function(a, b) return a < b end, ['<='] = function(a, b) return a <= b end,
  ['>'] = function(a, b) return a > b end, ['>='] = function(a, b) return a >= b end,
}
local function due_ms(score)
  local due = tonumber(score)
  if due < TIME_FROM then return math.max(due, 0) end
  if due < SECONDS_BELOW then return due * 1000 end
  return due >= MICROSECONDS_FROM and due / 1000 or due
end
local function meets_all(score, rc)
  local values = {rc = tonumber(string.match(rc or '', '^%s*([+-]?%d+)')) or 0, due = due_ms(score) - now_ms}
  for _, condition in ipairs(conditions) do
    local is_met = false
    for _, comparisons in ipairs(condition.any_of) do
      local are_met = true
      for _, one in ipairs(comparisons) do are_met = are_met and compare[one[2]](values[one[1]], one[3]) end
      is_met = is_met or are_met
    end
    if is_met == condition.inverted then return false end
  end
  return true
end
local function is_number(raw) return not raw or (#raw <= 20 and string.match(raw, '^%d+$')) end
"""
)

# KEYS zset, hash of the queue; for a move also zset, hash of the target; last the marker.
# ARGV kind, '1' when the queue written to must exist, what each edit adds to totalsent (1, 0 or -1), how many edits,
# the guard, '1' when a move leaves score, rc and fr as it finds them;
# then, except for put, what they must be: each id; all scores as one text, a space between; each rc, or one '' if none
# has any. One text for all scores, because each argument costs time. Then for each edit what is written
#   remove  nothing
#   drop    nothing: as remove, but only what has no body
#   rescore new score
#   move    new id, new score, rc, fr
#   put     id, score, rc, fr, body
# where a raw value to write is '' for none, or = and the value; an rc to compare is '' for none, or the value.
# The guard is '' if score and rc must be what was seen. Otherwise they may be anything that meets all its conditions, a
# JSON array of {any_of: [[[field, operator, number]...]...], inverted: boolean}: field is rc, or due, which is ms from
# now. If rc or fr changed and is not a number, the message counts as changed.
# Returns a letter of ``Outcome`` for each edit; if the guard let changed messages pass, then FOUND or KEPT, and
# place:score:rc:fr of each as it was found, separated by spaces; '' for a missing field.
EDIT_MESSAGES = Script(
    IS_QUEUE_FIELD
    + SCORES_OF
    + f"""
local FOUND, KEPT = '{FOUND}', '{KEPT}'
"""
    + """
local call, pcall = redis.call, redis.pcall
local kind, must_exist, sent, count = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local conditions, keeps = ARGV[5] ~= '' and cjson.decode(ARGV[5]), ARGV[6] == '1'
local is_drop = kind == 'drop'
if is_drop then kind = 'remove' end
local zset, hash, marker = KEYS[1], KEYS[2], KEYS[#KEYS]
local to_zset, to_hash = zset, hash
if #KEYS == 5 then to_zset, to_hash = KEYS[3], KEYS[4] end
if call('EXISTS', marker) == 1 then return redis.error_reply('RSMQ voided') end
call('ZCARD', zset) call('HLEN', hash) call('ZCARD', to_zset) call('HLEN', to_hash)
if must_exist == '1' and call('HEXISTS', to_hash, 'vt') == 0 then
  return redis.error_reply('RSMQ queueNotFound')
end
-- What this user may not do is refused now, not in the middle.
if kind == 'remove' or kind == 'move' then call('ZREM', zset, marker) call('HDEL', hash, marker) end
if kind ~= 'remove' then call('ZADD', to_zset, 'XX', 0, marker) end

local width = ({remove = 0, rescore = 1, move = 4, put = 5})[kind]
local written_at = #ARGV - width * count
local function argument(n, field) return ARGV[written_at + (n - 1) * width + field] end
local function value(raw) return string.sub(raw, 2) end

"""
    + GUARD
    + """
-- A member of the zset may be named as a field of the queue is: that field is the queue's, and no body.
-- Nor is the body of a message called as another's counter: 'a:rc', beside 'a', is left where it is.
local outcome, ids, counters, there, present, is_member, scores, found = {}, {}, {}, {}, {}, {}, {}, {}
local all_alike = false
if kind ~= 'put' and count > 0 then
  ids = {unpack(ARGV, 7, 6 + count)}
  for n = 1, count do counters[n] = ids[n] .. ':rc' end
  if kind ~= 'rescore' then
    for n = 1, count do counters[count + n] = ids[n] .. ':fr' end
  end
  scores = scores_of(zset, ids)
  there = call('HMGET', hash, unpack(counters))
  local all_there = true
  for n = 1, count do all_there = all_there and scores[n] end
  for n = 1, #counters do
    if there[n] then present[#present + 1] = counters[n] end
  end
  if kind ~= 'rescore' and #present > 0 then
    local members = scores_of(zset, present)
    for n = 1, #present do is_member[present[n]] = members[n] end
  end
  -- Mostly all are as they were.
  local wanted, rcs_at = scores, 7 + count
  local are_same = all_there and table.concat(scores, ' ') == ARGV[rcs_at]
  if not are_same then
    wanted = {}
    for score in string.gmatch(ARGV[rcs_at] .. ' ', '([^ ]*) ') do wanted[#wanted + 1] = score end
  end
  local has_rcs, seen = written_at - rcs_at == count, {}
  -- Mostly none was received either, and all go: what is removed is their ids, if each is there once.
  if kind == 'remove' and are_same and #present == 0 and not (is_drop or has_rcs or has_conditions) then
    all_alike = true
    for n = 1, count do
      local id = ids[n]
      if seen[id] or is_queue_field[id] then all_alike = false break end
      seen[id] = true
    end
    if not all_alike then seen = {} end
  end
  for n = 1, all_alike and 0 or count do
    local id, score = ids[n], scores[n]
    if seen[id] or not score then
      outcome[n] = 'g'
    else
      local is_same = (score == wanted[n] or tonumber(score) == tonumber(wanted[n]))
        and (there[n] or '') == (has_rcs and ARGV[rcs_at + n] or '')
      local fr = there[count + n]
      if not is_same and not (conditions and is_number(there[n]) and is_number(fr)) then
        outcome[n] = 'c'
      elseif is_drop and call('HEXISTS', hash, id) == 1 then
        outcome[n] = 'c'
      elseif has_conditions and not meets_all(score, there[n]) then
        outcome[n] = 'n'
      else
        outcome[n] = 'd'
        if not is_same then
          found[#found + 1] = table.concat({n - 1, score, there[n] or '', fr or ''}, ':')
        end
      end
    end
    seen[id] = true
  end
end
-- Where a message goes: its id there, score, rc and fr.
local function written(n)
  if not keeps then return argument(n, 1), argument(n, 2), argument(n, 3), argument(n, 4) end
  local rc, fr = there[n], there[count + n]
  return argument(n, 1), scores[n], rc and '=' .. rc or '', fr and '=' .. fr or ''
end
if kind == 'put' or kind == 'move' then
  local seen, names = {}, {}
  for n = 1, count do
    local id = argument(n, 1)
    names[2 * n - 1], names[2 * n] = id .. ':rc', id .. ':fr'
  end
  local others = count > 0 and call('HMGET', to_hash, unpack(names)) or {}
  -- A counter that is there is somebody else's; only the body of a message that is there may be one and the same.
  local function is_taken(place, raw)
    local now = others[place]
    return now and not ('=' .. now == raw and call('ZSCORE', to_zset, names[place]))
  end
  for n = 1, count do
    if (outcome[n] or 'd') == 'd' then
      local id, score, rc, fr = written(n)
      -- What Lua takes for a number, ZADD may not: refused now as well.
      if not string.match(score, '^%-?%d+%.?%d*$') then call('ZADD', to_zset, 'XX', score, marker) end
      local taken = seen[id] or call('ZSCORE', to_zset, id)
      -- An id without a body that gets its id back may find a body that came meanwhile: that is its own.
      local has_own = kind == 'put' and argument(n, 5) == ''
      if not (taken or is_queue_field[id] or has_own) then taken = call('HEXISTS', to_hash, id) == 1 end
      taken = taken or is_taken(2 * n - 1, rc) or is_taken(2 * n, fr)
      outcome[n] = taken and 't' or 'd'
      seen[id] = true
    end
  end
end

-- Fields come before members: a user who may not HSET is refused at the first of them.
local places = {}
local function put(id, score, rc, fr, body)
  local fields = {}
  if body and not is_queue_field[id] then fields[1], fields[2] = id, body end
  if rc ~= '' then fields[#fields + 1] = id .. ':rc' fields[#fields + 1] = value(rc) end
  if fr ~= '' then fields[#fields + 1] = id .. ':fr' fields[#fields + 1] = value(fr) end
  if #fields > 0 then call('HSET', to_hash, unpack(fields)) end
  places[#places + 1] = score
  places[#places + 1] = id
end

local letters = all_alike and string.rep('d', count) or table.concat(outcome)
local done, members, fields, last = 0, {}, {}, 0
if not all_alike and kind == 'remove' and #present == 0 and letters == string.rep('d', count) then
  all_alike = true
  for n = 1, count do all_alike = all_alike and not is_queue_field[ids[n]] end
end
if all_alike then done, members, fields, last = count, ids, ids, count end
for n = done + 1, count do
  if outcome[n] == 'd' then
    done = done + 1
    local id = ids[n] or argument(n, 1)
    if kind == 'put' then
      local body = argument(n, 5)
      put(id, argument(n, 2), argument(n, 3), argument(n, 4), body ~= '' and value(body))
    elseif kind == 'rescore' then
      members[#members + 1] = argument(n, 1)
      members[#members + 1] = id
    else
      if kind == 'move' then
        local new_id, score, rc, fr = written(n)
        put(new_id, score, rc, fr, call('HGET', hash, id))
      end
      members[done] = id
      for place = n, n + count, count do
        if there[place] and not is_member[counters[place]] then
          last = last + 1
          fields[last] = counters[place]
        end
      end
      if not is_queue_field[id] then
        last = last + 1
        fields[last] = id
      end
    end
  end
end
if #places > 0 then call('ZADD', to_zset, unpack(places)) end
if #members > 0 and kind ~= 'rescore' then
  call('ZREM', zset, unpack(members))
  if last > 0 then call('HDEL', hash, unpack(fields)) end
elseif #members > 0 then
  call('ZADD', zset, 'XX', unpack(members))
end
if sent ~= 0 and done > 0 then pcall('HINCRBY', to_hash, 'totalsent', sent * done) end
if #found > 0 then letters = letters .. (keeps and KEPT or FOUND) .. table.concat(found, ' ') end
-- A server that is out of memory refuses nothing more once a script has removed something.
pcall('SET', marker, letters)
return letters
"""
)

# KEYS zset, hash, index, marker; ARGV queue, whether it is listed before and after ('1', '0'), '1' when it must hold no
# message, then (field, before, after)*, '' for none, or = and the value.
# Changes all, or if anything has changed, nothing: returns 'd' or 'c'.
EDIT_FIELDS = Script("""
local call = redis.call
local zset, hash, index, marker = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
if call('EXISTS', marker) == 1 then return redis.error_reply('RSMQ voided') end
local depth = call('ZCARD', zset)
call('HLEN', hash)
local letter = 'd'
if tostring(call('SISMEMBER', index, ARGV[1])) ~= ARGV[2] then letter = 'c' end
if ARGV[4] == '1' and depth > 0 then letter = 'c' end
for n = 5, #ARGV, 3 do
  local now = call('HGET', hash, ARGV[n])
  if (now and '=' .. now or '') ~= ARGV[n + 1] then letter = 'c' end
end
if letter == 'd' then
  local set, removed = {}, {}
  for n = 5, #ARGV, 3 do
    if ARGV[n + 2] == '' then
      removed[#removed + 1] = ARGV[n]
    else
      set[#set + 1] = ARGV[n]
      set[#set + 1] = string.sub(ARGV[n + 2], 2)
    end
  end
  local joins, leaves = ARGV[2] == '0' and ARGV[3] == '1', ARGV[2] == '1' and ARGV[3] == '0'
  -- What this user may not do is refused now, not in the middle; a SADD can only be tried, and taken back.
  if #removed > 0 then call('HDEL', hash, marker) end
  if joins or leaves then call('SREM', index, marker) end
  if joins then call('SADD', index, ARGV[1]) end
  if #set > 0 then
    local reply = redis.pcall('HSET', hash, unpack(set))
    if type(reply) == 'table' and reply.err then
      if joins then call('SREM', index, ARGV[1]) end
      return reply
    end
  end
  if #removed > 0 then call('HDEL', hash, unpack(removed)) end
  if leaves then call('SREM', index, ARGV[1]) end
end
redis.pcall('SET', marker, letter)
return letter
""")

# KEYS zset, hash, marker; ARGV 'stray' or 'owned', then (field, before, after)*, '' for none, or = and the value.
# A stray field is neither a message's body nor its counter; an owned one is the counter of a message that is there.
# A message that has no body may get one.
# Returns a letter of ``Outcome`` for each field.
EDIT_LOOSE = Script("""
local call = redis.call
local zset, hash, marker = KEYS[1], KEYS[2], KEYS[3]
if call('EXISTS', marker) == 1 then return redis.error_reply('RSMQ voided') end
call('ZCARD', zset) call('HLEN', hash)
local counters = {[':rc'] = 3, [':fr'] = 3, [':meta'] = 5}
local function counter_length(name)
  return counters[string.sub(name, -3)] or counters[string.sub(name, -5)]
end
local function is_owned(name)
  local long = counter_length(name)
  return long and call('ZSCORE', zset, string.sub(name, 1, -1 - long))
end
local outcome, set, removed = {}, {}, {}
for n = 2, #ARGV, 3 do
  local name, before, after = ARGV[n], ARGV[n + 1], ARGV[n + 2]
  local now, letter = call('HGET', hash, name), 'd'
  if (now and '=' .. now or '') ~= before then
    letter = now and 'c' or 'g'
  elseif call('ZSCORE', zset, name) then
    -- The id of a body that was taken away may have come meanwhile: what is put back is that message's own.
    local is_its_body = ARGV[1] == 'stray' and before == '' and after ~= '' and not counter_length(name)
    if not is_its_body then letter = 'c' end
  elseif ARGV[1] == 'stray' then
    if is_owned(name) then letter = 'c' end
  elseif not is_owned(name) then
    letter = 'g'
  end
  outcome[#outcome + 1] = letter
  if letter == 'd' and after == '' then
    removed[#removed + 1] = name
  elseif letter == 'd' then
    set[#set + 1] = name
    set[#set + 1] = string.sub(after, 2)
  end
end
-- What this user may not do is refused now, not in the middle.
if #removed > 0 then call('HDEL', hash, marker) end
if #set > 0 then call('HSET', hash, unpack(set)) end
if #removed > 0 then call('HDEL', hash, unpack(removed)) end
local letters = table.concat(outcome)
redis.pcall('SET', marker, letters)
return letters
""")
