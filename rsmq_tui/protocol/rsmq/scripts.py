"""The Lua of operations and reads.

A script of an operation has real keys in KEYS, values in ARGV, and reads TIME itself, so an operation is one round
trip. KEYS[1] is the zset of ids and KEYS[2] the attributes hash: two keys of one slot if the namespace has a hash tag,
as Redis Cluster needs. A refusal is the error reply ``RSMQ <code>``.

A script that reads serves many queues, or one page, in one call, and does not write. An error with one key is returned
in that key's place (``pcall``), and does not affect the others.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from rsmq_tui.protocol.keys import ATTRIBUTE_FIELDS, FOREIGN_FIELDS
from rsmq_tui.protocol.replies import (
    Argument,
    Shape,
    array,
    blob,
    blobs,
    count,
    cursor,
    either,
    integer,
    moment,
    number,
    optional,
    optional_blobs,
    pairs,
    record,
    scored,
)

ReplyShape = Callable[[Sequence[bytes], Sequence[Argument]], Shape]


def _anything_at_all(reply: Any) -> bool:
    return True


def _anything(keys: Sequence[bytes], arguments: Sequence[Argument]) -> Shape:
    return _anything_at_all


@dataclass(frozen=True, slots=True)
class Script:
    """A Lua text and its SHA1, for EVALSHA.

    ``reply`` returns the shape of the reply, given the keys and arguments of a call; an ``Operation`` decodes the
    reply of its script itself.
    """

    text: str
    reply: ReplyShape = field(default=_anything, repr=False, compare=False)
    sha: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sha", hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest())


_NOW = """
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now = math.floor(now_us / 1000)
local function int(n) return string.format('%.0f', n) end
local now_ms = int(now)
"""

# The canonical client's _getQueue: a queue exists when these three fields do. Its parseInt takes 15.5 for 15.
_QUEUE = """
local q = redis.call('HMGET', KEYS[2], 'vt', 'delay', 'maxsize')
if not (q[1] and q[2] and q[3]) then return redis.error_reply('RSMQ queueNotFound') end
local function seconds(given, name, default)
  if given ~= '' then return tonumber(given) end
  local n = tonumber(default)
  if not n or n ~= n or n < 0 or n >= 10000000 then return nil, redis.error_reply('RSMQ invalidValue ' .. name) end
  return math.floor(n)
end
"""

# If a member of the zset has the name of a field of the queue, that field is not its body.
IS_QUEUE_FIELD = f"""
local is_queue_field = {{{", ".join(f"{name} = true" for name in (*ATTRIBUTE_FIELDS, *FOREIGN_FIELDS))}}}
"""

# ZMSCORE exists since Redis 6.2.
SCORES_OF = """
local function scores_of(key, names)
  local scores = redis.pcall('ZMSCORE', key, unpack(names))
  if scores.err then
    scores = {}
    for n = 1, #names do scores[n] = redis.call('ZSCORE', key, names[n]) end
  end
  return scores
end
"""

# KEYS[1] attributes hash, KEYS[2] index; ARGV queue, vt, delay, maxsize.
# A hash with a vt is a queue, listed or not. If it has none, its fields are kept, as all clients do. Unlike in the
# canonical client, a refusal changes nothing.
CREATE_QUEUE = Script("""
if redis.call('HEXISTS', KEYS[1], 'vt') == 1 then return redis.error_reply('RSMQ queueExists') end
local sec = redis.call('TIME')[1]
redis.call('SADD', KEYS[2], ARGV[1])
local fields = {'vt', ARGV[2], 'delay', ARGV[3], 'maxsize', ARGV[4], 'created', sec, 'modified', sec}
for i = 1, #fields, 2 do redis.call('HSETNX', KEYS[1], fields[i], fields[i + 1]) end
return 1
""")

# KEYS[1] zset, KEYS[2] attributes hash, KEYS[3] index; ARGV queue. As the canonical client does, a name left in the
# index without its keys is removed, although the queue is then not found. Keys of another type are not a queue's: ZCARD
# and HLEN refuse them before anything is removed.
DELETE_QUEUE = Script("""
redis.call('ZCARD', KEYS[1])
redis.call('HLEN', KEYS[2])
redis.call('SREM', KEYS[3], ARGV[1])
if redis.call('DEL', KEYS[2], KEYS[1]) == 0 then return redis.error_reply('RSMQ queueNotFound') end
return 1
""")

# ARGV (name, value)* of attributes to set, in the canonical order vt, maxsize, delay; without any it only reads.
# Everything is read before anything is set, so that a wrong type changes nothing.
ATTRIBUTES = Script(
    _NOW
    + """
