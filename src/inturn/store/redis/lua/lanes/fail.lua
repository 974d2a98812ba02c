#!lua flags=allow-oom
-- Ends a turn of a submitted message with nothing done, but for the state and the sends that a dead letter may leave.
-- KEYS  lanes state mail msgs fence processes alarms era
-- ARGV  prefix key letter_ms(how long a dead letter is kept), token fence(0: any) how(retry|dead|park|back|split)
--       delay_ms error('': none) why next_token can attempts(how many it has had, split: each of them; 0: as counted)
--       version(0: as before; else only workers that have this version of the handler get it)
--       have(how many messages the handler has seen; 0: all)
--       state_op(keep|set|del) state keep_ms, sends...(of a dead letter) deadline_ms
-- SEND  to(its partition; '': this one) key ident body ttl_ms limit_ms keep_ms
--       is_fresh(1: no lane of this partition knows its id) rank rule delay_ms shares group
-- how: retry: again after the delay, ahead of what came later; dead: to the dead letters; park: back to its place, and
--      the lane stops; back: as if it had not been given; split: a burst is tried again message by message
-- returns  failed (next) | lost why | gone (a repeat finds it so) | stale; next: see `given` in include/turns.lua
-- include clock partition tell lane share advance burst turns give
local key, token, how = ARGV.key, ARGV.token, ARGV.how
local lane = read_lane(key)
local fence = tonumber(ARGV.fence)
if not lane or lane[HOLDER] ~= token or (lane[GRANTED] ~= fence and fence > 0) then
  if lane and ARGV.next_token ~= '' and lane[HOLDER] == ARGV.next_token then
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
if not message then -- evicted: there is nothing to try again
  end_lease(lane)
  return { 'failed', give_next(key, lane, ARGV.next_token, ARGV.can) }
end
if ARGV.error ~= '' then
  local errors = message[ERRORS]
  errors[#errors + 1] = ARGV.error
  if #errors > limits.MAX_ERRORS then table.remove(errors, 2) end -- the first one and the last ones say most
end
announce(key, how == 'back' and 'back' or 'fail', lane[GRANTED], how .. ' ' .. ARGV.why)
end_lease(lane)
if how ~= 'back' then lane[CUTS], message[M_CUTS] = 0, 0 end
if ARGV.attempts ~= '0' then message[ATTEMPTS] = tonumber(ARGV.attempts) end
local have = how == 'dead' and 1 or tonumber(ARGV.have) -- a burst was split before, so only its lead is at fault
if have > 0 then release_unseen(key, message, have) end
if ARGV.state_op == 'set' then
  redis.call('SET', KEYS.state, ARGV.state)
  lane[KEEP] = tonumber(ARGV.keep_ms)
elseif ARGV.state_op == 'del' then
  redis.call('DEL', KEYS.state)
end
if how == 'dead' then
  bury(key, lane, ident, message, tonumber(ARGV.letter_ms))
  if LAST.sends >= FIRST.sends then
    -- include accept send
  end
elseif how == 'split' then
  for _, other in ipairs(others_of(message)) do
    local its = read_message(key, other)
    if its then
      its[AFTER], its[ATTEMPTS] = now + tonumber(ARGV.delay_ms), tonumber(ARGV.attempts)
      its[OPEN], its[ERRORS] = 0, message[ERRORS]
      put(key, other, its)
    end
  end
  message[AFTER], message[ATTEMPTS], message[OPEN] = now + tonumber(ARGV.delay_ms), tonumber(ARGV.attempts), 0
  message[TOGETHER] = ''
  put(key, ident, message)
else
  if ARGV.version ~= '0' then message[NEEDS] = '@' .. ARGV.version end
  if how == 'retry' then
    message[AFTER], message[OPEN] = now + tonumber(ARGV.delay_ms), 0
  elseif ARGV.error == '' then
    message[ATTEMPTS] = message[ATTEMPTS] - 1
  else
    message[OPEN] = 0
  end
  if how == 'park' then lane[STOPPED], lane[WHY] = 'parked', ARGV.why end
  put(key, ident, message)
end
return { 'failed', give_next(key, lane, ARGV.next_token, ARGV.can) }
