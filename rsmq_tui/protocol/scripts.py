"""The Lua of the operations: real keys in KEYS, values in ARGV, and the time read inside.

Every script that works on one queue takes KEYS[1], the zset of ids, and KEYS[2], the attributes hash: two real keys of
one slot, so that a namespace with a hash tag works on Redis Cluster. TIME is the server's, so one operation is one
round trip. A refusal comes back as the error ``RSMQ <code>``.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rsmq_tui.protocol.keys import ATTRIBUTE_FIELDS, FOREIGN_FIELDS
from rsmq_tui.protocol.replies import Argument, Shape

ReplyShape = Callable[[Sequence[bytes], Sequence[Argument]], Shape]


def _anything(keys: Sequence[bytes], arguments: Sequence[Argument]) -> Shape:
    return lambda reply: True


@dataclass(frozen=True, slots=True)
class Script:
    """A Lua text and its SHA1, which EVALSHA wants.

    ``reply`` tells from the keys and arguments of a call what shape the reply to it has; that of a script which an
    ``Operation`` runs is decoded by the operation.
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

# A member of the zset may be named as a field of the queue is, which is then no body of it.
IS_QUEUE_FIELD = f"""
local is_queue_field = {{{", ".join(f"{name} = true" for name in (*ATTRIBUTE_FIELDS, *FOREIGN_FIELDS))}}}
"""

# ZMSCORE is there since Redis 6.2.
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
# A hash that has a vt is a queue, listed or not. Of one that has none, the fields that are there are kept, as all
# clients keep them. Unlike the canonical client, a refusal changes nothing.
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

# ARGV (name, value)* of attributes to set, in the canonical order vt, maxsize, delay; none of them only reads.
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

# ARGV delay or '', size of the longest body. Each further id of a batch is to be a microsecond later, so that a batch
# keeps its order among equal scores.
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
# A total that is no number stays as it is: the messages are stored by then, and an error would have them sent again.
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
# is marked.
SEND_ONCE = Script(
    _NOW
    + _QUEUE
    + _BEFORE_SENDING
    + """
redis.call('ZCARD', KEYS[1])
local out = {}
for i = 4, #ARGV, 3 do
  local fresh = redis.call('SADD', KEYS[3], ARGV[i])
  if fresh == 1 then
    local id = base36(now_us + #ids) .. ARGV[i + 1]
    redis.call('ZADD', KEYS[1], due, id)
    redis.call('HSET', KEYS[2], id, ARGV[i + 2])
    ids[#ids + 1] = id
  end
  out[#out + 1] = fresh
end
redis.call('EXPIRE', KEYS[3], ARGV[3])
if #ids > 0 then redis.pcall('HINCRBY', KEYS[2], 'totalsent', #ids) end
return out
"""
)

# Shared by receive and pop: walk the ready messages in the canonical order, score then id. An id without a body
# cannot be delivered; it must not block those behind it either (it stops some clients for good). Nor must a total or
# a count that is no number: a message would be hidden and not delivered, each time again.
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

# ARGV vt or '', how many. A body-less id is hidden as a received one would be, but at least for a second.
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

# ARGV how many. A body-less id is removed, as the canonical client's pop does.
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

# ARGV ids. 1 where the id was in the zset and had fields, else 0, as the canonical client's deleteMessage. Fields of an
# id that is not in the zset are removed, as that client does, only if nothing but a message can be named so.
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

# ARGV vt, ids. Visibility counts from now; 0 where the id is not in the queue.
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