local msgs, hidden = redis.call('ZCARD', KEYS[1]), redis.call('ZCOUNT', KEYS[1], '(' .. int(now), '+inf')
if #ARGV > 0 then
  local q = redis.call('HMGET', KEYS[2], 'vt', 'delay', 'maxsize')
  if not (q[1] and q[2] and q[3]) then return redis.error_reply('RSMQ queueNotFound') end
  redis.call('HSET', KEYS[2], 'modified', time[1])
  for i = 1, #ARGV, 2 do redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1]) end
end
local fields = redis.call('HMGET', KEYS[2], 'vt', 'delay', 'maxsize', 'totalrecv', 'totalsent', 'created', 'modified')
if not fields[1] then return redis.error_reply('RSMQ queueNotFound') end
return {fields, msgs, hidden}
"""
)

# ARGV delay or '', size of the longest body. Each further id of a batch is a microsecond later, so that a batch keeps
# its order among equal scores.
_BEFORE_SENDING = """
local delay, refused = seconds(ARGV[1], 'delay', q[2])
if refused then return refused end
local maxsize = tonumber(q[3])
if maxsize and maxsize ~= -1 and tonumber(ARGV[2]) > maxsize then return redis.error_reply('RSMQ messageTooLong') end
local digits = '0123456789abcdefghijklmnopqrstuvwxyz'
local function base36(n)
  local out = {}
  for i = 10, 1, -1 do
    local d = n % 36
    out[i] = string.sub(digits, d + 1, d + 1)
    n = (n - d) / 36
  end
  return table.concat(out)
end
local due = int(now + delay * 1000)
local ids = {}
"""

# ARGV as above, channel or '', then (suffix, body)*. Returns the ids.
# A total that is no number is left alone: the messages are stored by then, and after an error they would be sent again.
SEND = Script(
    _NOW
    + _QUEUE
    + _BEFORE_SENDING
    + """
