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
_PLACED = record(blob, count, ascii_text)
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

# KEYS as above; ARGV take end is right, how far to look, most bytes to copy, most items to look at, how many leases,
# most bytes of leases; then for each item its place, position and SHA1. Gives 1 if all items of the queue were in
# reach, else 0, and for each item its place, position and score, or nil where it was not found. All items of a list
# that are behind one that was taken move alike: from the first that is found, it is known where to look for the others.
ITEMS = Script(
    _CLOCK
    + _WALK
    + _LEASES
    + """
local span, budget, left = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local keys, sides = {q = KEYS[1], p = KEYS[2]}, {q = ARGV[1] == '1', p = true}
local lengths = {q = redis.call('LLEN', KEYS[1]), p = redis.call('LLEN', KEYS[2])}
local near = math.floor(span / 4)
local whole = lengths.q <= near and lengths.p <= near
local found, moved, newest = {q = {}, p = {}}, {}, lengths.p - 1
-- Looks towards the end that is counted from, then a quarter as far beyond; each item is found once.
local function look(place, from, sha, reach)
  local length, side, at, item, done = lengths[place], sides[place], nil, nil, 0
  if length == 0 then return nil end
  local start = math.max(0, math.min(from, length - 1))
  local function visit(backwards)
    return function(candidate, index)
      local here = backwards and length - 1 - index or index
      if found[place][here] or redis.sha1hex(candidate) ~= sha then return false end
      at, item, found[place][here] = here, candidate, true
      return true
    end
  end
  budget, done = walk(keys[place], not side, length - 1 - start, math.min(reach, left), budget, visit(true))
  left = left - done
  if not at then
    local beyond = math.min(math.floor(reach / 4), left)
    budget, done = walk(keys[place], side, start + 1, beyond, budget, visit(false))
    left = left - done
  end
  return at, item
end
local out, lease_of = {}, nil
for i = 7, #ARGV, 3 do
  local place, position, sha = ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2]
  local reach = (whole or not moved[place]) and span or near
  local at, item = look(place, position + (moved[place] or 0), sha, reach)
  if at then moved[place] = at - position
  elseif place == 'q' then
    -- What was taken last is the newest in processing.
    place = 'p'
    at, item = look('p', newest, sha, whole and span or near)
    if at then newest = at - 1 end
  else
    -- What was put back is taken next.
    place = 'q'
    at, item = look('q', 0, sha, whole and span or near)
  end
  local score = '0'
  if at and place == 'p' then
    lease_of = lease_of or leases_near(KEYS[3], at / lengths.p, tonumber(ARGV[5]), tonumber(ARGV[6]))
    score = lease_of(item)
  end
  out[#out + 1] = at and {place, at, score} or false
end
return {now, whole and budget > 0 and left > 0 and 1 or 0, out}
""",
    reply=lambda keys, arguments: record(moment, count, array(optional(_PLACED), (len(arguments) - 6) // 3)),
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
