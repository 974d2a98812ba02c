#!lua flags=allow-oom
-- Learn the fence that a majority agreed on: no later vote of this server is below it.
-- KEYS  fence
-- ARGV  fence deadline_ms
-- returns  learnt | stale
-- include clock
local number = math.max(tonumber(redis.call('GET', KEYS[1]) or 0), tonumber(ARGV[1]))
redis.call('SET', KEYS[1], string.format('%.0f', number))
return { 'learnt' }
