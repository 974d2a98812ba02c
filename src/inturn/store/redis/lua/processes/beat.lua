#!lua flags=allow-oom
-- A process says that it lives, which renews every lease and place it has. It gets its inbox, and looks after what is
-- due.
-- KEYS  processes inbox names fence waits due era lanes alarms forwards workers
-- ARGV  prefix process letter_ms, notices...(that it has acted on: they leave its inbox) deadline_ms
-- returns  beat now_us era last_seen_ms(0: unknown here) due_in_ms(-1: nothing) notices
--          partitions that sends wait for | stale
-- include clock partition lock tell settle lane share advance due letters worker
local process = ARGV.process
local last_seen = seen_at(process)
seen_now(process)
for i = FIRST.notices, LAST.notices do redis.call('SREM', KEYS.inbox, ARGV[i]) end
for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS.due, 0, now, 'LIMIT', 0, limits.MAX_DUE)) do
  settle(lock_named(name), nil)
end
-- What dead processes left in locks and lanes that nobody asks for, and the dead themselves, are found by chance, a few
-- with each beat.
for _, name in ipairs(redis.call('SRANDMEMBER', KEYS.names, limits.MAX_SWEPT)) do
  settle(lock_named(name), nil)
end
keep_shared(process)
-- include arrive_due
bury_late()
advance_due()
expire_letters(tonumber(ARGV.letter_ms))
for _, key in ipairs(redis.call('HRANDFIELD', KEYS.lanes, limits.MAX_SWEPT)) do
  local lane = read_lane(key)
  if lane[HOLDER] ~= '' and not is_leased(lane) then advance(key, lane) end
end
local some = redis.call('HRANDFIELD', KEYS.processes, limits.MAX_SWEPT, 'WITHVALUES')
for i = 1, #some, 2 do
  if now - tonumber(some[i + 1]) > limits.PROCESS_LIVES_MS then
    redis.call('HDEL', KEYS.processes, some[i])
    forget_worker(some[i])
  end
end
local era = redis.call('GET', KEYS.era)
if not era then
  era = string.format('%.0f', now_us)
  redis.call('SET', KEYS.era, era)
end
return { 'beat', now_us, tonumber(era), last_seen, due_in(KEYS.due, KEYS.alarms, prefix .. 'lates', prefix .. 'later'),
  redis.call('SRANDMEMBER', KEYS.inbox, limits.MAX_NOTICES), redis.call('SMEMBERS', KEYS.forwards) }
