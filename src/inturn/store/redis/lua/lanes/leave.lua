#!lua flags=allow-oom
-- An inline caller gives its turn back with nothing done, or stops waiting for it. Its message is gone.
-- KEYS  lanes state mail msgs fence processes alarms era
-- ARGV  prefix key, token ident fence(0: not held, as far as we know) deadline_ms
-- returns  released | left (it only waited) | lost why (it was taken away before) | gone (neither: a repeat) | stale
-- include clock partition tell lane share advance
local key, token, ident = ARGV.key, ARGV.token, ARGV.ident
local lane = read_lane(key)
if lane and lane[HOLDER] == token then
  if lane[LAPSE] > 0 then untell(token, turn_notice(token, key)) end
  tell_awaiting(lane[AWAITED], key, lane[RUNNING])
  announce(key, 'back', lane[GRANTED], 'left')
  end_lease(lane)
  advance(key, lane)
  return { 'released' }
end
local message = lane and read_message(key, ident)
if message and message[CALLER] == token then
  take_out(key, ident, message)
  tell_awaiting(message[WATCHERS], key, ident)
  advance(key, lane)
  return { 'left' }
end
if lane and lane[YIELDS] == token then -- it was interrupted, and has ended now
  stop_yielding(lane)
  advance(key, lane)
end
return lost_or_gone(token, tonumber(ARGV.fence))
