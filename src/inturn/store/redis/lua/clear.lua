#!lua flags=allow-oom
-- Empty a lane: its waiting messages, its state and its stop are gone, and the turn that runs loses its lease.
-- KEYS  lanes state mail msgs fence processes alarms era
-- ARGV  prefix key, deadline_ms
-- returns  cleared messages | stale
-- include clock partition tell lane advance
local key = ARGV[2]
local lane, count = read_lane(key), redis.call('HLEN', KEYS[4])
for _, ident in ipairs(redis.call('HKEYS', KEYS[4])) do
  tell_awaiting(read_message(key, ident)[WATCHERS], key, ident)
end
redis.call('DEL', KEYS[2], KEYS[3], KEYS[4])
if lane then
  if lane[HOLDER] ~= '' then take_lane_away(key, lane, 'the lane was cleared') end
  stand_ready(key, lane, '')
  go_idle(key, lane)
end
return { 'cleared', count }