for i = 4, #ARGV, 2 do
  local id = base36(now_us + #ids) .. ARGV[i]
  redis.call('ZADD', KEYS[1], due, id)
  redis.call('HSET', KEYS[2], id, ARGV[i + 1])
  ids[#ids + 1] = id
end
redis.pcall('HINCRBY', KEYS[2], 'totalsent', #ids)
if ARGV[3] ~= '' then redis.pcall('PUBLISH', ARGV[3], redis.call('ZCARD', KEYS[1])) end
return ids
"""
)

# KEYS[3] the set of what was sent before; ARGV as above, how many seconds to keep it, then (mark, suffix, body)*. Sends
# those whose mark is not in the set, and returns 1 for each of them, else 0. ZCARD refuses a wrong type before anything
# is marked. The first 12 bytes of a mark stand for the content. If the write may be repeated, KEYS[4] is the hash of
# how often each content was sent, by all writes, and KEYS[5] that of how often this write has had it: what it has had
# no more often than it was sent is not sent again, whichever partition it is in now.
SEND_ONCE = Script(
    _NOW
    + _QUEUE
    + _BEFORE_SENDING
    + """
redis.call('ZCARD', KEYS[1])
local out = {}
for i = 4, #ARGV, 3 do
  local fresh = redis.call('SADD', KEYS[3], ARGV[i])
  if fresh == 1 and KEYS[4] then
    local content = string.sub(ARGV[i], 1, 12)
    local had = redis.call('HINCRBY', KEYS[5], content, 1)
    if had > tonumber(redis.call('HGET', KEYS[4], content) or 0) then
      redis.call('HSET', KEYS[4], content, had)
    else
      fresh = 0
    end
  end
  if fresh == 1 then
    local id = base36(now_us + #ids) .. ARGV[i + 1]
    redis.call('ZADD', KEYS[1], due, id)
    redis.call('HSET', KEYS[2], id, ARGV[i + 2])
    ids[#ids + 1] = id
  end
  out[#out + 1] = fresh
end
for n = 3, #KEYS do redis.call('EXPIRE', KEYS[n], ARGV[3]) end
if #ids > 0 then redis.pcall('HINCRBY', KEYS[2], 'totalsent', #ids) end
return out
"""
)

# Shared by receive and pop: take the ready messages in the canonical order, score then id. An id without a body cannot
# be delivered, and must not block those behind it (it stops some clients for good). Nor must a total or a count that is
# no number: each receive would hide a message without delivering it.
_TAKE = """
local out, seen = {}, {}
for pass = 1, 100 do
  local ids = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now_ms, 'LIMIT', 0, wanted - #out)
  local fresh = false
  for _, id in ipairs(ids) do
    if not seen[id] then
      seen[id], fresh = true, true
      local found = redis.call('HMGET', KEYS[2], id, id .. ':rc', id .. ':fr')
      if is_queue_field[id] then found[1] = false end
      settle(id, found[1])
      if found[1] then
        redis.pcall('HINCRBY', KEYS[2], 'totalrecv', 1)
        out[#out + 1] = {id, found[1], count(id, found[2], found[3])}
      end
      forget(id, found[2], found[3])
    end
  end
  if #out >= wanted or not fresh then break end
end
return {now_ms, out}
"""

# ARGV vt or '', how many. An id without a body is hidden like a received message, but at least for a second.
RECEIVE = Script(
    _NOW
    + _QUEUE
    + IS_QUEUE_FIELD
    + """
local vt, refused = seconds(ARGV[1], 'vt', q[1])
if refused then return refused end
local wanted = tonumber(ARGV[2])
local function settle(id, body)
  redis.call('ZADD', KEYS[1], int(now + (body and vt or math.max(vt, 1)) * 1000), id)
end
local function count(id, rc, fr)
  if not rc then
    redis.call('HSET', KEYS[2], id .. ':rc', '1', id .. ':fr', now_ms)
    return 1, now_ms
  end
  local n = redis.pcall('HINCRBY', KEYS[2], id .. ':rc', 1)
  if type(n) ~= 'number' then
    redis.call('HSET', KEYS[2], id .. ':rc', '1')
    n = 1
  end
  if n > 1 and fr then return n, fr end
  redis.call('HSET', KEYS[2], id .. ':fr', now_ms)
  return n, now_ms
end
local function forget() end
"""
    + _TAKE
)

# ARGV how many. An id without a body is removed, as by the canonical client's pop.
POP = Script(
    _NOW
    + _QUEUE
    + IS_QUEUE_FIELD
    + """
local wanted = tonumber(ARGV[1])
local function settle(id) redis.call('ZREM', KEYS[1], id) end
local function count(id, rc, fr)
  local n = rc and redis.pcall('HINCRBY', KEYS[2], id .. ':rc', 1)
  if type(n) ~= 'number' then n = 1 end
  return n, n > 1 and fr or now_ms
end
-- Never a field of the queue, nor the body of a message that is named as a counter of this one (`a:rc` beside `a`).
local function forget(id, rc, fr)
  local mine = {}
  if not is_queue_field[id] then mine[1] = id end
  for suffix, value in pairs({[':rc'] = rc, [':fr'] = fr}) do
    if value and not redis.call('ZSCORE', KEYS[1], id .. suffix) then mine[#mine + 1] = id .. suffix end
  end
  if #mine > 0 then redis.call('HDEL', KEYS[2], unpack(mine)) end
end
"""
    + _TAKE
)

# ARGV ids. For each, 1 if the id was in the zset and had fields, else 0, as in the canonical client. Fields
# of an id that is not in the zset are removed, as that client does, but only if the name has the form of an id.
# The body of a message that is named as another's counter (`a:rc` beside `a`) stays when that one is deleted.
# HLEN refuses a wrong type before anything is removed; names of fields of the queue are refused by the client.
DELETE = Script(
    SCORES_OF
    + """
redis.call('HLEN', KEYS[2])
local counters, out = {}, {}
for i, id in ipairs(ARGV) do counters[2 * i - 1], counters[2 * i] = id .. ':rc', id .. ':fr' end
local is_message = scores_of(KEYS[1], counters)
for i, id in ipairs(ARGV) do
  local removed, fields = redis.call('ZREM', KEYS[1], id), 0
  if removed == 1 or (#id == 32 and string.find(id, '^%w+$')) then
    local mine = {id}
    for n = 2 * i - 1, 2 * i do
      if not is_message[n] then mine[#mine + 1] = counters[n] end
    end
    fields = redis.call('HDEL', KEYS[2], unpack(mine))
  end
  out[i] = (removed == 1 and fields > 0) and 1 or 0
end
return out
"""
)

# ARGV vt, ids. Visibility counts from now; 0 if the id is not in the queue.
VISIBILITY = Script(
    _NOW
    + _QUEUE
    + """
local due = int(now + ARGV[1] * 1000)
local out = {}
for i = 2, #ARGV do
  local known = redis.call('ZSCORE', KEYS[1], ARGV[i])
  if known then redis.call('ZADD', KEYS[1], due, ARGV[i]) end
  out[i - 1] = known and 1 or 0
end
return out
"""
)

# ARGV (id, body, due ms, rc, fr ms or '')*. Writes each message exactly; an id that is already there is left alone, and
# so is one whose fields belong to another message (`a:rc` beside `a`).
RESTORE = Script(
    _NOW
    + _QUEUE
    + """
local out = {}
local function is_there(id) return redis.call('ZSCORE', KEYS[1], id) end
for i = 1, #ARGV, 5 do
  local id = ARGV[i]
  local owner, added = string.match(id, '^(.*):[rf][cr]$'), 0
  if not (owner and is_there(owner) or is_there(id .. ':rc') or is_there(id .. ':fr')) then
    added = redis.call('ZADD', KEYS[1], 'NX', ARGV[i + 2], id)
  end
  if added == 1 then
    redis.call('HSET', KEYS[2], id, ARGV[i + 1])
    if ARGV[i + 3] ~= '0' then redis.call('HSET', KEYS[2], id .. ':rc', ARGV[i + 3]) end
    if ARGV[i + 4] ~= '' then redis.call('HSET', KEYS[2], id .. ':fr', ARGV[i + 4]) end
  end
  out[#out + 1] = added
end
return out
"""
)


# Scores are milliseconds, but some clients write seconds or microseconds. Those below SECONDS_BELOW can only be seconds
# (or errors long past), those from MICROSECONDS_FROM on only microseconds.
SECONDS_BELOW = 100_000_000_000
MICROSECONDS_FROM = 100_000_000_000_000
# Scores below this are not a time in seconds after 1973: 0, negative numbers and -inf mean 'at once'.
TIME_FROM = 100_000_000

# A receive count set by hand may have any number of digits; doubles, the numbers of Lua, are exact up to this.
RC_MAX = 999_999_999_999_999

# [fields, depth, first id, first score, hidden]; the last three only for a queue that holds messages, and after them 1
# if the first message has no body. It is empty for a queue that was deleted since the index was read.
# ``fields`` are the raw ATTRIBUTE_FIELDS, or an error text; ``depth`` is a number, or an error text.
Row = list[Any]

_MAYBE = optional(blob)


def _are_flights(reply: Any) -> bool:
    return blobs(reply) and len(reply) % 4 == 0


def _is_empty(reply: Any) -> bool:
    return bool(reply == b"")


# Of a page: id, score, rc, fr, size, preview.
_PEEKED = record(blob, number, _MAYBE, _MAYBE, count, _MAYBE)

_FIELDS = ", ".join(f"'{name}'" for name in ATTRIBUTE_FIELDS)

# KEYS (zset, attributes hash)*, index; ARGV the time of the poll in ms. For each queue a Row; that of one which holds
# messages also says when time alone will next change it, before the last element: the smallest score above now, '' for
# never, or 0 if that is not known.
# The poll's time was read a round trip ago: messages that were sent since then are not hidden.
# The first score decides the unit of all: only a queue that starts below milliseconds is counted in each unit's range.
QUEUE_ROWS = Script(
    f"""
local call, pcall = redis.call, redis.pcall
local time = call('TIME')
local now_ms = math.max(tonumber(ARGV[1]), math.floor((time[1] * 1000000 + time[2]) / 1000))
local now = string.format('%.0f', now_ms)
local after = '(' .. now
local index = KEYS[#KEYS]
-- The key of the zset is the prefix, which the index begins with too, and then the name.
local function is_deleted(zset, fields)
  if type(fields) == 'string' then return false end
  for n = 1, {len(ATTRIBUTE_FIELDS)} do if fields[n] then return false end end
  return pcall('SISMEMBER', index, string.sub(zset, #index - 5)) == 0
end
local function hidden_of(zset, depth, first)
  local score = tonumber(first)
  if score >= {SECONDS_BELOW} and score < {MICROSECONDS_FROM} then
    if score > now_ms then return depth, first end
    local hidden = call('ZCOUNT', zset, after, '+inf')
    if hidden == 0 then return 0, '' end
    return hidden, call('ZRANGE', zset, depth - hidden, depth - hidden, 'WITHSCORES')[2]
  end
  return call('ZCOUNT', zset, '(' .. string.sub(now, 1, -4), '({SECONDS_BELOW}')
    + call('ZCOUNT', zset, after, '({MICROSECONDS_FROM}')
    + call('ZCOUNT', zset, after .. '000', '+inf'), 0
end
local function row_of(zset, attributes)
  local fields = pcall('HMGET', attributes, {_FIELDS})
  local depth = pcall('ZCARD', zset)
  if fields.err then fields = fields.err end
  if type(depth) == 'table' then return {{fields, depth.err}} end
  if depth == 0 then return is_deleted(zset, fields) and {{}} or {{fields, depth}} end
  local head = call('ZRANGE', zset, 0, 0, 'WITHSCORES')
  local hidden, due = hidden_of(zset, depth, head[2])
  local is_bodiless = type(fields) == 'table' and call('HEXISTS', attributes, head[1]) == 0
  return {{fields, depth, head[1], head[2], hidden, due, is_bodiless and 1 or nil}}
end
local out = {{}}
for n = 1, (#KEYS - 1) / 2 do out[n] = row_of(KEYS[2 * n - 1], KEYS[2 * n]) end
return out
""",
    # Rows that changed are checked one by one later.
    reply=lambda keys, arguments: array(lambda row: type(row) is list, len(keys) // 2),
)

# KEYS as above; ARGV threshold, then for each queue: score and id of the message before the page, '' and '' for none,
# how many to read, and ''. A message that has left keeps its place. Scores only rise when messages are received, so
# pages in order of scores skip nothing that stays in the queue.
# With a time in ms in place of the last '', the page is that around the first message that is hidden then, where
# messages that are received again and again are found, in flight or just visible again; bodies are not looked for.
# For each queue: how many were read, the highest count, the ids that reach the threshold, those without a body,
# the last score and id, 1 if no message follows them, else 0; and, with a time, up to FLIGHTS_MAX messages that are
# in flight then, at equal distances in the order of their scores: id, score, rc and fr of each.
FLIGHTS_MAX = 20
MESSAGE_PAGES = Script(
    f"""
local call, pcall, threshold = redis.call, redis.pcall, tonumber(ARGV[1])
local function rank_behind(zset, score, id)
  if id == '' then return 0 end
  local now_at = call('ZSCORE', zset, id)
  if now_at and tonumber(now_at) == tonumber(score) then return call('ZRANK', zset, id) + 1 end
  return call('ZCOUNT', zset, '-inf', '(' .. score)
end
local function flights_of(zset, attributes, ready, depth)
  local hidden, found, names, flights = depth - ready, {{}}, {{}}, {{}}
  if hidden <= {FLIGHTS_MAX} then
    found = hidden > 0 and call('ZRANGE', zset, ready, -1, 'WITHSCORES') or found
  else
    for n = 0, {FLIGHTS_MAX} - 1 do
      local rank = ready + math.floor(n * (hidden - 1) / ({FLIGHTS_MAX} - 1))
      local one = call('ZRANGE', zset, rank, rank, 'WITHSCORES')
      found[2 * n + 1], found[2 * n + 2] = one[1], one[2]
    end
  end
  if #found == 0 then return flights end
  for n = 1, #found, 2 do names[n], names[n + 1] = found[n] .. ':rc', found[n] .. ':fr' end
  local fields = pcall('HMGET', attributes, unpack(names))
  for n = 1, fields.err and 0 or #found, 2 do
    if fields[n] and fields[n + 1] then
      for _, each in ipairs({{found[n], found[n + 1], fields[n], fields[n + 1]}}) do flights[#flights + 1] = each end
    end
  end
  return flights
end
local function page_of(zset, attributes, score, id, size, now)
  local depth, ids, names, flights = pcall('ZCARD', zset), {{}}, {{}}, {{}}
  if type(depth) == 'number' then
    local start, stop
    if now == '' then
      start = rank_behind(zset, score, id)
      stop = start + size - 1
    else
      local ready = call('ZCOUNT', zset, '-inf', now)
      start, stop = math.max(0, ready - size / 2), ready + size / 2 - 1
      flights = flights_of(zset, attributes, ready, depth)
    end
    ids = call('ZRANGE', zset, start, stop)
    depth = depth - start
  end
  for n = 1, #ids do names[n] = ids[n] .. ':rc' end
  local counts = #ids > 0 and pcall('HMGET', attributes, unpack(names)) or {{}}
  if #ids == 0 or counts.err then return {{0, 0, {{}}, {{}}, score, id, 1, {{}}}} end
  local highest, poison, missing = 0, {{}}, {{}}
  for n = 1, #ids do
    local rc = math.min(tonumber(string.match(counts[n] or '', '^%s*([+-]?%d+)')) or 0, {RC_MAX})
    if rc > highest then highest = rc end
    if rc >= threshold then poison[#poison + 1] = ids[n] end
    if now == '' and call('HEXISTS', attributes, ids[n]) == 0 then missing[#missing + 1] = ids[n] end
  end
  local last = ids[#ids]
  return {{#ids, highest, poison, missing, call('ZSCORE', zset, last), last, #ids >= depth and 1 or 0, flights}}
end
local out = {{}}
for n = 1, #KEYS / 2 do
  local at = 4 * n
  out[n] = page_of(KEYS[2 * n - 1], KEYS[2 * n], ARGV[at - 2], ARGV[at - 1], tonumber(ARGV[at]), ARGV[at + 1])
end
return out
""",
    reply=lambda keys, arguments: array(
        record(count, integer, blobs, blobs, either(number, _is_empty), blob, count, _are_flights), len(keys) // 2
    ),
)

# KEYS[1] zset, KEYS[2] attributes hash; ARGV part (all, ready, hidden), where (first, last, after, before), anchor
# score, anchor id, how many, preview bytes, longest body to preview, most body bytes to look at, how many messages the
# page is moved by.
# The page is found by rank; an anchor that has left the queue is placed by bisection on (score, id).
PAGE = Script(
    """
local time = redis.call('TIME')
local now = string.format('%.0f', math.floor((time[1] * 1000000 + time[2]) / 1000))
local depth = redis.call('ZCARD', KEYS[1])
local ready = redis.call('ZCOUNT', KEYS[1], '-inf', now)
local low, high = 0, depth
if ARGV[1] == 'ready' then high = ready elseif ARGV[1] == 'hidden' then low = ready end
-- Lua compares strings by the server's locale, a zset by their bytes.
local function is_before(one, other)
  for i = 1, math.min(#one, #other) do
    local a, b = string.byte(one, i), string.byte(other, i)
    if a ~= b then return a < b end
  end
  return #one < #other
end
local function rank_of(score, id)
  -- One that was received since then lies elsewhere: its old place is what is meant.
  local now_at = redis.call('ZSCORE', KEYS[1], id)
  if now_at and tonumber(now_at) == tonumber(score) then return redis.call('ZRANK', KEYS[1], id), true end
  local from = redis.call('ZCOUNT', KEYS[1], '-inf', '(' .. score)
  local to = redis.call('ZCOUNT', KEYS[1], '-inf', score)
  while from < to do
    local middle = math.floor((from + to) / 2)
    if is_before(redis.call('ZRANGE', KEYS[1], middle, middle)[1], id) then from = middle + 1 else to = middle end
  end
  return from, false
end
local count, start = tonumber(ARGV[5]), low
if ARGV[2] == 'last' then
  start = high - count
elseif ARGV[2] == 'after' then
  local rank, there = rank_of(ARGV[3], ARGV[4])
  start = there and rank + 1 or rank
elseif ARGV[2] == 'before' then
  start = rank_of(ARGV[3], ARGV[4]) - count
elseif ARGV[2] == 'at' then
  start = rank_of(ARGV[3], ARGV[4])
end
local offset = tonumber(ARGV[9])
start = start + offset
if offset ~= 0 and start >= high then start = high - count end
start = math.max(low, math.min(start, high - 1))
local stop = math.min(start + count, high) - 1
local rows = {}
local budget = tonumber(ARGV[8])
local found = stop >= start and redis.call('ZRANGE', KEYS[1], start, stop, 'WITHSCORES') or {}
for i = 1, #found, 2 do
  local id = found[i]
  local meta = redis.call('HMGET', KEYS[2], id .. ':rc', id .. ':fr')
  local size = redis.call('HSTRLEN', KEYS[2], id)
  local preview = false
  if size > 0 or redis.call('HEXISTS', KEYS[2], id) == 1 then
    preview = ''
    if size <= tonumber(ARGV[7]) and size <= budget then
      budget = budget - size
      preview = string.sub(redis.call('HGET', KEYS[2], id), 1, tonumber(ARGV[6]))
    end
  end
  rows[#rows + 1] = {id, found[i + 1], meta[1], meta[2], size, preview}
end
return {now, depth, ready, start, rows}
""",
    reply=lambda keys, arguments: record(moment, count, count, count, array(_PEEKED)),
)

# KEYS as above; ARGV 1 for sizes or 0, then a ZSCAN, or a ZRANGE with scores, without its key. The time, the depth, the
# next cursor, what was found, and rc and fr of each message found: a receive changes score, rc and fr, so they must be
# read together. Last the lengths of their bodies, or nothing.
COUNTED_STEP = Script(
    """
local time = redis.call('TIME')
local now = string.format('%.0f', math.floor((time[1] * 1000000 + time[2]) / 1000))
local cursor, found = '0', redis.call(ARGV[2], KEYS[1], unpack(ARGV, 3))
if ARGV[2] == 'ZSCAN' then cursor, found = found[1], found[2] end
local values, sizes = {}, {}
for first = 1, #found, 500 do
  local names = {}
  for n = first, math.min(first + 499, #found), 2 do
    names[n - first + 1], names[n - first + 2] = found[n] .. ':rc', found[n] .. ':fr'
  end
  for n, value in ipairs(redis.call('HMGET', KEYS[2], unpack(names))) do values[first + n - 1] = value end
end
if ARGV[1] == '1' then
  for n = 1, #found, 2 do sizes[(n + 1) / 2] = redis.call('HSTRLEN', KEYS[2], found[n]) end
end
return {now, redis.call('ZCARD', KEYS[1]), cursor, found, values, sizes}
""",
    reply=lambda keys, arguments: partial(_is_counted_step, with_sizes=arguments[0] == 1),
)


def _is_counted_step(reply: Any, *, with_sizes: bool) -> bool:
    if not record(moment, count, cursor, scored, _anything_at_all, array(count))(reply):
        return False
    # There are as many counts as ids and scores.
    many = len(reply[3])
    return optional_blobs(many)(reply[4]) and len(reply[5]) == (many // 2 if with_sizes else 0)


# How long a step of the scan below may take on the server, which the next step's count is adapted to.
FILTERED_STEP_US = 1_000
# KEYS zset, attributes hash; ARGV cursor of the hash, count, a pattern of Lua, '1' if it is plain text, '1' if bodies
# are compared in small letters of ASCII, how many bytes of bodies may be returned, then texts: a body that is not ASCII
# and contains one of them is returned too.
# The time, the depth, the next cursor, how many bodies were met, their bytes, how many us it took (0 if the server does
# not tell), ids and bodies of those that may match, and the ids of others that may, whose bodies are not returned.
FILTERED_BODIES = Script(
    IS_QUEUE_FIELD
    + """
local has_clock, clock = pcall(function() return os.clock end)
local begun = has_clock and clock() or 0
local find, lower = string.find, string.lower
local pattern, is_plain, in_lower, budget = ARGV[3], ARGV[4] == '1', ARGV[5] == '1', tonumber(ARGV[6])
local longest, texts = budget, {unpack(ARGV, 7)}
local function is_counter(name)
  local last = string.sub(name, -3)
  return last == ':rc' or last == ':fr' or string.sub(name, -5) == ':meta'
end
local function may_match(body)
  if find(in_lower and lower(body) or body, pattern, 1, is_plain) then return true end
  if #texts == 0 or not find(body, '[\\128-\\255]') then return false end
  for n = 1, #texts do
    if find(body, texts[n], 1, true) then return true end
  end
  return false
end
local time = redis.call('TIME')
local now = string.format('%.0f', math.floor((time[1] * 1000000 + time[2]) / 1000))
local depth = redis.call('ZCARD', KEYS[1])
local reply = redis.call('HSCAN', KEYS[2], ARGV[1], 'COUNT', ARGV[2])
local met, bytes, found, left, fields = 0, 0, {}, {}, reply[2]
for n = 1, #fields, 2 do
  local name, body = fields[n], fields[n + 1]
  if #name == 32 or not (is_counter(name) or is_queue_field[name]) then
    met, bytes = met + 1, bytes + #body
    if #body > longest then
      left[#left + 1] = name
    elseif may_match(body) then
      if #body > budget then
        left[#left + 1] = name
      else
        budget = budget - #body
        found[#found + 1], found[#found + 2] = name, body
      end
    end
  end
end
return {now, depth, reply[1], met, bytes, has_clock and math.floor((clock() - begun) * 1000000) or 0, found, left}
""",
    reply=lambda keys, arguments: record(moment, count, cursor, count, count, integer, pairs, blobs),
)

# KEYS hash; ARGV names of fields. For each, its size in bytes, 0 if it is missing.
SIZES = Script(
    """
local out = {}
for n = 1, #ARGV do out[n] = redis.call('HSTRLEN', KEYS[1], ARGV[n]) end
return out
""",
    reply=lambda keys, arguments: array(count, len(arguments)),
)
