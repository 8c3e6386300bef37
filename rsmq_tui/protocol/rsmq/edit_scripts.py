"""The Lua of guarded changes: a message, or field, changes only if it is still what was seen.

A call first checks its marker, a key of its own, and leaves its outcome there: after a lost connection or a crash the
marker says whether the call was executed, and can prevent it from being executed later. A marker does not expire,
because a server that runs out of memory evicts keys with an expiry first. Before the call, an empty key is written, the
witness: if it is there and the marker is not, the call was not executed. Everything that may be refused is checked
before the first write, so a call is executed whole or not at all.
"""

from rsmq_tui.protocol.rsmq.scripts import (
    IS_QUEUE_FIELD,
    MICROSECONDS_FROM,
    SCORES_OF,
    SECONDS_BELOW,
    TIME_FROM,
    Script,
)

# The results of one edit: the letters of an outcome.
DONE, GONE, CHANGED, UNMATCHED, TAKEN = "d", "g", "c", "n", "t"
# The separator between these and what the server found in place of what was seen; KEPT if a move kept that.
FOUND, KEPT = ";", "="

# Reads ``conditions``, decoded or false; ``meets_all`` returns whether a message meets all of them.
GUARD = (
    f"""
local TIME_FROM, SECONDS_BELOW, MICROSECONDS_FROM = {TIME_FROM}, {SECONDS_BELOW}, {MICROSECONDS_FROM}
"""
    + """
local now_ms, has_conditions = 0, conditions and #conditions > 0
if has_conditions then
  local time = call('TIME')
  now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
end
local compare = {
  ['='] = function(a, b) return a == b end, ['!='] = function(a, b) return a ~= b end,
  ['<'] = function(a, b) return a < b end, ['<='] = function(a, b) return a <= b end,
  ['>'] = function(a, b) return a > b end, ['>='] = function(a, b) return a >= b end,
}
local function due_ms(score)
  local due = tonumber(score)
  if due < TIME_FROM then return math.max(due, 0) end
  if due < SECONDS_BELOW then return due * 1000 end
  return due >= MICROSECONDS_FROM and due / 1000 or due
end
local function meets_all(score, rc)
  local values = {rc = tonumber(string.match(rc or '', '^%s*([+-]?%d+)')) or 0, due = due_ms(score) - now_ms}
  for _, condition in ipairs(conditions) do
    local is_met = false
    for _, comparisons in ipairs(condition.any_of) do
      local are_met = true
      for _, one in ipairs(comparisons) do are_met = are_met and compare[one[2]](values[one[1]], one[3]) end
      is_met = is_met or are_met
    end
    if is_met == condition.inverted then return false end
  end
  return true
end
local function is_number(raw) return not raw or (#raw <= 20 and string.match(raw, '^%d+$')) end
"""
)

