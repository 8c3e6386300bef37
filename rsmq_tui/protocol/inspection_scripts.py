"""The Lua of inspections: what must be seen of several keys in one step. Nothing of it writes."""

from rsmq_tui.protocol.keys import ATTRIBUTE_FIELDS
from rsmq_tui.protocol.replies import (
    array,
    ascii_text,
    blob,
    blobs,
    count,
    cursor,
    either,
    number,
    optional,
    optional_blobs,
    record,
)
from rsmq_tui.protocol.scripts import Script

_FIELDS = ", ".join(f"'{name}'" for name in ATTRIBUTE_FIELDS)

_HEAD = either(lambda reply: reply == [], record(blob, number))
_LOOK = record(ascii_text, ascii_text, count, count, count, _HEAD, optional_blobs(len(ATTRIBUTE_FIELDS)))
_MEMBER = record(optional(number), count, optional(blob), optional(blob))

# KEYS hash; ARGV cursor, count. A step of HSCAN without the values, which only later servers can leave out themselves
# (NOVALUES: Redis 7.4, Valkey 8): where it goes on, the names of fields, how long the longest value is, and how many
# fields there are.
FIELD_NAMES = Script(
    """
local step = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])
local names, longest = {}, 0
for n = 1, #step[2], 2 do
  names[#names + 1] = step[2][n]
  longest = math.max(longest, #step[2][n + 1])
end
return {step[1], names, longest, redis.call('HLEN', KEYS[1])}
""",
    reply=lambda keys, arguments: record(cursor, blobs, count, count),
)

# KEYS index, then (zset, hash)*; ARGV the names of these queues. For each: the types of its keys, whether the index
# names it, how many messages and fields it holds, first id and score, and the raw attributes.
LOOKS = Script(
    f"""
local call = redis.call
local function type_of(key)
  local reply = call('TYPE', key)
  return type(reply) == 'table' and reply.ok or reply
end
local is_index = type_of(KEYS[1]) == 'set'
local out = {{}}
for n = 1, #ARGV do
  local zset, hash = KEYS[2 * n], KEYS[2 * n + 1]
  local zset_type, hash_type = type_of(zset), type_of(hash)
  local row = {{zset_type, hash_type, is_index and call('SISMEMBER', KEYS[1], ARGV[n]) or 0, 0, 0, {{}}, {{}}}}
  if zset_type == 'zset' then
    row[4], row[6] = call('ZCARD', zset), call('ZRANGE', zset, 0, 0, 'WITHSCORES')
  end
  if hash_type == 'hash' then
    row[5], row[7] = call('HLEN', hash), call('HMGET', hash, {_FIELDS})
  else
    for field = 1, {len(ATTRIBUTE_FIELDS)} do row[7][field] = false end
  end
  out[n] = row
end
return out
""",
    reply=lambda keys, arguments: array(_LOOK, len(arguments)),
)

# KEYS zset, hash; ARGV ids. For each: score, whether it has a body, rc and fr; the body of a message that is called as
# another's counter is no counter.
MEMBERS = Script(
    """
local call = redis.call
local out = {}
for n = 1, #ARGV do
  local id = ARGV[n]
  local counters = call('HMGET', KEYS[2], id .. ':rc', id .. ':fr')
  local rc = counters[1]
  if rc and call('ZSCORE', KEYS[1], id .. ':rc') then rc = false end
  out[n] = {call('ZSCORE', KEYS[1], id), call('HEXISTS', KEYS[2], id), rc, counters[2]}
end
return out
""",
    reply=lambda keys, arguments: array(_MEMBER, len(arguments)),
)

# KEYS zset, hash; ARGV names of fields. For each: 0 it is a message's or not there, 1 a body without a message, 2 a
# counter of such a body, 3 a counter of nothing. The id of a message may look like another's counter.
BELONGINGS = Script(
    """
local call = redis.call
local function stem_of(name)
  local last = string.sub(name, -3)
  if last == ':rc' or last == ':fr' then return string.sub(name, 1, -4) end
  if string.sub(name, -5) == ':meta' then return string.sub(name, 1, -6) end
end
local out = {}
for n = 1, #ARGV do
  local name = ARGV[n]
  local stem = stem_of(name)
  local whose = 0
  if not call('ZSCORE', KEYS[1], name) and not (stem and call('ZSCORE', KEYS[1], stem)) then
    if call('HEXISTS', KEYS[2], name) == 0 then
      whose = 0
    elseif not stem then
      whose = 1
    else
      whose = call('HEXISTS', KEYS[2], stem) == 1 and 2 or 3
    end
  end
  out[n] = whose
end
return out
""",
    reply=lambda keys, arguments: array(lambda whose: type(whose) is int and 0 <= whose <= 3, len(arguments)),
)
