"""The Lua of list queues: the reliable pattern, polls and reads.

The KEYS of a script of the reliable pattern are those of one queue: the queue, its processing list, its leases. Every
script reads each key before it writes any, so that a wrong type changes nothing. A member of the leases is a token of
22 characters, a colon and the item; a token that begins with ``~`` is a reaper's, for a grace period. Items are
pushed to processing at the left: the oldest is at the right.

Scripts that read do not write. Redis determines the length of an item only by copying it, so items are read a few at a
time: the first alone, then as many as would fit into the limit if they were four times as long as the longest so far. A
single item that exceeds the limit is copied all the same.
"""

import hashlib

from rsmq_tui.protocol.replies import array, ascii_text, blob, count, either, moment, record
from rsmq_tui.protocol.rsmq.scripts import MICROSECONDS_FROM, SECONDS_BELOW, Script

_NOW = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function int(n) return string.format('%.0f', n) end
"""

# ARGV the end to take from, token, ms. Returns the item and the deadline.
TAKE = Script(
    _NOW
    + """
redis.call('ZCARD', KEYS[3])
local item = redis.call('LMOVE', KEYS[1], KEYS[2], ARGV[1], 'LEFT')
if not item then return false end
local deadline = now + ARGV[3]
redis.call('ZADD', KEYS[3], int(deadline), ARGV[2] .. ':' .. item)
return {item, deadline}
"""
)

# How many leases of an item consumers have, the reapers' leases of it, and how often it is being processed, counted no
# further than one beyond all leases. No other item is copied into Lua: ZSCAN and LPOS compare them where they are.
_COUNTED = """
local function counted(item)
  local held, graced, seen, cursor = 0, {}, {}, '0'
  local pattern = string.rep('?', 22) .. ':' .. string.gsub(item, '[%*%?%[\\\\]', '\\\\%0')
  repeat
    local page = redis.call('ZSCAN', KEYS[3], cursor, 'MATCH', pattern, 'COUNT', 1000)
    cursor = page[1]
    for i = 1, #page[2], 2 do
      local member = page[2][i]
      if not seen[member] then
        seen[member] = true
        if string.sub(member, 1, 1) == '~' then graced[#graced + 1] = member else held = held + 1 end
      end
    end
  until cursor == '0'
  return held, graced, #redis.call('LPOS', KEYS[2], item, 'COUNT', held + #graced + 1)
end
"""

# ARGV token, item, ms: leases an item that was moved without a lease. If consumers hold as many leases as there are
# equal items in processing, it is gone; if all are leased, a reaper's lease is replaced. Returns the deadline, or 0.
ADOPT = Script(
    _NOW
    + _COUNTED
    + """
local held, graced, found = counted(ARGV[2])
if found <= held then return 0 end
if found <= held + #graced then redis.call('ZREM', KEYS[3], graced[1]) end
local deadline = now + ARGV[3]
redis.call('ZADD', KEYS[3], int(deadline), ARGV[1] .. ':' .. ARGV[2])
return deadline
"""
)

# ARGV the lease's member. Returns 1 if the lease was held, else 0.
ACK = Script("""
redis.call('LLEN', KEYS[2])
if redis.call('ZREM', KEYS[3], ARGV[1]) == 0 then return 0 end
redis.call('LREM', KEYS[2], 1, string.sub(ARGV[1], 24))
return 1
""")

# ARGV the lease's member, ms. Returns the deadline, or 0 if the lease is no longer held.
EXTEND = Script(
    _NOW
    + """
if not redis.call('ZSCORE', KEYS[3], ARGV[1]) then return 0 end
local deadline = now + ARGV[2]
redis.call('ZADD', KEYS[3], int(deadline), ARGV[1])
return deadline
"""
)

# ARGV the lease's member, LPUSH or RPUSH. Returns 1 if the lease was held and the item was there, else 0.
NACK = Script("""
redis.call('LLEN', KEYS[1])
redis.call('LLEN', KEYS[2])
if redis.call('ZREM', KEYS[3], ARGV[1]) == 0 then return 0 end
local item = string.sub(ARGV[1], 24)
if redis.call('LREM', KEYS[2], 1, item) == 0 then return 0 end
redis.call(ARGV[2], KEYS[1], item)
return 1
""")

# ARGV LPUSH or RPUSH, whichever puts an item where it is taken next; how many to return or adopt at most; grace in
# ms; how many items and bytes to examine at most; 16 random characters.
# Returns how many were returned, adopted and dropped, how many could not be examined, and 1 if there is more to do.
#
# Items without a lease are found by comparing all items in processing with all leases. This is skipped if there are as
# many leases as items, none has expired and none is a reaper's: then only the scripts above have moved or removed
# items. Leases outnumber items if somebody removed items by hand; a reaper's leases are dropped first, then those that
# end first. A lease of another form is left alone. The first write is one that needs no memory: the writes after it are
# then executed even if the server is out of memory.
REAP = Script(
    _NOW
    + _COUNTED
    + """
redis.call('LLEN', KEYS[1])
local n, z = redis.call('LLEN', KEYS[2]), redis.call('ZCARD', KEYS[3])
local expired = redis.call('ZCOUNT', KEYS[3], '-inf', int(now))
local function is_graced()
  local cursor = '0'
  repeat
    local page = redis.call('ZSCAN', KEYS[3], cursor, 'MATCH', '~*', 'COUNT', 1000)
    cursor = page[1]
    if #page[2] > 0 then return true end
  until cursor == '0'
  return false
end
if n == z and expired == 0 and (z == 0 or not is_graced()) then return {0, 0, 0, 0, 0} end

local room = tonumber(ARGV[5])
local function read(command, key, size)
  local out, bytes, step = {}, 0, 1
  while #out < size do
    local page = redis.call(command, key, #out, math.min(#out + step, size) - 1)
    for _, value in ipairs(page) do
      out[#out + 1] = value
      bytes = bytes + #value
    end
    if bytes > room then return nil end
    step = math.max(1, math.min(1000, math.floor((room - bytes) * #out / (bytes + 1))))
  end
  room = room - bytes
  return out
end
local function item_of(member)
  if string.sub(member, 23, 23) == ':' then return string.sub(member, 24) end
end
local members = n + z <= tonumber(ARGV[4]) and read('ZRANGE', KEYS[3], z)
local items = members and read('LRANGE', KEYS[2], n)
local limit = math.min(tonumber(ARGV[2]), 1000)
local returned, adopted, dropped = 0, 0, 0
"""
    # Too much to compare: handle only expired leases, as many as can be searched one by one. An item that only a reaper
    # had leased may have been removed by its consumer: an equal item then belongs to another one.
    + """
if not items then
  limit = math.min(limit, expired, math.max(1, math.floor(2000000 / (n + 1))))
  local due = limit > 0 and redis.call('ZRANGE', KEYS[3], 0, limit - 1) or {}
  -- In nanoseconds or so: where items begin alike, much of each is compared.
  local budget = 15000000
  for i = #due, 1, -1 do
    local item = item_of(due[i])
    if item and budget > 0 then
      local is_there = true
      if string.sub(due[i], 1, 1) == '~' then
        budget = budget - (n + z) * (60 + 3 * #item)
        local held, _, found = counted(item)
        is_there = found > held
      end
      redis.call('ZREM', KEYS[3], due[i])
      if not is_there or redis.call('LREM', KEYS[2], -1, item) == 0 then
        dropped = dropped + 1
      else
        redis.call(ARGV[1], KEYS[1], item)
        returned = returned + 1
      end
    end
  end
  local done = returned + dropped
  return {returned, 0, dropped, n, (done > 0 and expired > done) and 1 or 0}
end

local free, due = {}, {}
for _, item in ipairs(items) do free[item] = (free[item] or 0) + 1 end
local function cover(graced)
  for i = z, 1, -1 do
    local item = item_of(members[i])
    if item and (string.sub(members[i], 1, 1) == '~') == graced then
      if (free[item] or 0) > 0 then
        free[item] = free[item] - 1
        if i <= expired then due[#due + 1] = i end
      else
        redis.call('ZREM', KEYS[3], members[i])
        dropped = dropped + 1
      end
    end
  end
end
cover(false)
cover(true)
"""
    # Mark the items in place and remove them with one LREM, which would otherwise search for each from the end. The
    # item pushed last is taken next, so the one that expired first is pushed last.
    + """
table.sort(due)
returned = math.min(#due, limit)
local wanted, marked, marker = {}, 0, 'rsmq-tui:' .. ARGV[6]
for k = 1, returned do
  local item = item_of(members[due[k]])
  redis.call('ZREM', KEYS[3], members[due[k]])
  wanted[item] = (wanted[item] or 0) + 1
end
for i = n, 1, -1 do
  if marked == returned then break end
  local item = items[i]
  if (wanted[item] or 0) > 0 then
    wanted[item] = wanted[item] - 1
    marked = marked + 1
    redis.call('LSET', KEYS[2], i - 1, marker)
  end
end
if marked > 0 then redis.call('LREM', KEYS[2], 0, marker) end
for k = returned, 1, -1 do redis.call(ARGV[1], KEYS[1], item_of(members[due[k]])) end

local more = returned < #due
local deadline = int(now + ARGV[3])
for i = n, 1, -1 do
  local item = items[i]
  if free[item] > 0 then
    if returned + adopted == limit then
      more = true
      break
    end
    free[item] = free[item] - 1
    adopted = adopted + 1
    redis.call('ZADD', KEYS[3], deadline, string.format('~%s%05d:', ARGV[6], adopted) .. item)
  end
end
return {returned, adopted, dropped, 0, more and 1 or 0}
"""
)


_ITEM = either(blob, record(count, ascii_text, blob))

# KEYS queue, processing; ARGV the most bytes to copy of each range, the longest item that is returned whole, and how
# much of longer ones; then for each range its key's number, whether it is counted from the right, its first and its
# last index: it is read in that order, and cut short after the most bytes to copy.
# Returns the time, both lengths, and for each range its items, longer ones as {length, SHA1, start}: all at one moment.
RANGES = Script(
    _NOW
    + """
local whole, shown = tonumber(ARGV[2]), tonumber(ARGV[3])
local function read(key, right, first, last, budget)
  local length, items, step, longest = redis.call('LLEN', key), {}, 1, 1
  local way = first <= last and 1 or -1
  if way == 1 then last = math.min(last, length - 1) else first = math.min(first, length - 1) end
  local count = way * (last - first) + 1
  while #items < count and budget > 0 do
    local size = math.min(step, count - #items)
    local from = first + way * #items
    local low = way == 1 and from or from - size + 1
    local found
    if right then found = redis.call('LRANGE', key, -low - size, -low - 1)
    else found = redis.call('LRANGE', key, low, low + size - 1) end
    if #found == 0 then break end
    local is_turned = right == (way == 1)
    for i = 1, #found do
      local item = found[is_turned and #found + 1 - i or i]
      budget = budget - #item
      longest = math.max(longest, #item)
      items[#items + 1] = #item <= whole and item or {#item, redis.sha1hex(item), string.sub(item, 1, shown)}
    end
    step = math.max(1, math.min(500, 4 * #items, math.floor(budget / (4 * longest))))
  end
  return items
end
local out = {int(now), redis.call('LLEN', KEYS[1]), redis.call('LLEN', KEYS[2])}
for i = 4, #ARGV, 4 do
  out[#out + 1] = read(
    KEYS[tonumber(ARGV[i])], ARGV[i + 1] == '1', tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3]), tonumber(ARGV[1])
  )
end
return out
""",
    reply=lambda keys, arguments: record(moment, count, count, *[array(_ITEM)] * ((len(arguments) - 3) // 4)),
)


# Redis cannot tell the length of an item without copying it. One call stops reading items after LOOK_BYTES_MAX, and
# items of BIG_BYTES or more are read again only after a while (see ``reader``).
LOOK_BYTES_MAX = 4 << 20
BIG_BYTES = 64 << 10

# A short item is its own mark; a big one is identified by both ends and its size.
_MARK_BYTES = 40
_END_BYTES = 4096

# KEYS (list, processing list, zset of leases)*; ARGV now ms, bytes of the next item to return, from which index to
# which the next two items lie, for each queue 1 or 0: whether to read them, and 1 if only the lists are given:
# then processing and leases are false.
# For each queue {ready, processing, leases, head, lease}: each of the first three is a number, or an error text, and
# ``leases`` is 1 if there are any, else 0: counting them would be one command more. ``head`` is false for an
# empty list, 0 if it was not read, else {size, mark, how many of the next two are equal to it, start of it}.
# ``lease`` is false without leases, else {expired, first deadline}, and then a sixth element says when time alone will
# next change the row: the smallest deadline above now, '' for never, or 0 if that is not known.
LIST_ROWS = Script(
    f"""
local now, now_ms, shown, from, to = ARGV[1], tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[4]
local next_at = from == '0' and 1 or 2
local call, pcall = redis.call, redis.pcall
local budget = {LOOK_BYTES_MAX}
local function mark_of(item)
  if #item <= {_MARK_BYTES} then return item end
  if #item < {BIG_BYTES} then return redis.sha1hex(item) end
  return redis.sha1hex(string.sub(item, 1, {_END_BYTES}) .. string.sub(item, -{_END_BYTES}))
end
local function head_of(queue)
  if budget <= 0 then return 0 end
  local items = call('LRANGE', queue, from, to)
  local item, other = items[math.min(next_at, #items)], items[2] and items[3 - next_at]
  budget = budget - #item - (other and #other or 0)
  local head = {{#item, mark_of(item), item == other and 2 or 1}}
  if shown > 0 then head[4] = string.sub(item, 1, shown) end
  return head
end
local function lease_of(leases, first)
  local score = tonumber(first)
  if score >= {SECONDS_BELOW} and score < {MICROSECONDS_FROM} then
    if score > now_ms then return {{0, first}}, first end
    local expired = call('ZCOUNT', leases, '-inf', now)
    return {{expired, first}}, call('ZRANGE', leases, expired, expired, 'WITHSCORES')[2] or ''
  end
  local expired = call('ZCOUNT', leases, '-inf', string.sub(now, 1, -4))
    + call('ZCOUNT', leases, '{SECONDS_BELOW}', now)
    + call('ZCOUNT', leases, '{MICROSECONDS_FROM}', now .. '000')
  return {{expired, first}}, 0
end
local function row_of(queue, processing, leases, look)
  local ready = pcall('LLEN', queue)
  local head = false
  if type(ready) == 'table' then ready = ready.err
  elseif ready > 0 then head = look and head_of(queue) or 0 end
  if not processing then return {{ready, false, false, head, false}} end
  local hidden, first = pcall('LLEN', processing), pcall('ZRANGE', leases, 0, 0, 'WITHSCORES')
  if type(hidden) == 'table' then hidden = hidden.err end
  if first.err then return {{ready, hidden, first.err, head, false}} end
  if #first == 0 then return {{ready, hidden, 0, head, false}} end
  return {{ready, hidden, 1, head, lease_of(leases, first[2])}}
end
local out = {{}}
for n = 1, #ARGV[5] do
  local look = string.byte(ARGV[5], n) == 49
  if ARGV[6] == '1' then out[n] = row_of(KEYS[n], nil, nil, look)
  else out[n] = row_of(KEYS[3 * n - 2], KEYS[3 * n - 1], KEYS[3 * n], look) end
end
return out
""",
    # ARGV[5] has a digit for each queue.
    reply=lambda keys, arguments: array(lambda row: type(row) is list, len(str(arguments[4]))),
)


def mark_of(item: bytes) -> bytes:
    """Return what distinguishes an item from others of its size, as the script computes it."""
    if len(item) <= _MARK_BYTES:
        return item
    hashed = item if len(item) < BIG_BYTES else item[:_END_BYTES] + item[-_END_BYTES:]
    return hashlib.sha1(hashed, usedforsecurity=False).hexdigest().encode()
