"""The Lua that looks into list queues; nothing of it writes.

Redis tells the length of an item only by copying it. So items are read a few at a time: the first alone, then as many
as would fit into what may still be copied if they were four times as long as the longest so far. A single item that is
longer than all of that is copied all the same, for nothing in Redis can tell.
"""

from rsmq_tui.protocol.replies import array, ascii_text, blob, count, either, moment, optional, record
from rsmq_tui.protocol.scripts import Script

# Of a page: place, position, size, SHA1, preview, score.
_PEEKED = record(blob, count, count, ascii_text, blob, ascii_text)
_FOUND = record(moment, blob, count, ascii_text, count, optional(blob))
_ITEM = either(blob, record(count, ascii_text))

_CLOCK = """
local time = redis.call('TIME')
local now = string.format('%.0f', math.floor((time[1] * 1000000 + time[2]) / 1000))
"""

# walk(key, right, from, count, budget, visit) visits items in order, counted from the right end or from the left;
# visit(item, position) ends it by returning true. It gives what is left of the budget, and how many were visited.
_WALK = """
local function walk(key, right, from, count, budget, visit)
  local done, step, longest = 0, 1, 1
  while done < count and budget > 0 do
    local first, last = from + done, from + done + math.min(step, count - done) - 1
    local items
    if right then items = redis.call('LRANGE', key, -last - 1, -first - 1)
    else items = redis.call('LRANGE', key, first, last) end
    if #items == 0 then break end
    for i = 1, #items do
      local item = items[right and #items + 1 - i or i]
      budget = budget - #item
      longest = math.max(longest, #item)
      done = done + 1
      if visit(item, from + done - 1) then return budget, done end
    end
    step = math.max(1, math.min(500, math.floor(budget / (4 * longest))))
  end
  return budget, done
end
"""

# find(key, right, length, position, sha, span, budget) gives where an item is now, and the item: nearest to where it
# was, first towards the end that is counted from, for that is where queues move, then a quarter as far beyond.
_FIND = """
local function find(key, right, length, position, sha, span, budget)
  local at, found
  local function look(item, place)
    if redis.sha1hex(item) == sha then at, found = place, item; return true end
  end
  if length == 0 then return nil end
  local start = math.min(position, length - 1)
  walk(key, not right, length - 1 - start, span, budget, look)
  if at then return length - 1 - at, found end
  walk(key, right, start + 1, math.floor(span / 4), budget, look)
  return at, found
end
"""

# lease_of(item) gives the deadline of an item in processing, each lease once; 'inf' where it has none and 'nan' where
# there are more leases than may be looked at. These are then those about as far from the first as the item is.
_LEASES = """
local function leases_near(key, share, most, budget)
  local card, deadlines = redis.call('ZCARD', key), {}
  local from = card <= most and 0 or math.max(0, math.min(card - most, math.floor(share * card - most / 2)))
  local stop, step, longest, at = math.min(card, from + most), 1, 1, from
  while at < stop and budget > 0 do
    local found = redis.call('ZRANGE', key, at, math.min(stop, at + step) - 1, 'WITHSCORES')
    if #found == 0 then break end
    for i = 1, #found, 2 do
      local item = string.sub(found[i], 24)
      budget = budget - #item
      longest = math.max(longest, #item)
      -- What has another form is somebody else's.
      local known = deadlines[item]
      if string.sub(found[i], 23, 23) ~= ':' then known = {}
      elseif known then known[#known + 1] = found[i + 1] else deadlines[item] = {1, found[i + 1]} end
      at = at + 1
    end
    step = math.max(1, math.min(500, math.floor(budget / (4 * longest))))
  end
  local missing = at - from == card and 'inf' or 'nan'
  return function(item)
    local known = deadlines[item]
    if not known or known[1] >= #known then return missing end
    known[1] = known[1] + 1
    return known[known[1]]
  end
end
"""

