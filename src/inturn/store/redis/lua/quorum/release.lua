#!lua flags=allow-oom
-- Takes a vote back.
-- KEYS  lock
-- ARGV  token deadline_ms
-- returns  released | gone | stale
-- include clock
if redis.call('GET', KEYS.lock) ~= ARGV.token then return { 'gone' } end
redis.call('DEL', KEYS.lock)
return { 'released' }
