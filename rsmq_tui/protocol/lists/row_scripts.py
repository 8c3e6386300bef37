"""The Lua of the poll of list queues: one call for many queues, and nothing of it writes."""

import hashlib

from rsmq_tui.protocol.read_scripts import MICROSECONDS_FROM, SECONDS_BELOW
from rsmq_tui.protocol.replies import array
from rsmq_tui.protocol.scripts import Script

# Redis has no way to learn how long an item is without copying it. One call stops looking at items once it has copied
# so many bytes, and those of this size or more are looked at again only after a while (see ``rows``).
LOOK_BYTES_MAX = 4 << 20
BIG_BYTES = 64 << 10

# Short items are their own mark; of a big one both ends and the size tell whether it is another.
_MARK_BYTES = 40
_END_BYTES = 4096

# KEYS (list, processing list, zset of leases)*; ARGV now ms, bytes of the next item to return, from which index to
# which the next two items lie, for each queue 1 or 0: whether to look at them, and 1 where only the lists are given:
# then what is in processing and the leases are false.
# For each queue {ready, processing, leases, head, lease}: each of the first three is a number, or an error text, and
# ``leases`` is 1 where there are any, else 0: counting them would be one command more. ``head`` is false for an
# empty list, 0 where it was not looked at, else {size, mark, how many of the next two are equal to it, start of it}.
# ``lease`` is false without leases, else {expired, first deadline}, and then a sixth element says when time alone will
# next change the row: the smallest deadline above now, '' for never, or 0 where that is not looked for.
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
    """Return what tells an item from others of its size, as the script makes it."""
    if len(item) <= _MARK_BYTES:
        return item
    told = item if len(item) < BIG_BYTES else item[:_END_BYTES] + item[-_END_BYTES:]
    return hashlib.sha1(told, usedforsecurity=False).hexdigest().encode()
