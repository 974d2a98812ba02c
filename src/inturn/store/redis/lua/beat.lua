#!lua flags=allow-oom
-- A process says that it lives: every lease and place it has is renewed. It gets its inbox, and looks after what is due.
-- KEYS  processes inbox names fence waits due era lanes alarms forwards workers
-- ARGV  prefix process, the notices that it has taken note of, deadline_ms
-- returns  beat now_us era last_seen_ms(0: unknown here) due_in_ms(-1: nothing) notices
--          partitions that sends wait for | stale
-- include clock partition lock tell settle lane share advance due worker
local process = ARGV[2]
local last_seen = seen_at(process)
seen_now(process)
for i = 3, #ARGV - 1 do redis.call('SREM', KEYS[2], ARGV[i]) end
for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[6], 0, now, 'LIMIT', 0, 64)) do
  settle(lock_named(name), nil)
end
-- What the dead left in locks that nobody asks for, and the dead themselves, are found by chance, a few at a time.
for _, name in ipairs(redis.call('SRANDMEMBER', KEYS[3], 4)) do
  settle(lock_named(name), nil)
end
keep_shared(process)
-- include arrive_due
bury_late()
advance_due()
for _, key in ipairs(redis.call('HRANDFIELD', KEYS[8], 4)) do
  local lane = read_lane(key)
  if lane[HOLDER] ~= '' and not is_leased(lane) then advance(key, lane) end
end
local some = redis.call('HRANDFIELD', KEYS[1], 4, 'WITHVALUES')
for i = 1, #some, 2 do
  -- longer than any lease can live
  if now - tonumber(some[i + 1]) > 8 * 86400000 then
    redis.call('HDEL', KEYS[1], some[i])
    forget_worker(some[i])
  end
end
local era = redis.call('GET', KEYS[7])
if not era then
  era = string.format('%.0f', now_us)
  redis.call('SET', KEYS[7], era)
end
return { 'beat', now_us, tonumber(era), last_seen, due_in(KEYS[6], KEYS[9], prefix .. 'lates', prefix .. 'later'),
  redis.call('SRANDMEMBER', KEYS[2], 1000), redis.call('SMEMBERS', KEYS[10]) }
