-- Deletes a plain lock if it is still the caller's. (No flags line: servers older than Redis 7 take it too.)
-- KEYS  lock
-- ARGV  lock_id
-- returns  done | held: it is another's | free: it is nobody's
local holder = redis.call('GET', KEYS.lock)
if holder == ARGV.lock_id then
  redis.call('DEL', KEYS.lock)
  return 'done'
end
return holder and 'held' or 'free'
