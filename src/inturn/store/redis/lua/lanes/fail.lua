#!lua flags=allow-oom
-- A turn of a submitted message ends with nothing done.
-- KEYS  lanes state mail msgs fence processes alarms era
-- ARGV  prefix key, token fence(0: any) how(retry|dead|park|back|split) delay_ms error('': none) why next_token can
--       attempts(split: each has had so many) version(0: as before) have(0: all) deadline_ms
--       retry: again after the delay, ahead of what came later; back: as if it had not been given; park: and stop;
--       split: a burst is tried again message by message. version: only for workers that have this version of the handler
-- returns  failed (next) | lost | gone (a repeat finds it so) | stale; next: see `given` in include/turns.lua
-- include clock partition tell lane share advance burst turns give
local key, token, how = ARGV[2], ARGV[3], ARGV[5]
local lane = read_lane(key)
local fence = tonumber(ARGV[4])
if not lane or lane[HOLDER] ~= token or (lane[GRANTED] ~= fence and fence > 0) then
  if lane and ARGV[9] ~= '' and lane[HOLDER] == ARGV[9] then
    return { 'failed', given(key, lane) }
  end
  if lane and lane[YIELDS] == token then -- it was interrupted, and has ended now
    stop_yielding(lane)
    advance(key, lane)
  end
  return lost_or_gone(token, fence)
end
local ident = lane[RUNNING]
local message = read_message(key, ident)
if ARGV[7] ~= '' then
  local errors = message[ERRORS]
  errors[#errors + 1] = ARGV[7]
  if #errors > 20 then table.remove(errors, 2) end -- the first one and the last ones say most
end
announce(key, how == 'back' and 'back' or 'fail', lane[GRANTED], how .. ' ' .. ARGV[8])
end_lease(lane)
if how ~= 'back' then lane[CUTS], message[M_CUTS] = 0, 0 end
local have = how == 'dead' and 1 or tonumber(ARGV[13]) -- a burst is split before: of it, only the lead is at fault
if have > 0 then release_unseen(key, message, have) end
if how == 'dead' then
  bury(key, lane, ident, message)
elseif how == 'split' then
  for _, other in ipairs(others_of(message)) do
    local its = read_message(key, other)
    its[AFTER], its[ATTEMPTS], its[OPEN], its[ERRORS] = now + tonumber(ARGV[6]), tonumber(ARGV[11]), 0, message[ERRORS]
    put(key, other, its)
  end
  message[AFTER], message[ATTEMPTS], message[OPEN] = now + tonumber(ARGV[6]), tonumber(ARGV[11]), 0
  message[TOGETHER] = ''
  put(key, ident, message)
else
  if ARGV[12] ~= '0' then message[NEEDS] = '@' .. ARGV[12] end
  if how == 'retry' then
    message[AFTER], message[OPEN] = now + tonumber(ARGV[6]), 0
  elseif ARGV[7] == '' then
    message[ATTEMPTS] = message[ATTEMPTS] - 1
  else
    message[OPEN] = 0
  end
  if how == 'park' then lane[STOPPED], lane[WHY] = 'parked', ARGV[8] end
  put(key, ident, message)
end
return { 'failed', give_next(key, lane, ARGV[9], ARGV[10]) }
