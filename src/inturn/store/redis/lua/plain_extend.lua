-- Set the life of a plain lock from now on, never shorter than what remains, if it is still the caller's.
-- KEYS  lock
-- ARGV  lock_id life_ms
-- returns  done | held: it is another's | free: it is nobody's
local holder = redis.call('GET', KEYS[1])
if holder ~= ARGV[1] then return holder and 'held' or 'free' end
local left = redis.call('PTTL', KEYS[1])
-- -1: someone set it without an end, which is longer than anything
if left >= 0 and left < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 'done'
