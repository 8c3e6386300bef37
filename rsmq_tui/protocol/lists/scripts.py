"""The Lua of the reliable pattern; KEYS are those of one queue: the queue, its processing list, its leases.

Every script reads each key before it changes any, so that a wrong type changes nothing. A member of the leases is a
token of 22 characters, a colon and the item; a token that begins with ``~`` is a reaper's, for a grace time. Processing
is pushed at the left: its oldest item is at the right.
"""

from rsmq_tui.protocol.scripts import Script

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

# ARGV token, item, ms: leases an item that was moved without one. It is gone where as many are leased to others as are
# being processed, and a reaper's lease is taken over where all are leased. Returns the deadline, or 0 for none.
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

# ARGV the lease's member. 1 where the lease was held.
ACK = Script("""
redis.call('LLEN', KEYS[2])
if redis.call('ZREM', KEYS[3], ARGV[1]) == 0 then return 0 end
redis.call('LREM', KEYS[2], 1, string.sub(ARGV[1], 24))
return 1
""")

# ARGV the lease's member, ms. Returns the deadline, or 0 where the lease is no longer held.
EXTEND = Script(
    _NOW
    + """
if not redis.call('ZSCORE', KEYS[3], ARGV[1]) then return 0 end
local deadline = now + ARGV[2]
redis.call('ZADD', KEYS[3], int(deadline), ARGV[1])
return deadline
"""
)

# ARGV the lease's member, LPUSH or RPUSH. 1 where the lease was held and the item there.
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
# Returns how many were returned, adopted and dropped, how many could not be examined, and 1 where there is more to do.
#
# What nobody has leased is found by comparing all that is being processed with all leases. That is spared where there
# are as many of these as of those, nothing has expired and no lease is a reaper's: then nothing was ever moved or
# removed but by the scripts above. Leases outnumber items where somebody removed items by hand; those that are dropped
# are a reaper's first, then those that end first. A lease of another form is somebody else's and left alone.
# The first change of all is one that needs no memory: what follows it is then done even where there is none.
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
    # Too much to compare: only what expired, and as much of it as may be looked for one by one. What only a reaper had
    # leased may have been removed by its owner: an equal item that is there is then somebody else's.
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
    # Marked where they are and removed at once: each would be looked for from the end otherwise. The last one that is
    # pushed is the next one that is taken: it is to be the one that expired first.
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
