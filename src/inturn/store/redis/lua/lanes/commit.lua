#!lua flags=allow-oom
-- The one transition in which a turn's effects become real: state, result, sends, and the lane goes on.
-- KEYS  lanes state mail msgs fence processes alarms era, mark
-- ARGV  prefix key, token fence state_op(keep|set|del) state keep_ms ident window_ms(0: no mark) result
--       is_submitted(0|1) next_token('': no more for this worker) can have(how many messages the turn has)
--       unless_newer(0: no; else the version that its worker can read), sends... deadline_ms
-- SEND  to(its partition; '': this one) key ident body ttl_ms limit_ms keep_ms
--       is_fresh(1: no lane of this partition knows its id) rank rule delay_ms shares group
-- returns  committed (next) | newer messages {ident body waited_ms accepted_ms}: they are in the turn, and nothing was written
--          | lost why | gone (a repeat finds it so) | stale; next: see `given` in include/turns.lua
-- include clock partition
local key, token, ident, window = ARGV.key, ARGV.token, ARGV.ident, tonumber(ARGV.window_ms)
local is_submitted = ARGV.is_submitted == '1'
local HOLDER, GRANTED, STOPPED, KEEP, AWAITED, SHARED = 1, 2, 8, 11, 12, 17 -- see include/lane.lua
local packed = redis.call('HGET', KEYS.lanes, key)
local lane = packed and cmsgpack.unpack(packed)
local is_held = lane and lane[HOLDER] == token and lane[GRANTED] == tonumber(ARGV.fence)

-- The common case, in fewer steps than below: an inline turn that nobody waits behind.
local function finish()
  if ARGV.state_op == 'set' then
    redis.call('SET', KEYS.state, ARGV.state, 'PX', ARGV.keep_ms)
  elseif ARGV.state_op == 'del' then
    redis.call('DEL', KEYS.state)
  else
    -- messages that came and went during the turn have taken its time away
    local was_kept = redis.call('PTTL', KEYS.state) == -1
    redis.call('PEXPIRE', KEYS.state, was_kept and math.max(lane[KEEP], ARGV.keep_ms) or ARGV.keep_ms,
      was_kept and 'NX' or 'GT')
  end
  redis.call('HDEL', KEYS.lanes, key)
  redis.call('SPUBLISH', prefix .. 'watch:' .. key, string.format('commit %.0f ', lane[GRANTED]) .. ident)
  return { 'committed' }
end

local is_alone = is_held and not is_submitted and lane[STOPPED] == '' and lane[AWAITED] == ''
  and (lane[SHARED] or '') == ''
if is_alone and LAST.sends < FIRST.sends and redis.call('EXISTS', KEYS.mail) == 0 then
  if window > 0 then redis.call('SET', KEYS.mark, ARGV.result, 'PX', window) end
  return finish()
end

-- include tell lane share advance burst turns
if not is_held then
  if lane and ARGV.next_token ~= '' and lane[HOLDER] == ARGV.next_token then
    return { 'committed', given(key, lane) }
  end
  return lost_or_gone(token, tonumber(ARGV.fence))
end
if not lane[SHARED] then lane = whole_lane(packed) end
if lane[SHARED] ~= '' and redis.call('GET', lane[SHARED]) ~= token then
  take_lane_away(key, lane, 'its plain key was lost')
  advance(key, lane)
  return { 'lost', 'its plain key was lost' }
end
if is_submitted and ARGV.unless_newer ~= '0' then
  -- include steer
  local newer = steer(key, lane, tonumber(ARGV.have), tonumber(ARGV.unless_newer), true)
  if #newer > 0 then return { 'newer', newer } end
end

if window > 0 then redis.call('SET', KEYS.mark, ARGV.result, 'PX', window) end
local awaited = lane[AWAITED]
if is_submitted then
  local lead = read_message(key, ident) or { [WATCHERS] = '', [TOGETHER] = '' } -- evicted: nobody is known to await it
  awaited = lead[WATCHERS]
  release_unseen(key, lead, tonumber(ARGV.have))
  local others = others_of(lead)
  for i, its in ipairs(read_messages(key, others)) do -- all of a burst have one result
    if window > 0 then redis.call('SET', prefix .. 'mark:' .. key .. '\0' .. others[i], '\1' .. ident, 'PX', window) end
    if its and its[WATCHERS] ~= '' then tell_awaiting(its[WATCHERS], key, others[i]) end
  end
  redis.call('HDEL', KEYS.msgs, ident, unpack(others))
end
-- include accept send
if is_alone and redis.call('EXISTS', KEYS.mail) == 0 then return finish() end
announce(key, 'commit', lane[GRANTED], ident)
lane[CUTS] = 0
if awaited ~= '' then tell_awaiting(awaited, key, ident) end
if ARGV.state_op == 'set' then
  redis.call('SET', KEYS.state, ARGV.state) -- its time begins when the lane is idle
elseif ARGV.state_op == 'del' then
  redis.call('DEL', KEYS.state)
else
  redis.call('PEXPIRE', KEYS.state, ARGV.keep_ms, 'GT')
end
lane[KEEP] = ARGV.state_op == 'set' and tonumber(ARGV.keep_ms) or math.max(lane[KEEP], tonumber(ARGV.keep_ms))
end_lease(lane)
-- include give
return { 'committed', give_next(key, lane, ARGV.next_token, ARGV.can) }
