#!lua
-- One server's vote for a lock: yes if it is free, or if it has this very token already (a repeat).
-- KEYS  lock fence
-- ARGV  token ttl_ms deadline_ms
-- returns  granted fence | busy token | stale
-- include clock
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return { 'busy', holder } end
if not holder then redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) end
-- the counter follows the clock, so that it grows on after the memory is lost
local number = math.max(tonumber(redis.call('GET', KEYS[2]) or 0) + 1, now_us)
redis.call('SET', KEYS[2], string.format('%.0f', number))
return { 'granted', number }
