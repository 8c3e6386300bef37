"""The Lua of guarded changes: each message, or field, changes only if it still is what somebody saw.

A call first asks for its marker, a key of its own, and leaves its outcome there: whoever loses the connection, or dies,
between asking and being answered can tell later whether it was carried out, and can make sure that it never will be.
A marker has no lifetime: what has one is what a server that runs out of memory takes away first.
Everything that may be refused is checked before the first write, so that a call is carried out whole or not at all.
"""

from rsmq_tui.protocol.scripts import Script

# What became of one edit: the characters of an outcome.
DONE, GONE, CHANGED, TAKEN = "d", "g", "c", "t"

# KEYS zset, hash of the queue; for a move also zset, hash of the target; last the marker.
# ARGV kind, '1' when the queue written to must exist, what each edit adds to totalsent (1, 0 or -1), how many edits;
# then, but for put, what they must be: each id; all scores as one text, a space between; each rc, or one '' where none
# has any. Every argument takes as long as looking a field up: hence the one text. Then for each edit what is written
#   remove  nothing
#   drop    nothing: as remove, but only what has no body
#   rescore new score
#   move    new id, new score, rc, fr
#   put     id, score, rc, fr, body
# where a raw value to write is '' for none, or = and the value; an rc to compare is '' for none, or the value.
# Returns one of the letters above for each edit.
EDIT_MESSAGES = Script("""
local call, pcall = redis.call, redis.pcall
local kind, must_exist, sent, count = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local is_drop = kind == 'drop'
if is_drop then kind = 'remove' end
local zset, hash, marker = KEYS[1], KEYS[2], KEYS[#KEYS]
local to_zset, to_hash = zset, hash
if #KEYS == 5 then to_zset, to_hash = KEYS[3], KEYS[4] end
if call('EXISTS', marker) == 1 then return redis.error_reply('RSMQ voided') end
call('ZCARD', zset) call('HLEN', hash) call('ZCARD', to_zset) call('HLEN', to_hash)
if must_exist == '1' and call('HEXISTS', to_hash, 'vt') == 0 then
  return redis.error_reply('RSMQ queueNotFound')
end
-- What this user may not do is refused now, not in the middle.
if kind == 'remove' or kind == 'move' then call('ZREM', zset, marker) call('HDEL', hash, marker) end
if kind ~= 'remove' then call('ZADD', to_zset, 'XX', 0, marker) end

local width = ({remove = 0, rescore = 1, move = 4, put = 5})[kind]
local written_at = #ARGV - width * count
local function argument(n, field) return ARGV[written_at + (n - 1) * width + field] end
local function value(raw) return string.sub(raw, 2) end
local function scores_of(key, names)
  local scores = pcall('ZMSCORE', key, unpack(names))
  if scores.err then
    scores = {}
    for n = 1, #names do scores[n] = call('ZSCORE', key, names[n]) end
  end
  return scores
end

-- A member of the zset may be called as a field of the queue is: that field is the queue's, and no body.
local attribute = {
  vt = true, delay = true, maxsize = true, created = true, modified = true, totalsent = true, totalrecv = true,
}

-- Nor is the body of a message called as another's counter: 'a:rc', beside 'a', is left where it is.
local outcome, ids, counters, there, present, is_member = {}, {}, {}, {}, {}, {}
if kind ~= 'put' and count > 0 then
  ids = {unpack(ARGV, 5, 4 + count)}
  for n = 1, count do counters[n] = ids[n] .. ':rc' end
  if kind ~= 'rescore' then
    for n = 1, count do counters[count + n] = ids[n] .. ':fr' end
  end
  local scores = scores_of(zset, ids)
  there = call('HMGET', hash, unpack(counters))
  local all_there = true
  for n = 1, count do all_there = all_there and scores[n] end
  for n = 1, #counters do
    if there[n] then present[#present + 1] = counters[n] end
  end
  if kind ~= 'rescore' and #present > 0 then
    local members = scores_of(zset, present)
    for n = 1, #present do is_member[present[n]] = members[n] end
  end
  -- Mostly all are as they were.
  local wanted, rcs_at = scores, 5 + count
  if not all_there or table.concat(scores, ' ') ~= ARGV[rcs_at] then
    wanted = {}
    for score in string.gmatch(ARGV[rcs_at] .. ' ', '([^ ]*) ') do wanted[#wanted + 1] = score end
  end
  local has_rcs, seen = written_at - rcs_at == count, {}
  for n = 1, count do
    local id, score = ids[n], scores[n]
    if seen[id] or not score then
      outcome[n] = 'g'
    elseif score ~= wanted[n] and tonumber(score) ~= tonumber(wanted[n]) then
      outcome[n] = 'c'
    elseif (there[n] or '') ~= (has_rcs and ARGV[rcs_at + n] or '') then
      outcome[n] = 'c'
    elseif is_drop and call('HEXISTS', hash, id) == 1 then
      outcome[n] = 'c'
    else
      outcome[n] = 'd'
    end
    seen[id] = true
  end
end
if kind == 'put' or kind == 'move' then
  local seen, names = {}, {}
  for n = 1, count do
    local id = argument(n, 1)
    names[2 * n - 1], names[2 * n] = id .. ':rc', id .. ':fr'
  end
  local others = count > 0 and call('HMGET', to_hash, unpack(names)) or {}
  -- A counter that is there is somebody else's; only the body of a message that is there may be one and the same.
  local function is_taken(place, raw)
    local now = others[place]
    return now and not ('=' .. now == raw and call('ZSCORE', to_zset, names[place]))
  end
  for n = 1, count do
    local id, score = argument(n, 1), argument(n, 2)
    -- What Lua takes for a number, ZADD may not: refused now as well.
    if not string.match(score, '^%-?%d+%.?%d*$') then call('ZADD', to_zset, 'XX', score, marker) end
    if (outcome[n] or 'd') == 'd' then
      local taken = seen[id] or call('ZSCORE', to_zset, id)
      -- An id without a body that gets its id back may find a body that came meanwhile: that is its own.
      local has_own = kind == 'put' and argument(n, 5) == ''
      if not (taken or attribute[id] or has_own) then taken = call('HEXISTS', to_hash, id) == 1 end
      taken = taken or is_taken(2 * n - 1, argument(n, 3)) or is_taken(2 * n, argument(n, 4))
      outcome[n] = taken and 't' or 'd'
      seen[id] = true
    end
  end
end

-- Fields come before members: a user who may not HSET is refused at the first of them.
local places = {}
local function put(id, score, rc, fr, body)
  local fields = {}
  if body and not attribute[id] then fields[1], fields[2] = id, body end
  if rc ~= '' then fields[#fields + 1] = id .. ':rc' fields[#fields + 1] = value(rc) end
  if fr ~= '' then fields[#fields + 1] = id .. ':fr' fields[#fields + 1] = value(fr) end
  if #fields > 0 then call('HSET', to_hash, unpack(fields)) end
  places[#places + 1] = score
  places[#places + 1] = id
end

local told = table.concat(outcome)
local done, members, fields, last = 0, {}, {}, 0
local all_alike = kind == 'remove' and #present == 0 and told == string.rep('d', count)
for n = 1, count do all_alike = all_alike and not attribute[ids[n]] end
-- Mostly all of them go, and none was received: what is removed is their ids.
if all_alike then done, members, fields, last = count, ids, ids, count end
for n = done + 1, count do
  if outcome[n] == 'd' then
    done = done + 1
    local id = ids[n] or argument(n, 1)
    if kind == 'put' then
      local body = argument(n, 5)
      put(id, argument(n, 2), argument(n, 3), argument(n, 4), body ~= '' and value(body))
    elseif kind == 'rescore' then
      members[#members + 1] = argument(n, 1)
      members[#members + 1] = id
    else
      if kind == 'move' then
        put(argument(n, 1), argument(n, 2), argument(n, 3), argument(n, 4), call('HGET', hash, id))
      end
      members[done] = id
      for place = n, n + count, count do
        if there[place] and not is_member[counters[place]] then
          last = last + 1
          fields[last] = counters[place]
        end
      end
      if not attribute[id] then
        last = last + 1
        fields[last] = id
      end
    end
  end
end
if #places > 0 then call('ZADD', to_zset, unpack(places)) end
if #members > 0 and kind ~= 'rescore' then
  call('ZREM', zset, unpack(members))
  if last > 0 then call('HDEL', hash, unpack(fields)) end
elseif #members > 0 then
  call('ZADD', zset, 'XX', unpack(members))
end
if sent ~= 0 and done > 0 then pcall('HINCRBY', to_hash, 'totalsent', sent * done) end
-- Removing must work on a server that is out of memory, although the marker then cannot be left.
local marked = pcall('SET', marker, told)
return told
""")

