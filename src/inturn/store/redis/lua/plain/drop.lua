-- Delete a plain lock if it is still the caller's. (No flags line: servers older than Redis 7 take it too.)
-- KEYS  lock
-- ARGV  lock_id
-- returns  done | held: it is another's | free: it is nobody's
local holder = redis.call('GET', KEYS[1])
if holder == ARGV[1] then
  redis.call('DEL', KEYS[1])
  return 'done'
end
return holder and 'held' or 'free'
