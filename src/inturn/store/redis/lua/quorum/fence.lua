#!lua flags=allow-oom
-- Learns the fence that a majority agreed on: no later vote of this server is below it.
-- KEYS  fence
-- ARGV  fence deadline_ms
-- returns  learnt | stale
-- include clock
local number = math.max(tonumber(redis.call('GET', KEYS.fence) or 0), tonumber(ARGV.fence))
redis.call('SET', KEYS.fence, string.format('%.0f', number))
return { 'learnt' }
