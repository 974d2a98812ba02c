#!lua flags=allow-oom
-- A process that waits for something in this lane asks for its next turn: a worker whose places are all taken, one of
-- them by a turn that waits, or whoever works the lane by itself. If the lane is ready, it is leased as by a claim.
-- KEYS  lanes state mail msgs fence processes alarms era, note
-- ARGV  prefix key process can(each handler between two NULs), call note_ms deadline_ms
-- returns  claimed token state(false: none) given (include/turns.lua) | none (not ready, or someone has it) | stale
-- include clock partition tell lane share advance burst turns give
local key, token = ARGV.key, ARGV.call .. '.1'
seen_now(ARGV.process)
local lane, what = read_lane(key), nil
if redis.call('EXISTS', KEYS.note) == 1 then -- a repeat: what was given the first time, if it is still ours
  what = lane and lane[HOLDER] == token and given(key, lane)
else
  if lane and not is_leased(lane) then
    advance(key, lane) -- its last holder may be gone, or its time may have come
    lane = read_lane(key)
  end
  local handler = lane and lane[HOLDER] == '' and lane[READY]:match('%Z+')
  if handler and ARGV.can:find('\0' .. handler .. '\0', 1, true) then
    stand_ready(key, lane, '')
    what = give_next(key, lane, token, ARGV.can)
  end
  -- also when nothing was given: bytes of a first attempt that arrive after its repeat must give nothing either
  redis.call('SET', KEYS.note, cmsgpack.pack(what and { { key, token } } or {}), 'PX', ARGV.note_ms)
end
if not what then return { 'none' } end
return { 'claimed', token, redis.call('GET', KEYS.state), what }
