"""The Lua of the reads: one call for many queues or for one page, and nothing of it writes.

Whatever is wrong with one key comes back as data in that key's place (``pcall``), so that it never disturbs the rest.
"""

from typing import Any

from rsmq_tui.protocol.keys import ATTRIBUTE_FIELDS
from rsmq_tui.protocol.replies import (
    array,
    blob,
    blobs,
    count,
    either,
    integer,
    moment,
    number,
    optional,
    record,
)
from rsmq_tui.protocol.scripts import Script

# Scores are milliseconds, but clients exist that write seconds or microseconds. By magnitude, below SECONDS_BELOW they
# can only be seconds (or a mistake long past), from MICROSECONDS_FROM on only microseconds.
SECONDS_BELOW = 100_000_000_000
MICROSECONDS_FROM = 100_000_000_000_000
# Below this they are no time in seconds after 1973: 0, negative numbers and -inf are a way to say 'at once'.
TIME_FROM = 100_000_000

# A receive count by hand may have any number of digits; up to here a double, which is all that Lua has, is exact.
RC_MAX = 999_999_999_999_999

# [fields, depth, first id, first score, hidden]; the last three only for a queue that holds messages, and after them 1
# where the first message has no body.
# ``fields`` are the raw ATTRIBUTE_FIELDS, or an error text; ``depth`` is a number, or an error text.
Row = list[Any]

_MAYBE = optional(blob)


def _is_empty(reply: Any) -> bool:
    return bool(reply == b"")


# Of a page: id, score, rc, fr, size, preview.
_PEEKED = record(blob, number, _MAYBE, _MAYBE, count, _MAYBE)

_FIELDS = ", ".join(f"'{name}'" for name in ATTRIBUTE_FIELDS)

