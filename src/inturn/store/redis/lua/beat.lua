#!lua flags=allow-oom
-- A process says that it lives: every lease and place it has is renewed. It gets its inbox, and looks after due locks.
-- include clock partition lock settle
-- KEYS  processes inbox names fence waits
-- ARGV  prefix deadline_ms process, then the notices that it has taken note of
-- returns  beat now_us last_seen_ms(0: unknown here) due_in_ms(-1: nothing) notices | stale
local process = ARGV[3]
local last_seen = seen_at(process)
redis.call('ZADD', KEYS[1], now, process)
for i = 4, #ARGV do redis.call('SREM', KEYS[2], ARGV[i]) end
for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], 0, now, 'LIMIT', 0, 64)) do
  settle(lock_named(name), nil)
end
-- longer than any lease can live
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, now - 8 * 86400000)
local due, due_in = redis.call('ZRANGE', KEYS[3], 0, 0, 'WITHSCORES'), -1
if due[2] then due_in = math.max(0, tonumber(due[2]) - now) end
return { 'beat', now_us, last_seen, due_in, redis.call('SRANDMEMBER', KEYS[2], 1000) }