# KEYS zset, hash of the queue; for a move also zset, hash of the target; last the marker.
# ARGV kind, '1' when the queue written to must exist, what each edit adds to totalsent (1, 0 or -1), how many edits,
# the guard, '1' when a move leaves score, rc and fr as it finds them;
# then, except for put, what they must be: each id; all scores as one text, a space between; each rc, or one '' if none
# has any. One text for all scores, because each argument costs time. Then for each edit what is written
#   remove  nothing
#   drop    nothing: as remove, but only what has no body
#   rescore new score
#   move    new id, new score, rc, fr
#   put     id, score, rc, fr, body
# where a raw value to write is '' for none, or = and the value; an rc to compare is '' for none, or the value.
# The guard is '' if score and rc must be what was seen. Otherwise they may be anything that meets all its conditions, a
# JSON array of {any_of: [[[field, operator, number]...]...], inverted: boolean}: field is rc, or due, which is ms from
# now. If rc or fr changed and is not a number, the message counts as changed.
# Returns one of the letters above for each edit; if the guard let changed messages pass, then FOUND or KEPT, and
# place:score:rc:fr of each as it was found, separated by spaces; '' for a missing field.
EDIT_MESSAGES = Script(
    IS_QUEUE_FIELD
    + SCORES_OF
    + f"""
local FOUND, KEPT = '{FOUND}', '{KEPT}'
"""
    + """
local call, pcall = redis.call, redis.pcall
local kind, must_exist, sent, count = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local conditions, keeps = ARGV[5] ~= '' and cjson.decode(ARGV[5]), ARGV[6] == '1'
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

"""
    + GUARD
    + """
-- A member of the zset may be named as a field of the queue is: that field is the queue's, and no body.
-- Nor is the body of a message called as another's counter: 'a:rc', beside 'a', is left where it is.
local outcome, ids, counters, there, present, is_member, scores, found = {}, {}, {}, {}, {}, {}, {}, {}
if kind ~= 'put' and count > 0 then
  ids = {unpack(ARGV, 7, 6 + count)}
  for n = 1, count do counters[n] = ids[n] .. ':rc' end
  if kind ~= 'rescore' then
    for n = 1, count do counters[count + n] = ids[n] .. ':fr' end
  end
  scores = scores_of(zset, ids)
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
  local wanted, rcs_at = scores, 7 + count
  if not all_there or table.concat(scores, ' ') ~= ARGV[rcs_at] then
    wanted = {}
    for score in string.gmatch(ARGV[rcs_at] .. ' ', '([^ ]*) ') do wanted[#wanted + 1] = score end
  end
  local has_rcs, seen = written_at - rcs_at == count, {}
  for n = 1, count do
    local id, score = ids[n], scores[n]
    if seen[id] or not score then
      outcome[n] = 'g'
    else
      local is_same = (score == wanted[n] or tonumber(score) == tonumber(wanted[n]))
        and (there[n] or '') == (has_rcs and ARGV[rcs_at + n] or '')
      local fr = there[count + n]
      if not is_same and not (conditions and is_number(there[n]) and is_number(fr)) then
        outcome[n] = 'c'
      elseif is_drop and call('HEXISTS', hash, id) == 1 then
        outcome[n] = 'c'
      elseif has_conditions and not meets_all(score, there[n]) then
        outcome[n] = 'n'
      else
        outcome[n] = 'd'
        if not is_same then
          found[#found + 1] = table.concat({n - 1, score, there[n] or '', fr or ''}, ':')
        end
      end
    end
    seen[id] = true
  end
end
-- Where a message goes: its id there, score, rc and fr.
local function written(n)
  if not keeps then return argument(n, 1), argument(n, 2), argument(n, 3), argument(n, 4) end
  local rc, fr = there[n], there[count + n]
  return argument(n, 1), scores[n], rc and '=' .. rc or '', fr and '=' .. fr or ''
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
    if (outcome[n] or 'd') == 'd' then
      local id, score, rc, fr = written(n)
      -- What Lua takes for a number, ZADD may not: refused now as well.
      if not string.match(score, '^%-?%d+%.?%d*$') then call('ZADD', to_zset, 'XX', score, marker) end
      local taken = seen[id] or call('ZSCORE', to_zset, id)
      -- An id without a body that gets its id back may find a body that came meanwhile: that is its own.
      local has_own = kind == 'put' and argument(n, 5) == ''
      if not (taken or is_queue_field[id] or has_own) then taken = call('HEXISTS', to_hash, id) == 1 end
      taken = taken or is_taken(2 * n - 1, rc) or is_taken(2 * n, fr)
      outcome[n] = taken and 't' or 'd'
      seen[id] = true
    end
  end
end

-- Fields come before members: a user who may not HSET is refused at the first of them.
local places = {}
local function put(id, score, rc, fr, body)
  local fields = {}
  if body and not is_queue_field[id] then fields[1], fields[2] = id, body end
  if rc ~= '' then fields[#fields + 1] = id .. ':rc' fields[#fields + 1] = value(rc) end
  if fr ~= '' then fields[#fields + 1] = id .. ':fr' fields[#fields + 1] = value(fr) end
  if #fields > 0 then call('HSET', to_hash, unpack(fields)) end
  places[#places + 1] = score
  places[#places + 1] = id
end

local told = table.concat(outcome)
local done, members, fields, last = 0, {}, {}, 0
local all_alike = kind == 'remove' and #present == 0 and told == string.rep('d', count)
for n = 1, count do all_alike = all_alike and not is_queue_field[ids[n]] end
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
        local new_id, score, rc, fr = written(n)
        put(new_id, score, rc, fr, call('HGET', hash, id))
      end
      members[done] = id
      for place = n, n + count, count do
        if there[place] and not is_member[counters[place]] then
          last = last + 1
          fields[last] = counters[place]
        end
      end
      if not is_queue_field[id] then
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
if #found > 0 then told = told .. (keeps and KEPT or FOUND) .. table.concat(found, ' ') end
-- A server that is out of memory refuses nothing more once a script has removed something.
pcall('SET', marker, told)
return told
"""
)

# KEYS zset, hash, index, marker; ARGV queue, whether it is listed before and after ('1', '0'), '1' when it must hold no
# message, then (field, before, after)*, '' for none, or = and the value.
# Changes all, or if anything has changed, nothing: returns 'd' or 'c'.
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