# KEYS queue, processing, leases; ARGV take end is right (1 or 0), part, where, anchor's place (q, p or none), its
# position, its SHA1, how many, preview bytes, most bytes to copy, how far to look for the anchor, how many leases,
# and how long an item may be to be shown whole.
# A page is cut short where its items are long: at its end, or at its beginning where it is what comes before something.
PAGE = Script(
    _CLOCK
    + _WALK
    + _FIND
    + _LEASES
    + """
local right = ARGV[1] == '1'
local ready, hidden = redis.call('LLEN', KEYS[1]), redis.call('LLEN', KEYS[2])
local depth = ready + hidden
local low, high = 0, depth
if ARGV[2] == 'ready' then high = ready elseif ARGV[2] == 'hidden' then low = ready end
local preview, whole = tonumber(ARGV[8]), tonumber(ARGV[12])
local where, position, count, budget = ARGV[3], tonumber(ARGV[5]), tonumber(ARGV[7]), tonumber(ARGV[9])
local function rank_of()
  if ARGV[4] == 'q' then
    local at = find(KEYS[1], right, ready, position, ARGV[6], tonumber(ARGV[10]), budget / 4)
    return at or math.min(position, ready), at ~= nil
  elseif ARGV[4] == 'p' then
    local at = find(KEYS[2], true, hidden, position, ARGV[6], tonumber(ARGV[10]), budget / 4)
    return ready + (at or math.min(position, hidden)), at ~= nil
  end
  return low, false
end
local start, is_backward = low, false
if where == 'last' then
  start, is_backward = high - count, true
elseif where == 'after' then
  local rank, there = rank_of()
  start = there and rank + 1 or rank
elseif where == 'before' then
  start, is_backward = math.max(low, math.min(rank_of(), high)) - count, true
elseif where == 'at' then
  start = rank_of()
end
local rows = {}
local function take(place, length)
  return function(item, at)
    at = length and length - 1 - at or at
    local shown = #item <= whole and item or string.sub(item, 1, preview)
    rows[#rows + 1] = {place, at, #item, redis.sha1hex(item), shown, item}
  end
end
-- Adds the rows of these ranks while the budget lasts, from the first on or from the last, and at least one.
local function add(from, stop, backward)
  local parts = {
    {'q', KEYS[1], right, from, math.min(stop, ready), ready},
    {'p', KEYS[2], true, math.max(0, from - ready), stop - ready, hidden},
  }
  if backward then parts[1], parts[2] = parts[2], parts[1] end
  for i = 1, 2 do
    local place, key, side, first, last, length = unpack(parts[i])
    if last > first and (budget > 0 or #rows == 0) then
      budget = math.max(1, budget)
      if backward then budget = walk(key, not side, length - last, last - first, budget, take(place, length))
      else budget = walk(key, side, first, last - first, budget, take(place)) end
    end
  end
end
if is_backward then
  local stop = math.min(start + count, high)
  start = math.max(low, start)
  add(start, stop, true)
  for i = 1, math.floor(#rows / 2) do rows[i], rows[#rows + 1 - i] = rows[#rows + 1 - i], rows[i] end
  if #rows == stop - start then add(stop, math.min(low + count, high), false) else start = stop - #rows end
else
  start = math.max(low, math.min(start, high - 1))
  add(start, math.min(start + count, high), false)
end
local lease_of
for i = 1, #rows do
  local row, score = rows[i], '0'
  if row[1] == 'p' then
    lease_of = lease_of or leases_near(KEYS[3], row[2] / math.max(1, hidden), tonumber(ARGV[11]), tonumber(ARGV[9]))
    score = lease_of(row[6])
  end
  row[6] = score
end
return {now, depth, ready, start, rows}
""",
    reply=lambda keys, arguments: record(moment, count, count, count, array(_PEEKED)),
)

# KEYS as above; ARGV take end is right, place, position, SHA1, the longest body to return, most bytes to copy while
# looking, how far to look, how many leases. An item that is not where it was may have been taken, or put back.
ITEM = Script(
    _CLOCK
    + _WALK
    + _FIND
    + _LEASES
    + """
local right, position, span, budget = ARGV[1] == '1', tonumber(ARGV[3]), tonumber(ARGV[7]), tonumber(ARGV[6])
local ready, hidden = redis.call('LLEN', KEYS[1]), redis.call('LLEN', KEYS[2])
local function look(place, from)
  if place == 'q' then return find(KEYS[1], right, ready, from, ARGV[4], span, budget) end
  return find(KEYS[2], true, hidden, from, ARGV[4], span, budget)
end
local place = ARGV[2]
local at, item = look(place, position)
if not at then
  place = place == 'q' and 'p' or 'q'
  -- What was taken last is the newest in processing; what was put back is taken next.
  at, item = look(place, place == 'p' and math.max(0, hidden - 1) or 0)
end
if not at then return {now} end
local score = '0'
if place == 'p' then
  score = leases_near(KEYS[3], at / math.max(1, hidden), tonumber(ARGV[8]), math.max(budget, 4 * #item))(item)
end
return {now, place, at, score, #item, #item <= tonumber(ARGV[5]) and item or false}
""",
    reply=lambda keys, arguments: either(record(moment), _FOUND),
)

# KEYS queue, processing; ARGV the most bytes to copy for each range, the longest item that is given as it is: of longer
# ones the length and the SHA1; then for each range its key's number, whether it is counted from the right, its first
# position, and how many. Gives the time, both lengths, and for each range its items: all at one moment.
RANGES = Script(
    _CLOCK
    + _WALK
    + """
local out = {now, redis.call('LLEN', KEYS[1]), redis.call('LLEN', KEYS[2])}
local longest = tonumber(ARGV[2])
for i = 3, #ARGV, 4 do
  local items = {}
  walk(KEYS[tonumber(ARGV[i])], ARGV[i + 1] == '1', tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3]), tonumber(ARGV[1]),
    function(item) items[#items + 1] = #item <= longest and item or {#item, redis.sha1hex(item)} end)
  out[#out + 1] = items
end
return out
""",
    reply=lambda keys, arguments: record(moment, count, count, *[array(_ITEM)] * ((len(arguments) - 2) // 4)),
)
