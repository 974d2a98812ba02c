#!lua flags=no-writes
-- Shows whom this server has voted for.
-- KEYS  lock
-- ARGV  deadline_ms
-- returns  held token | free | stale
-- include clock
local holder = redis.call('GET', KEYS.lock)
if holder then return { 'held', holder } end
return { 'free' }
