"""The Lua of the scan: one step of ZSCAN, and what belongs to the messages that it finds."""

from rsmq_tui.protocol.scripts import Script

# KEYS[1] zset, KEYS[2] attributes hash; ARGV cursor, how many (a hint), 1 to read receive counts.
# [TIME, depth, next cursor, (id, score)*, body sizes, (rc, fr)* or nil]. HMGET goes in slices: Lua's stack has an end.
SCAN = Script("""
local call, attributes = redis.call, KEYS[2]
local time = call('TIME')
local depth = call('ZCARD', KEYS[1])
local reply = call('ZSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])
local found, sizes, counts, n = reply[2], {}, false, 0
for i = 1, #found, 2 do
  n = n + 1
  sizes[n] = call('HSTRLEN', attributes, found[i])
end
if ARGV[3] == '1' then
  counts = {}
  for from = 1, #found, 1000 do
    local fields = {}
    for i = from, math.min(from + 999, #found), 2 do
      fields[#fields + 1] = found[i] .. ':rc'
      fields[#fields + 1] = found[i] .. ':fr'
    end
    local values = call('HMGET', attributes, unpack(fields))
    for i = 1, #fields do counts[#counts + 1] = values[i] end
  end
end
return {time, depth, reply[1], found, sizes, counts}
""")
