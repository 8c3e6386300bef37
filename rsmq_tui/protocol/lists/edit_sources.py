"""The Lua of guarded changes of list queues: where items come from, a list or an RSMQ queue."""

# ARGV 'q' or 'p' (in the queue, or in processing), the shift that is known, '1' to read all between the first and the
# last at once, '1' to take the items away; for each edit its position, '=' and its bytes or '#' and their SHA1, the
# SHA1 of the item before it or '', its lease's token or '', and its deadline.
FROM_LIST = """
local source, leases = KEYS[1], KEYS[2]
local area, hint, is_dense, takes = arg(), tonumber(arg()), arg() == '1', arg() == '1'
local length = call('LLEN', source)
call('ZCARD', leases)
local is_left, index, range, around = side_of(area)
local pop_front, pop_back = is_left and 'LPOP' or 'RPOP', is_left and 'RPOP' or 'LPOP'
local at, wanted, known_sha, before, token, deadline = {}, {}, {}, {}, {}, {}
for n = 1, count do
  local p, told = tonumber(arg()), arg()
  at[n] = (p < 0 and length + p or p) + hint
  wanted[n], known_sha[n] = value(told), string.sub(told, 1, 1) == '#'
  before[n], token[n], deadline[n] = arg(), arg(), arg()
end
local function is_it(item, n)
  if known_sha[n] then return redis.sha1hex(item) == wanted[n] end
  return item == wanted[n]
end
local first, region = 0, nil
local function load()
  if not is_dense or count == 0 then return end
  -- With the one before the first, which is a witness.
  first = math.max(0, at[1] - 1)
  region = range(source, first, at[count])
end
local function item(p)
  if p < 0 or p >= length then return false end
  if region then return region[p - first + 1] or false end
  return call('LINDEX', source, index(p))
end
-- With what lay before it where that is known: the same bytes may be another's.
local function is_there(n)
  local now = item(at[n])
  if not (now and is_it(now, n)) then return false end
  if before[n] == '' or at[n] == 0 then return now end
  local behind = item(at[n] - 1)
  return behind and redis.sha1hex(behind) == before[n] and now
end
source_shift = hint
local is_used, places = {}, {}
if area == 'p' and length <= 10000 then
  -- What is in processing goes in any order, but is little: each is looked for where it was, and near there.
  local by = {}
  local function note(key, p)
    by[key] = by[key] or {}
    by[key][#by[key] + 1] = p
  end
  local needs_shas = false
  for n = 1, count do needs_shas = needs_shas or known_sha[n] end
  local all = range(source, 0, length - 1)
  for n = 1, #all do note(needs_shas and redis.sha1hex(all[n]) or all[n], n - 1) end
  for n = 1, count do
    local key = wanted[n]
    if needs_shas and not known_sha[n] then key = redis.sha1hex(key) end
    local best
    for _, p in ipairs(by[key] or {}) do
      if not is_used[p] and (not best or math.abs(p - at[n]) < math.abs(best - at[n])) then best = p end
    end
    if best then
      places[n], is_used[best], bodies[n] = best, true, all[best + 1]
    else
      outcome[n] = 'g'
    end
  end
else
  load()
  local missed = false
  for n = 1, count do
    if not is_there(n) then missed = true break end
  end
  if missed then
    local votes, all = {}, {}
    for n = 1, count do all[n] = n end
    for _, n in ipairs(spread(all)) do
      local there = around(source, length, at[n])
      for p, now in pairs(there) do
        if is_it(now, n) then
          local shift, weight = p - at[n], 1
          if before[n] ~= '' and there[p - 1] and redis.sha1hex(there[p - 1]) == before[n] then
            weight = 2
          end
          votes[shift] = (votes[shift] or 0) + weight
        end
      end
    end
    local shift = elected(votes, 2)
    if shift ~= 0 then
      source_shift = hint + shift
      for n = 1, count do at[n] = at[n] + shift end
      load()
    end
  end
  for n = 1, count do
    local now = not is_used[at[n]] and is_there(n)
    if now then
      places[n], is_used[at[n]], bodies[n] = at[n], true, now
    else
      outcome[n] = 'g'
    end
  end
end
for n = 1, count do
  if outcome[n] == 'd' and token[n] ~= '' then
    local now = call('ZSCORE', leases, token[n] .. ':' .. bodies[n])
    if not now then
      outcome[n] = 'g'
    elseif tonumber(now) ~= tonumber(deadline[n]) then
      outcome[n] = 'c'
    end
  end
end
checks[#checks + 1] = function()
  call('ZREM', leases, marker)
  if takes then
    call('LREM', marker, 1, tombstone)
    local refused = try(pop_front, marker) or try(pop_back, marker)
    if refused then return refused end
  end
end
writes[#writes + 1] = function()
  local gone, members = {}, {}
  for n = 1, count do
    if outcome[n] == 'd' then
      gone[#gone + 1] = places[n]
      if token[n] ~= '' then members[#members + 1] = token[n] .. ':' .. bodies[n] end
    end
  end
  if #gone == 0 or not takes then return end
  table.sort(gone)
  local low, high, number = gone[1], gone[#gone], #gone
  local is_run = high - low + 1 == number
  if is_run and low == 0 then
    call(pop_front, source, number)
  elseif is_run and high == length - 1 then
    call(pop_back, source, number)
  else
    for n = 1, number do
      -- The first one tells whether there is memory for it.
      call('LSET', source, index(gone[n]), tombstone)
    end
    local from_front, from_back = high + 1, length - low
    local from_head = is_left and from_front or from_back
    local from_tail = is_left and from_back or from_front
    call('LREM', source, from_head <= from_tail and number or -number, tombstone)
  end
  if #members > 0 then call('ZREM', leases, unpack(members)) end
end
"""

# ARGV what each adds to totalsent; for each edit its id, score, and rc or ''.
FROM_RSMQ = """
local zset, hash, counted = KEYS[1], KEYS[2], tonumber(arg())
call('ZCARD', zset) call('HLEN', hash)
local ids = {}
for n = 1, count do
  local id, score, rc = arg(), arg(), arg()
  ids[n] = id
  local now = call('ZSCORE', zset, id)
  local fields = call('HMGET', hash, id, id .. ':rc')
  if not now or not fields[1] then
    outcome[n] = 'g'
  elseif tonumber(now) ~= tonumber(score) or (fields[2] or '') ~= rc then
    outcome[n] = 'c'
  else
    bodies[n] = fields[1]
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
