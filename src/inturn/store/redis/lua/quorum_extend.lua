#!lua flags=allow-oom
-- Set the life of a vote from now on, never shorter than what remains.
-- KEYS  lock
-- ARGV  token life_ms deadline_ms
-- returns  extended | lost | stale
-- include clock
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return { 'lost' } end
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return { 'extended' }
