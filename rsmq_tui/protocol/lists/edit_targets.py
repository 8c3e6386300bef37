"""The Lua of guarded changes of list queues: where items go, to a list, to leases or to an RSMQ queue."""

# ARGV 'q' or 'p', the shift that is known; for each edit the position that it is to have, the SHA1 of the item before
# it, '-' for the first of all, or ''; a lease's token or '', its deadline; '=' and its bytes, or '' where the source
# has them.
TO_LIST = """
local target, target_leases = KEYS[3], KEYS[4]
local is_left, index, range, around = side_of(arg())
local pop_front, pop_back = is_left and 'LPOP' or 'RPOP', is_left and 'RPOP' or 'LPOP'
local front, back = is_left and 'LPUSH' or 'RPUSH', is_left and 'RPUSH' or 'LPUSH'
local target_hint = tonumber(arg())
local target_length = call('LLEN', target)
call('ZCARD', target_leases)
local goes, behind, new_token, new_deadline = {}, {}, {}, {}
for n = 1, count do
  goes[n], behind[n], new_token[n], new_deadline[n] = tonumber(arg()), arg(), arg(), arg()
  local body = arg()
  if body ~= '' then bodies[n] = value(body) end
end
checks[#checks + 1] = function()
  local refused = try('LSET', marker, 0, '') or try('LINSERT', marker, 'BEFORE', '', '')
    or try('RPUSH', marker, '') or try('LPUSH', marker, '') or try('LPOP', marker, 2) or try('RPOP', marker)
    or try('ZADD', target_leases, 'XX', 0, marker)
  call('DEL', marker)
  if refused then return refused end
end
-- Where each goes, in the list as it is when those before it are there.
local function destinations()
  local to, order, left_out, coming = {}, {}, 0, 0
  for n = 1, count do
    if outcome[n] == 'd' then coming = coming + 1 end
  end
  for n = 1, count do
    if outcome[n] == 'd' then
      order[#order + 1] = n
      local p = goes[n]
      -- Counted from the back, those that do not come leave their places to those before them.
      if p < 0 then
        p = target_length + coming + p + (count - coming - left_out)
      else
        p = p - left_out
      end
      to[#order] = p + target_hint
    else
      left_out = left_out + 1
    end
  end
  return to, order
end
local function found_shift(to, order)
  local witnesses = {}
  for n = 1, #order do
    local sha = behind[order[n]]
    if sha ~= '' and sha ~= '-' then witnesses[#witnesses + 1] = {to[n] - n, sha} end
  end
  -- Without any, an end is where it is; elsewhere nothing tells.
  if #witnesses == 0 then
    return 0, #order == 0 or to[1] <= 0 or to[#order] >= target_length + #order - 1
  end
  witnesses = spread(witnesses)
  local seen = 0
  for _, witness in ipairs(witnesses) do
    local now = witness[1] >= 0 and witness[1] < target_length and call('LINDEX', target, index(witness[1]))
    if now and redis.sha1hex(now) == witness[2] then seen = seen + 1 end
  end
  if seen == #witnesses then return 0, true end
  local votes = {}
  for _, witness in ipairs(witnesses) do
    for p, now in pairs(around(target, target_length, witness[1])) do
      if redis.sha1hex(now) == witness[2] then
        local shift = p - witness[1]
        votes[shift] = (votes[shift] or 0) + 1
      end
    end
  end
  local shift = elected(votes, 1)
  return shift, (votes[shift] or 0) > 0
end
writes[#writes + 1] = function()
  local to, order = destinations()
  local number = #order
  if number == 0 then return end
  local shift, is_sure = found_shift(to, order)
  if not is_sure then inexact = number end
  target_shift = target_hint + shift
  local whole = target_length + number
  for n = 1, number do
    local p = math.max(to[n] + shift, n == 1 and 0 or to[n - 1] + 1)
    local most = target_length + n - 1
    if p > most or (n == 1 and to[n] + shift < 0) then inexact = number end
    to[n] = math.min(p, most)
  end
  local low, high = to[1], to[number]
  -- What a way costs, in microseconds or about: through one end, or walking to each place from the head of the list.
  local through_front, through_back = high - (number - 1), target_length - low
  local walked = 0
  for n = 1, number do walked = walked + (is_left and to[n] or whole - to[n]) end
  -- Long items take as long as it takes to copy them; those that are there may be as long as those that come.
  local heavy = 0
  for n = 1, number do heavy = heavy + #bodies[order[n]] end
  heavy = heavy / number * 0.005
  local by_insert = walked * 0.05 + number * (300 + 3 * heavy)
  local by_front, by_back = through_front * (1 + heavy), through_back * (1 + heavy)
  if by_back <= by_front and by_back <= by_insert then
    local popped = through_back > 0 and call(pop_back, target, through_back) or {}
    local items, next_one, next_popped = {}, 1, #popped
    for p = low, whole - 1 do
      if to[next_one] == p then
        items[#items + 1] = bodies[order[next_one]]
        next_one = next_one + 1
      else
        items[#items + 1] = popped[next_popped]
        next_popped = next_popped - 1
      end
    end
    push(back, target, items)
  elseif by_front <= by_insert then
    local popped = through_front > 0 and call(pop_front, target, through_front) or {}
    local items, next_one, next_popped = {}, number, #popped
    for p = high, 0, -1 do
      if to[next_one] == p then
        items[#items + 1] = bodies[order[next_one]]
        next_one = next_one - 1
      else
        items[#items + 1] = popped[next_popped]
        next_popped = next_popped - 1
      end
    end
    push(front, target, items)
  else
    for n = 1, number do
      local p, body = to[n], bodies[order[n]]
      local there = call('LINDEX', target, index(p))
      if not there then
        call(back, target, body)
      else
        call('LSET', target, index(p), tombstone)
        call('LINSERT', target, is_left and 'BEFORE' or 'AFTER', tombstone, body)
        call('LSET', target, index(p + 1), there)
      end
    end
  end
  for n = 1, number do
    local token_there = new_token[order[n]]
    if token_there ~= '' then
      call('ZADD', target_leases, new_deadline[order[n]], token_there .. ':' .. bodies[order[n]])
    end
  end
end
"""

# ARGV for each edit the lease that the item is to have: its token, its deadline; '' for none.
TO_LEASES = """
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
# '' where that comes from the source.
TO_RSMQ = """
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
