#!lua flags=allow-oom
-- The sends that wait for another partition, the oldest first; those that it has taken are forgotten.
-- KEYS  forward:<to> forwards
-- ARGV  prefix to taken(0: none) limit deadline_ms
-- returns  forwards sends(packed) how_many_there_are | stale
-- include clock partition
local taken = tonumber(ARGV[3])
while true do
  local head = redis.call('LINDEX', KEYS[1], 0)
  if not head then
    redis.call('SREM', KEYS[2], ARGV[2])
    return { 'forwards', {}, 0 }
  end
  if cmsgpack.unpack(head)[1] > taken then break end
  redis.call('LPOP', KEYS[1])
end
return { 'forwards', redis.call('LRANGE', KEYS[1], 0, ARGV[4] - 1), redis.call('LLEN', KEYS[1]) }