# KEYS zset, hash, index, marker; ARGV queue, whether it is listed before and after ('1', '0'), '1' when it must hold no
# message, then (field, before, after)*, '' for none, or = and the value.
# All of it or, if anything is not as it was, nothing: returns 'd' or 'c'.
EDIT_FIELDS = Script("""
local call = redis.call
local zset, hash, index, marker = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
if call('EXISTS', marker) == 1 then return redis.error_reply('RSMQ voided') end
local depth = call('ZCARD', zset)
call('HLEN', hash)
local told = 'd'
if tostring(call('SISMEMBER', index, ARGV[1])) ~= ARGV[2] then told = 'c' end
if ARGV[4] == '1' and depth > 0 then told = 'c' end
for n = 5, #ARGV, 3 do
  local now = call('HGET', hash, ARGV[n])
  if (now and '=' .. now or '') ~= ARGV[n + 1] then told = 'c' end
end
if told == 'd' then
  local set, removed = {}, {}
  for n = 5, #ARGV, 3 do
    if ARGV[n + 2] == '' then
      removed[#removed + 1] = ARGV[n]
    else
      set[#set + 1] = ARGV[n]
      set[#set + 1] = string.sub(ARGV[n + 2], 2)
    end
  end
  local joins, leaves = ARGV[2] == '0' and ARGV[3] == '1', ARGV[2] == '1' and ARGV[3] == '0'
  -- What this user may not do is refused now, not in the middle; a SADD can only be tried, and taken back.
  if #removed > 0 then call('HDEL', hash, marker) end
  if joins or leaves then call('SREM', index, marker) end
  if joins then call('SADD', index, ARGV[1]) end
  if #set > 0 then
    local reply = redis.pcall('HSET', hash, unpack(set))
    if type(reply) == 'table' and reply.err then
      if joins then call('SREM', index, ARGV[1]) end
      return reply
    end
  end
  if #removed > 0 then call('HDEL', hash, unpack(removed)) end
  if leaves then call('SREM', index, ARGV[1]) end
end
redis.pcall('SET', marker, told)
return told
""")