# KEYS (zset, attributes hash)*; ARGV now ms. For each queue a Row; that of one which holds messages also says when time
# alone will next change it, before the last element: the smallest score above now, '' for never, or 0 where that is not
# looked for.
# The first score tells the unit of all: only a queue that starts below milliseconds is counted in each unit's range.
QUEUE_ROWS = Script(
    f"""
local now, now_ms = ARGV[1], tonumber(ARGV[1])
local after = '(' .. now
local call, pcall = redis.call, redis.pcall
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
  if depth == 0 then return {{fields, depth}} end
  local head = call('ZRANGE', zset, 0, 0, 'WITHSCORES')
  local hidden, due = hidden_of(zset, depth, head[2])
  local is_bodiless = type(fields) == 'table' and call('HEXISTS', attributes, head[1]) == 0
  return {{fields, depth, head[1], head[2], hidden, due, is_bodiless and 1 or nil}}
end
local out = {{}}
for n = 1, #KEYS / 2 do out[n] = row_of(KEYS[2 * n - 1], KEYS[2 * n]) end
return out
""",
    # Rows that changed are looked at one by one, when they are taken.
    reply=lambda keys, arguments: array(lambda row: type(row) is list, len(keys) // 2),
)

# KEYS as above; ARGV now ms, threshold, span. Looks at the receive counts of up to 2 * span messages around the first
# hidden one: that is where messages that keep coming back lie, in flight or just visible again.
# For each queue: how many were looked at, how many of them reach the threshold, the highest count.
RECEIVE_COUNTS = Script(
    f"""
local now, threshold, span = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local out = {{}}
for i = 1, #KEYS, 2 do
  local row = {{0, 0, 0}}
  local ready = redis.pcall('ZCOUNT', KEYS[i], '-inf', now)
  if type(ready) == 'number' then
    local ids = redis.call('ZRANGE', KEYS[i], math.max(0, ready - span), ready + span - 1)
    for n = 1, #ids do ids[n] = ids[n] .. ':rc' end
    local counts = #ids > 0 and redis.pcall('HMGET', KEYS[i + 1], unpack(ids)) or {{}}
    if not counts.err then
      row[1] = #ids
      for n = 1, #ids do
        local rc = math.min(tonumber(string.match(counts[n] or '', '^%s*([+-]?%d+)')) or 0, {RC_MAX})
        if rc >= threshold then row[2] = row[2] + 1 end
        if rc > row[3] then row[3] = rc end
      end
    end
  end
  out[#out + 1] = row
end
return out
""",
    reply=lambda keys, arguments: array(record(count, count, integer), len(keys) // 2),
)

# KEYS as above; ARGV threshold, then for each queue: score and id of the message before the page, '' and '' for none,
# and how many to look at. A message that has gone counts as where it was. Scores only rise as messages are received, so
# that pages in their order pass over nothing that stays in the queue.
# For each queue: how many were looked at, the highest count, the ids that reach the threshold, those without a body,
# the last score and id, and 1 where no message lies behind them, else 0.
MESSAGE_PAGES = Script(
    f"""
local call, pcall, threshold = redis.call, redis.pcall, tonumber(ARGV[1])
local function rank_behind(zset, score, id)
  if id == '' then return 0 end
  local now_at = call('ZSCORE', zset, id)
  if now_at and tonumber(now_at) == tonumber(score) then return call('ZRANK', zset, id) + 1 end
  return call('ZCOUNT', zset, '-inf', '(' .. score)
end
local function page_of(zset, attributes, score, id, size)
  local depth = pcall('ZCARD', zset)
  local start = type(depth) == 'number' and rank_behind(zset, score, id) or 0
  local found = type(depth) == 'number' and call('ZRANGE', zset, start, start + size - 1, 'WITHSCORES') or {{}}
  local names = {{}}
  for n = 1, #found, 2 do names[#names + 1] = found[n] .. ':rc' end
  local counts = #names > 0 and pcall('HMGET', attributes, unpack(names)) or {{}}
  if #names == 0 or counts.err then return {{0, 0, {{}}, {{}}, score, id, 1}} end
  local highest, poison, missing = 0, {{}}, {{}}
  for n = 1, #names do
    local one = found[2 * n - 1]
    local rc = math.min(tonumber(string.match(counts[n] or '', '^%s*([+-]?%d+)')) or 0, {RC_MAX})
    if rc > highest then highest = rc end
    if rc >= threshold then poison[#poison + 1] = one end
    if call('HEXISTS', attributes, one) == 0 then missing[#missing + 1] = one end
  end
  return {{#names, highest, poison, missing, found[#found], found[#found - 1], start + #names >= depth and 1 or 0}}
end
local out = {{}}
for n = 1, #KEYS / 2 do
  out[n] = page_of(KEYS[2 * n - 1], KEYS[2 * n], ARGV[3 * n - 1], ARGV[3 * n], tonumber(ARGV[3 * n + 1]))
end
return out
""",
    reply=lambda keys, arguments: array(
        record(count, integer, blobs, blobs, either(number, _is_empty), blob, count), len(keys) // 2
    ),
)

# KEYS[1] zset, KEYS[2] attributes hash; ARGV part (all, ready, hidden), where (first, last, after, before), anchor
# score, anchor id, how many, preview bytes, longest body to preview, most body bytes to look at.
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

# KEYS[1] zset, KEYS[2] attributes hash; ARGV id, the longest body to return.
MESSAGE = Script(
    """
local time = redis.call('TIME')
local now = string.format('%.0f', math.floor((time[1] * 1000000 + time[2]) / 1000))
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
local meta = redis.call('HMGET', KEYS[2], ARGV[1] .. ':rc', ARGV[1] .. ':fr')
local size = redis.call('HSTRLEN', KEYS[2], ARGV[1])
local body = false
if size <= tonumber(ARGV[2]) then body = redis.call('HGET', KEYS[2], ARGV[1]) end
return {now, score, meta[1], meta[2], size, body}
""",
    reply=lambda keys, arguments: record(moment, optional(number), _MAYBE, _MAYBE, count, _MAYBE),
)

# KEYS[1] zset; ARGV upper bounds in ms, rising. How many messages become visible up to each bound, and the depth.
DUE_COUNTS = Script(
    """
local out = {}
for i, bound in ipairs(ARGV) do out[i] = redis.call('ZCOUNT', KEYS[1], '-inf', bound) end
out[#out + 1] = redis.call('ZCARD', KEYS[1])
return out
""",
    reply=lambda keys, arguments: array(count, len(arguments) + 1),
)

# KEYS hash; ARGV names of fields. For each, how many bytes it holds, 0 where it is not there.
SIZES = Script(
    """
local out = {}
for n = 1, #ARGV do out[n] = redis.call('HSTRLEN', KEYS[1], ARGV[n]) end
return out
""",
    reply=lambda keys, arguments: array(count, len(arguments)),
)
