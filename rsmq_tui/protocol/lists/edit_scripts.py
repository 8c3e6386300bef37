"""The Lua of guarded changes of list queues, composed of a source and a target.

A list has no ids: a change names values, and each item of that value is the same to it. Places are counted from the end
that producers push to, 0 is the item pushed last, so consumers that take from the other end do not shift them. A call
reads one window of the list, takes the named items from it, and keeps the order of the rest. As with RSMQ queues, a
call first checks its marker and leaves its outcome there, and everything that may be refused is checked before the
first write.

An outcome is one letter of ``Outcome`` for each edit. For messages from RSMQ queues, what was found in place of what
was seen may follow, as in ``rsmq_tui.protocol.rsmq.edit_scripts``.
"""

from rsmq_tui.protocol.rsmq.edit_scripts import FOUND, GUARD
from rsmq_tui.protocol.rsmq.scripts import Script

# KEYS list, leases of the source (RSMQ: zset, hash; none: the marker twice), the same of the target, marker.
# ARGV how many edits, the end that is taken from; then what source and target read in their turn.
_PRELUDE = """
local call, pcall = redis.call, redis.pcall
local marker, count, take = KEYS[5], tonumber(ARGV[1]), ARGV[2]
if call('EXISTS', marker) == 1 then return redis.error_reply('RSMQ voided') end
local place = 2
local function arg() place = place + 1 return ARGV[place] end
local function value(raw) return string.sub(raw, 2) end
local outcome, found, bodies, checks, writes = {}, {}, {}, {}, {}
for n = 1, count do outcome[n] = 'd' end
-- In processing the oldest item is at the right, whichever end consumers take from.
local function is_left_of(area) return area == 'q' and take == 'left' end
-- Tries a command on a key that is not there: what this user may not do, or there is no memory for, is refused now.
local function try(...)
  local reply = pcall(...)
  if type(reply) == 'table' and reply.err and not string.find(reply.err, 'no such key') then return reply end
end
local function try_push(command)
  local refused = try(command, marker, '')
  call('DEL', marker)
  return refused
end
local function push(command, key, items)
  for first = 1, #items, 4000 do call(command, key, unpack(items, first, math.min(first + 3999, #items))) end
end
-- Puts items at the end that is taken from: the first of them is taken next.
local function push_first(command, key, items)
  local turned, last = {}, #items
  for n = 1, last do turned[n] = items[last + 1 - n] end
  push(command, key, turned)
end
"""

