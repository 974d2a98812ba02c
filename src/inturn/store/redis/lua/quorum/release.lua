#!lua flags=allow-oom
-- Take a vote back.
-- KEYS  lock
-- ARGV  token deadline_ms
-- returns  released | gone | stale
-- include clock
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return { 'gone' } end
redis.call('DEL', KEYS[1])
return { 'released' }
