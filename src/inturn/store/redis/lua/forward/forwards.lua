#!lua flags=allow-oom
-- Returns the sends that wait for another partition, the oldest first. Removes those that it has taken.
-- KEYS  forward(:<to>) forwards
-- ARGV  prefix to taken(0: none) limit deadline_ms
-- returns  forwards sends(packed) how_many_there_are | none | stale
-- include clock partition
local taken = tonumber(ARGV.taken)
while true do
  local head = redis.call('LINDEX', KEYS.forward, 0)
  if not head then
    redis.call('SREM', KEYS.forwards, ARGV.to)
    return { 'none', {}, 0 }
  end
  if cmsgpack.unpack(head)[1] > taken then break end
  redis.call('LPOP', KEYS.forward)
end
return { 'forwards', redis.call('LRANGE', KEYS.forward, 0, ARGV.limit - 1), redis.call('LLEN', KEYS.forward) }
