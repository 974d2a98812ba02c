#!lua flags=allow-oom
-- Set the life of a vote from now on, never shorter than what remains. A server that was away, or forgot, votes anew:
-- that is safe, because this is only asked while a majority is known to hold the token.
-- KEYS  lock
-- ARGV  token life_ms deadline_ms
-- returns  extended | lost: it is another's | stale
-- include clock
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return { 'lost' } end
if not holder then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
elseif redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return { 'extended' }
