"""The Lua of guarded changes of list queues, put together of where items come from and where they go.

A list has no ids: an item is what lies at a place and has those bytes. Positions are counted from the end that
consumers take from, 0 is taken next; below 0 they are counted from the other end, -1 is its last item. Consumers and
producers work meanwhile, so a call looks for where all of its items have shifted to, near where they were, and leaves
alone what it cannot tell for the same. As with RSMQ's queues, a call first asks for its marker and leaves its outcome
there, and whatever may be refused is refused before the first write.

An outcome is a letter for each edit, then how far the source and the target had shifted, and how many items were put
where nothing says that it is exactly their place: ``ddg@-3@0@0``.
"""

from rsmq_tui.protocol.lists.edit_sources import FROM_LIST, FROM_RSMQ
from rsmq_tui.protocol.lists.edit_targets import TO_LEASES, TO_LIST, TO_RSMQ
from rsmq_tui.protocol.scripts import Script

# KEYS list, leases of the source (RSMQ: zset, hash; none: the marker twice), the same of the target, marker.
# ARGV how many edits, the end that is taken from; then what source and target read in their turn.
_PRELUDE = """
local call, pcall = redis.call, redis.pcall
local marker, count, take = KEYS[5], tonumber(ARGV[1]), ARGV[2]
if call('EXISTS', marker) == 1 then return redis.error_reply('RSMQ voided') end
local place = 2
local function arg() place = place + 1 return ARGV[place] end
local function value(raw) return string.sub(raw, 2) end
local outcome, bodies, checks, writes = {}, {}, {}, {}
local source_shift, target_shift, inexact = 0, 0, 0
for n = 1, count do outcome[n] = 'd' end
local tombstone = marker .. ':gone'
local near, samples_most = 250, 6
-- Whoever looks around copies no more than about that.
local look_bytes = 8000000

-- How positions are counted: in processing the oldest is at the right, whichever end consumers take from.
local function side_of(area)
  local is_left = area == 'q' and take == 'left'
  local function index(p) if is_left then return p end return -1 - p end
  local function range(key, p, q)
    if q < p then return {} end
    if is_left then return call('LRANGE', key, p, q) end
    local found, turned = call('LRANGE', key, -1 - q, -1 - p), {}
    local last = #found
    for n = 1, last do turned[n] = found[last + 1 - n] end
    return turned
  end
  -- Gives what lies near a place, by place: as far as that may be copied, and nothing tells how long items are.
  local function around(key, length, p)
    local found = {}
    local function walk(from, by, left)
      local at, step, longest = from, 1, 1
      while left > 0 and at >= 0 and at < length and math.abs(at - p) <= near do
        local first = by < 0 and math.max(0, at - step + 1) or at
        local items = range(key, first, by < 0 and at or at + step - 1)
        for n = 1, #items do
          found[first + n - 1] = items[n]
          left, longest = left - #items[n], math.max(longest, #items[n])
        end
        at = by < 0 and first - 1 or at + #items
        step = math.max(1, math.min(near, math.floor(left / (4 * longest))))
      end
    end
    local share = look_bytes / (2 * samples_most)
    walk(math.min(p, length - 1), -1, share)
    walk(p + 1, 1, share)
    return found
  end
  return is_left, index, range, around
end
-- Tries a command on a key that is not there: what this user may not do, or there is no memory for, is refused now.
local function try(...)
  local reply = pcall(...)
  if type(reply) == 'table' and reply.err and not string.find(reply.err, 'no such key') then return reply end
end
-- Some of many, from the first to the last.
local function spread(of)
  if #of <= samples_most then return of end
  local some = {}
  for n = 0, samples_most - 1 do some[n + 1] = of[1 + math.floor(n * (#of - 1) / (samples_most - 1))] end
  return some
end
-- The shift that most samples vote for, if it is one alone, of at least so many votes, and more than for staying.
local function elected(votes, least)
  local best, most, is_alone = 0, 0, false
  for shift, number in pairs(votes) do
    if number > most then
      best, most, is_alone = shift, number, true
    elseif number == most then
      is_alone = false
    end
  end
  if is_alone and most >= least and most > (votes[0] or 0) then return best end
  return 0
end
local function push(command, key, items)
  for first = 1, #items, 4000 do call(command, key, unpack(items, first, math.min(first + 3999, #items))) end
end
"""

_FINISH = """
local told = table.concat(outcome)
if string.find(told, 'd', 1, true) then
  for _, check in ipairs(checks) do
    local refused = check()
    if refused then return refused end
  end
  for _, write in ipairs(writes) do write() end
end
told = table.concat({told, string.format('%d', source_shift), string.format('%d', target_shift), inexact}, '@')
-- Removing must work on a server that is out of memory, although the marker then cannot be left.
pcall('SET', marker, told)
return told
"""

_SOURCES = {"list": FROM_LIST, "rsmq": FROM_RSMQ, "": ""}
_TARGETS = {"list": TO_LIST, "rsmq": TO_RSMQ, "leases": TO_LEASES, "": ""}

EDIT_LISTS = {
    (source, target): Script(_PRELUDE + _SOURCES[source] + _TARGETS[target] + _FINISH)
    for source in _SOURCES
    for target in _TARGETS
    if (source or target) and (source, target) != ("rsmq", "rsmq") and (target != "leases" or source == "list")
}
"""The script for what items come from and what they go to: a list, an RSMQ queue, or '' for nothing."""
