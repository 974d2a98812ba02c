#!lua flags=allow-oom
-- Sets the life of a vote, counted from now; it never becomes shorter. A server that was away, or forgot, votes anew.
-- That is safe, because this is only asked while a majority is known to hold the token.
-- KEYS  lock
-- ARGV  token life_ms deadline_ms
-- returns  extended | lost: it is another's | stale
-- include clock
local holder = redis.call('GET', KEYS.lock)
if holder and holder ~= ARGV.token then return { 'lost' } end
if not holder then
  redis.call('SET', KEYS.lock, ARGV.token, 'PX', ARGV.life_ms)
elseif redis.call('PTTL', KEYS.lock) < tonumber(ARGV.life_ms) then
  redis.call('PEXPIRE', KEYS.lock, ARGV.life_ms)
end
return { 'extended' }