# ARGV 'q' or 'p' (in the queue, or in processing); the nearest and the furthest place of the window; how far beyond it
# to look for what has shifted; how many places from 0 on to leave alone; '1' to take the items away; for each
# edit its value, its lease's token or '', and its deadline.
_FROM_LIST = """
local source, leases = KEYS[1], KEYS[2]
local is_left = is_left_of(arg())
local near, far, slack, spared, takes = tonumber(arg()), tonumber(arg()), tonumber(arg()), tonumber(arg()), arg() == '1'
local pop_front, pop_back = is_left and 'LPOP' or 'RPOP', is_left and 'RPOP' or 'LPOP'
local push_front, push_back = is_left and 'LPUSH' or 'RPUSH', is_left and 'RPUSH' or 'LPUSH'
local token, deadline, wanted = {}, {}, {}
for n = 1, count do
  bodies[n], token[n], deadline[n] = arg(), arg(), arg()
  local same = wanted[bodies[n]]
  if not same then
    same = {next = 1}
    wanted[bodies[n]] = same
  end
  same[#same + 1] = n
end
local length = call('LLEN', source)
call('ZCARD', leases)
local low, high = math.max(0, spared, near - slack), math.min(length - 1, far + slack)
local window = {}
if count > 0 and low <= high then
  window = is_left and call('LRANGE', source, -1 - high, -1 - low) or call('LRANGE', source, low, high)
end
local places, heavy = {}, 0
local function look(from, to)
  for at = math.min(from, high), math.max(to, low), -1 do
    local item = window[is_left and high - at + 1 or at - low + 1]
    heavy = heavy + #item
    local same = wanted[item]
    local n = same and same[same.next]
    if n then
      same.next = same.next + 1
      places[n] = at
    end
  end
end
look(far, near)
look(high, far + 1)
look(near - 1, low)
for n = 1, count do
  if not places[n] then
    outcome[n] = 'm'
  elseif token[n] ~= '' then
    local now = call('ZSCORE', leases, token[n] .. ':' .. bodies[n])
    if not now then
      outcome[n] = 'g'
    elseif tonumber(now) ~= tonumber(deadline[n]) then
      outcome[n] = 'c'
    end
  end
end
-- How what goes is taken away, once it is known what that is.
local gone, number, from_front, from_back, way, is_nearer_front = {}, 0, 0, 0, 'none', true
local function plan()
  local nearest, furthest = length, -1
  for n = 1, count do
    if outcome[n] == 'd' then
      gone[places[n]] = true
      number = number + 1
      nearest, furthest = math.min(nearest, places[n]), math.max(furthest, places[n])
    end
  end
  if number == 0 or not takes then return end
  from_front, from_back = length - nearest, furthest + 1
  is_nearer_front = from_front <= from_back
  local depth = is_nearer_front and from_front or from_back
  -- In microseconds, or about: through the nearer end and back, or to each place and then past all to the last of them.
  local through = depth * (1 + heavy / #window * 0.005)
  local walk = number * (2 + depth * 0.0003) + depth * 0.05
  if number == depth then
    way = 'end'
  else
    way = through <= walk and 'through' or 'walk'
  end
end
checks[#checks + 1] = function()
  plan()
  call('ZREM', leases, marker)
  if way == 'none' then return end
  local refused = try(is_nearer_front and pop_front or pop_back, marker)
  if way == 'through' then
    refused = refused or try_push(is_nearer_front and push_front or push_back)
  elseif way == 'walk' then
    refused = refused or try('LSET', marker, 0, '') or try('LREM', marker, 1, '')
  end
  return refused
end
writes[#writes + 1] = function()
  if way == 'end' then
    call(is_nearer_front and pop_front or pop_back, source, number)
  elseif way == 'through' then
    local kept = {}
    if is_nearer_front then
      for n, item in ipairs(call(pop_front, source, from_front)) do
        if not gone[length - n] then kept[#kept + 1] = item end
      end
      push_first(push_front, source, kept)
    else
      for n, item in ipairs(call(pop_back, source, from_back)) do
        if not gone[n - 1] then kept[#kept + 1] = item end
      end
      push_first(push_back, source, kept)
    end
  elseif way == 'walk' then
    local tombstone = marker .. ':gone'
    for at in pairs(gone) do call('LSET', source, is_left and -1 - at or at, tombstone) end
    call('LREM', source, is_nearer_front == is_left and number or -number, tombstone)
  end
  if not takes then return end
  for n = 1, count do
    if outcome[n] == 'd' and token[n] ~= '' then call('ZREM', leases, token[n] .. ':' .. bodies[n]) end
  end
end
"""

