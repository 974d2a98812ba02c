#!lua flags=allow-oom
-- Empty a lane: its waiting messages, its state and its stop are gone, and the turn that runs loses its lease.
-- KEYS  lanes state mail msgs fence processes alarms era, note (a repeat must not remove what came after the first time)
-- ARGV  prefix key, note_ms deadline_ms
-- returns  cleared messages | stale
-- include clock partition tell lane share advance accept burst arrive
local key = ARGV[2]
local before = redis.call('GET', KEYS[9])
if before then return { 'cleared', tonumber(before) } end
local lane, count = read_lane(key), redis.call('HLEN', KEYS[4])
for _, ident in ipairs(redis.call('HKEYS', KEYS[4])) do
  local message = read_message(key, ident)
  redis.call('ZREM', prefix .. 'later', later_member(key, ident, message))
  tell_awaiting(message[WATCHERS], key, ident)
  -- an inline caller that waits asks again
  if message[CALLER] ~= '' then tell_loss(key, message[CALLER], 0, 'the lane was cleared') end
end
redis.call('SET', KEYS[9], count, 'PX', ARGV[3])
redis.call('DEL', KEYS[2], KEYS[3], KEYS[4])
if lane then
  if lane[YIELDS] ~= '' then stop_yielding(lane) end
  if lane[HOLDER] ~= '' then take_lane_away(key, lane, 'the lane was cleared') end
  stand_ready(key, lane, '')
  go_idle(key, lane)
end
return { 'cleared', count }
