-- Sets the life of a plain lock, counted from now, if it is still the caller's. It never becomes shorter.
-- KEYS  lock
-- ARGV  lock_id life_ms
-- returns  done | held: it is another's | free: it is nobody's
local holder = redis.call('GET', KEYS.lock)
if holder ~= ARGV.lock_id then return holder and 'held' or 'free' end
local left = redis.call('PTTL', KEYS.lock)
-- -1: someone set it without an end, which is longer than anything
if left >= 0 and left < tonumber(ARGV.life_ms) then redis.call('PEXPIRE', KEYS.lock, ARGV.life_ms) end
return 'done'