# ARGV what each adds to totalsent; the guard, as in ``rsmq.edit_scripts``; for each edit its id, score, and rc or ''.
_FROM_RSMQ = (
    """
local zset, hash, counted, guard = KEYS[1], KEYS[2], tonumber(arg()), arg()
local conditions = guard ~= '' and cjson.decode(guard)
"""
    + GUARD
    + """
call('ZCARD', zset) call('HLEN', hash)
local ids = {}
for n = 1, count do
  local id, score, rc = arg(), arg(), arg()
  ids[n] = id
  local now = call('ZSCORE', zset, id)
  local body, now_rc, now_fr = unpack(call('HMGET', hash, id, id .. ':rc', id .. ':fr'))
  local is_same = now and tonumber(now) == tonumber(score) and (now_rc or '') == rc
  if not now or not body then
    outcome[n] = 'g'
  elseif not is_same and not (conditions and is_number(now_rc) and is_number(now_fr)) then
    outcome[n] = 'c'
  elseif has_conditions and not meets_all(now, now_rc) then
    outcome[n] = 'n'
  else
    bodies[n] = body
    if not is_same then found[#found + 1] = table.concat({n - 1, now, now_rc or '', now_fr or ''}, ':') end
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
)

# ARGV 'q' or 'p'; '1' to put them at the end that is taken from; for each edit a lease's token or '', its deadline; '='
# and its bytes, or '' if the source has them.
_TO_LIST = """
local target, target_leases = KEYS[3], KEYS[4]
local is_target_left, is_first = is_left_of(arg()), arg() == '1'
local add = is_target_left == is_first and 'LPUSH' or 'RPUSH'
call('LLEN', target)
call('ZCARD', target_leases)
local new_token, new_deadline = {}, {}
for n = 1, count do
  new_token[n], new_deadline[n] = arg(), arg()
  local body = arg()
  if body ~= '' then bodies[n] = value(body) end
end
checks[#checks + 1] = function() return try_push(add) or try('ZADD', target_leases, 'XX', 0, marker) end
writes[#writes + 1] = function()
  local items = {}
  for n = 1, count do
    if outcome[n] == 'd' then
      items[#items + 1] = bodies[n]
      if new_token[n] ~= '' then
        call('ZADD', target_leases, new_deadline[n], new_token[n] .. ':' .. bodies[n])
      end
    end
  end
  if is_first then push_first(add, target, items) else push(add, target, items) end
end
"""

# ARGV for each edit the new lease of the item: its token, its deadline; '' for none.
_TO_LEASES = """
local given, until_then = {}, {}
for n = 1, count do given[n], until_then[n] = arg(), arg() end
checks[#checks + 1] = function() return try('ZADD', leases, 'XX', 0, marker) end
writes[#writes + 1] = function()
  for n = 1, count do
    if outcome[n] == 'd' then
      if given[n] ~= '' then call('ZADD', leases, until_then[n], given[n] .. ':' .. bodies[n]) end
      if token[n] ~= '' and token[n] ~= given[n] then call('ZREM', leases, token[n] .. ':' .. bodies[n]) end
    end
  end
end
"""

# ARGV what each adds to totalsent; for each edit its id, score, rc and fr ('' or = and the value), '=' and its body, or
# '' if that comes from the source.
_TO_RSMQ = """
local to_zset, to_hash, to_counted = KEYS[3], KEYS[4], tonumber(arg())
call('ZCARD', to_zset)
if call('HEXISTS', to_hash, 'vt') == 0 then return redis.error_reply('RSMQ queueNotFound') end
local messages, is_known = {}, {}
for n = 1, count do
  local id, score, rc, fr, body = arg(), arg(), arg(), arg(), arg()
  messages[n] = {id, score, rc, fr}
  if body ~= '' then bodies[n] = value(body) end
  if outcome[n] == 'd' then
    if is_known[id] or call('ZSCORE', to_zset, id) or call('HEXISTS', to_hash, id) == 1 then outcome[n] = 't' end
    is_known[id] = true
  end
end
checks[#checks + 1] = function()
  return try('ZADD', to_zset, 'XX', 0, marker) or try('HSET', to_hash, marker, '') or try('HDEL', to_hash, marker)
end
writes[#writes + 1] = function()
  local done = 0
  for n = 1, count do
    if outcome[n] == 'd' then
      done = done + 1
      local id, score, rc, fr = unpack(messages[n])
      call('HSET', to_hash, id, bodies[n])
      if rc ~= '' then call('HSET', to_hash, id .. ':rc', value(rc)) end
      if fr ~= '' then call('HSET', to_hash, id .. ':fr', value(fr)) end
      call('ZADD', to_zset, score, id)
    end
  end
  if to_counted ~= 0 and done > 0 then pcall('HINCRBY', to_hash, 'totalsent', to_counted * done) end
end
"""

_FINISH = (
    """
local told = table.concat(outcome)
if string.find(told, 'd', 1, true) then
  for _, check in ipairs(checks) do
    local refused = check()
    if refused then return refused end
  end
  for _, write in ipairs(writes) do write() end
end
"""
    + f"""
if #found > 0 then told = told .. '{FOUND}' .. table.concat(found, ' ') end
"""
    + """
-- Removing must work on a server that is out of memory, although the marker then cannot be left.
pcall('SET', marker, told)
return told
"""
)

_SOURCES = {"list": _FROM_LIST, "rsmq": _FROM_RSMQ, "": ""}
_TARGETS = {"list": _TO_LIST, "rsmq": _TO_RSMQ, "leases": _TO_LEASES, "": ""}

EDIT_LISTS = {
    (source, target): Script(_PRELUDE + _SOURCES[source] + _TARGETS[target] + _FINISH)
    for source in _SOURCES
    for target in _TARGETS
    if (source or target) and (source, target) != ("rsmq", "rsmq") and (target != "leases" or source == "list")
}
"""The script for what items come from and what they go to: a list, an RSMQ queue, or '' for nothing."""