# KEYS zset, hash, marker; ARGV 'stray' or 'owned', then (field, before, after)*, '' for none, or = and the value.
# A stray field is neither a message's body nor its counter; an owned one is the counter of a message that is there.
# A message that has no body may get one.
# Returns one of the letters above for each field.
EDIT_LOOSE = Script("""
local call = redis.call
local zset, hash, marker = KEYS[1], KEYS[2], KEYS[3]
if call('EXISTS', marker) == 1 then return redis.error_reply('RSMQ voided') end
call('ZCARD', zset) call('HLEN', hash)
local counters = {[':rc'] = 3, [':fr'] = 3, [':meta'] = 5}
local function counter_length(name)
  return counters[string.sub(name, -3)] or counters[string.sub(name, -5)]
end
local function is_owned(name)
  local long = counter_length(name)
  return long and call('ZSCORE', zset, string.sub(name, 1, -1 - long))
end
local outcome, set, removed = {}, {}, {}
for n = 2, #ARGV, 3 do
  local name, before, after = ARGV[n], ARGV[n + 1], ARGV[n + 2]
  local now, told = call('HGET', hash, name), 'd'
  if (now and '=' .. now or '') ~= before then
    told = now and 'c' or 'g'
  elseif call('ZSCORE', zset, name) then
    -- The id of a body that was taken away may have come meanwhile: what is put back is that message's own.
    local is_its_body = ARGV[1] == 'stray' and before == '' and after ~= '' and not counter_length(name)
    if not is_its_body then told = 'c' end
  elseif ARGV[1] == 'stray' then
    if is_owned(name) then told = 'c' end
  elseif not is_owned(name) then
    told = 'g'
  end
  outcome[#outcome + 1] = told
  if told == 'd' and after == '' then
    removed[#removed + 1] = name
  elseif told == 'd' then
    set[#set + 1] = name
    set[#set + 1] = string.sub(after, 2)
  end
end
-- What this user may not do is refused now, not in the middle.
if #removed > 0 then call('HDEL', hash, marker) end
if #set > 0 then call('HSET', hash, unpack(set)) end
if #removed > 0 then call('HDEL', hash, unpack(removed)) end
local told = table.concat(outcome)
redis.pcall('SET', marker, told)
return told
""")
