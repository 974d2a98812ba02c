#!lua flags=allow-oom
-- A process says what its turns, and its owners of locks, wait for. It says so again every second while that lasts.
-- KEYS  waits
-- ARGV  prefix, waits... deadline_ms
-- WAIT  node(an owner of locks, or the token of a turn) token(of this wait; '': the node waits for nothing here) name
--       ident('': `name` is a lock; else of the message that is waited for in the lane `name`)
--       arrival(0: it began age_ms ago) age_ms
-- returns  reported now_us | stale
-- include clock partition
--   awaits:<node>  string: packed {when it was reported, waits {token, name, ident, arrival}}, for three beats
local nodes = {}
for i = FIRST.waits, LAST.waits, SIZE.WAIT do
  local node, token = ARGV[i + WAIT.node], ARGV[i + WAIT.token]
  local arrival = tonumber(ARGV[i + WAIT.arrival])
  if arrival == 0 then arrival = now_us - ARGV[i + WAIT.age_ms] * 1000 end
  local waits = nodes[node] or {}
  nodes[node] = waits
  if token ~= '' then waits[#waits + 1] = { token, ARGV[i + WAIT.name], ARGV[i + WAIT.ident], arrival } end
end
for node, waits in pairs(nodes) do
  if #waits == 0 then
    redis.call('DEL', prefix .. 'awaits:' .. node)
  else
    redis.call('SET', prefix .. 'awaits:' .. node, cmsgpack.pack({ now, waits }), 'PX', limits.PLACE_LIVES_MS)
  end
end
return { 'reported', now_us }
