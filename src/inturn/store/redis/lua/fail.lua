#!lua flags=allow-oom
-- A turn of a submitted message ends with nothing done.
-- KEYS  lanes state mail msgs fence processes alarms era
-- ARGV  prefix key, token fence(0: any) how(retry|dead|park|back) delay_ms error('': none) why next_token can deadline_ms
--       retry: again after the delay, ahead of what came later; back: as if it had not been given; park: and stop
-- returns  failed (next) | lost | gone (a repeat finds it so) | stale; next: see `given` in include/lane.lua
-- include clock partition tell lane
local key, token, how = ARGV[2], ARGV[3], ARGV[5]
local lane = read_lane(key)
local fence = tonumber(ARGV[4])
if not lane or lane[HOLDER] ~= token or (lane[GRANTED] ~= fence and fence > 0) then
  if lane and ARGV[9] ~= '' and lane[HOLDER] == ARGV[9] then
    return { 'failed', given(lane, lane[RUNNING], read_message(key, lane[RUNNING])) }
  end
  return lost_or_gone(token, fence)
end
-- include advance give
local ident = lane[RUNNING]
local message = read_message(key, ident)
if ARGV[7] ~= '' then
  local errors = message[ERRORS]
  errors[#errors + 1] = ARGV[7]
  if #errors > 20 then table.remove(errors, 2) end -- the first one and the last ones say most
end
end_lease(lane)
if how == 'dead' then
  bury(key, lane, ident, message)
else
  if how == 'retry' then
    message[AFTER] = now + tonumber(ARGV[6])
  elseif ARGV[7] == '' then
    message[ATTEMPTS] = message[ATTEMPTS] - 1
  end
  if how == 'park' then lane[STOPPED], lane[WHY] = 'parked', ARGV[8] end
  put(key, ident, message)
end
return { 'failed', give_next(key, lane, ARGV[9], ARGV[10]) }
