#!lua
-- One server's vote for a lock: yes if it is free, or if it has this very token already (a repeat).
-- KEYS  lock fence
-- ARGV  token ttl_ms deadline_ms
-- returns  granted fence | busy token | stale
-- include clock
local holder = redis.call('GET', KEYS.lock)
if holder and holder ~= ARGV.token then return { 'busy', holder } end
if not holder then redis.call('SET', KEYS.lock, ARGV.token, 'PX', ARGV.ttl_ms) end
-- the counter follows the clock, so it still grows if the memory is lost
local number = math.max(tonumber(redis.call('GET', KEYS.fence) or 0) + 1, now_us)
redis.call('SET', KEYS.fence, string.format('%.0f', number))
return { 'granted', number }
