#!lua flags=allow-oom
-- Empties a lane: removes its waiting messages, its state and its stop, and takes the lease of the turn that runs away.
-- KEYS  lanes state mail msgs fence processes alarms era, note
-- ARGV  prefix key, note_ms deadline_ms
-- returns  cleared messages | stale
-- include clock partition note tell lane share advance accept burst arrive
local key = ARGV.key
local lane, count = read_lane(key), redis.call('HLEN', KEYS.msgs)
for _, ident in ipairs(redis.call('HKEYS', KEYS.msgs)) do
  local message = read_message(key, ident)
  if message[M_KEEP] then end_delay(key, ident, message) end
  tell_awaiting(message[WATCHERS], key, ident)
  -- an inline caller that waits asks again
  if message[CALLER] ~= '' then tell_loss(key, message[CALLER], 0, 'the lane was cleared') end
end
redis.call('DEL', KEYS.state, KEYS.mail, KEYS.msgs)
if lane then
  if lane[YIELDS] ~= '' then stop_yielding(lane) end
  if lane[HOLDER] ~= '' then take_lane_away(key, lane, 'the lane was cleared') end
  stand_ready(key, lane, '')
  go_idle(key, lane)
end
return answer('cleared', count)
