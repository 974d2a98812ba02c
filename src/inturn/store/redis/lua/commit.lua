#!lua flags=allow-oom
-- The one transition in which a turn's effects become real: state, result, sends, and the lane goes on.
-- KEYS  lanes state mail msgs fence processes alarms era, mark
-- ARGV  prefix key, token fence state_op(keep|set|del) state keep_ms ident window_ms(0: no mark) result
--       is_submitted(0|1) next_token('': no more for this worker) can have(how many messages the turn has)
--       unless_newer(0: no, else the version that its worker can read), sends (include/send.lua), deadline_ms
-- returns  committed (next) | newer messages {ident body waited_ms}: they are in the turn, and nothing was written
--          | lost | gone (a repeat finds it so) | stale; next: see `given` in include/turns.lua
-- include clock partition
local key, token, ident, window = ARGV[2], ARGV[3], ARGV[8], tonumber(ARGV[9])
local HOLDER, GRANTED, STOPPED, KEEP, AWAITED, SHARED = 1, 2, 8, 11, 12, 17 -- see include/lane.lua
local packed = redis.call('HGET', KEYS[1], key)
local lane = packed and cmsgpack.unpack(packed)

-- The common case, in fewer steps than below: an inline turn that nobody is behind of.
local function finish()
  if ARGV[5] == 'set' then
    redis.call('SET', KEYS[2], ARGV[6], 'PX', ARGV[7])
  elseif ARGV[5] == 'del' then
    redis.call('DEL', KEYS[2])
  else
    -- messages that came and went during the turn have taken its time away
    local is_held = redis.call('PTTL', KEYS[2]) == -1
    redis.call('PEXPIRE', KEYS[2], is_held and math.max(lane[KEEP], ARGV[7]) or ARGV[7], is_held and 'NX' or 'GT')
  end
  redis.call('HDEL', KEYS[1], key)
  redis.call('SPUBLISH', prefix .. 'watch:' .. key, string.format('commit %.0f ', lane[GRANTED]) .. ident)
  return { 'committed' }
end

local is_alone
if lane and lane[HOLDER] == token and lane[GRANTED] == tonumber(ARGV[4]) then
  lane[SHARED] = lane[SHARED] or ''
  if lane[SHARED] ~= '' and redis.call('GET', lane[SHARED]) ~= token then
    -- include tell lane share advance
    take_lane_away(key, lane, 'its plain key was lost')
    advance(key, lane)
    return { 'lost' }
  end
  if ARGV[15] ~= '0' and ARGV[11] == '1' then
    -- include lane burst turns steer
    local newer = steer(key, lane, tonumber(ARGV[14]), tonumber(ARGV[15]), true)
    if #newer > 0 then return { 'newer', newer } end
  end
  if window > 0 then redis.call('SET', KEYS[9], ARGV[10], 'PX', window) end
  is_alone = ARGV[11] == '0' and lane[STOPPED] == '' and lane[AWAITED] == '' and lane[SHARED] == ''
  if is_alone and #ARGV == 16 and redis.call('EXISTS', KEYS[3]) == 0 then return finish() end
else
  -- include lane turns
  if lane and ARGV[12] ~= '' and lane[HOLDER] == ARGV[12] then
    return { 'committed', given(key, lane) }
  end
  return lost_or_gone(token, tonumber(ARGV[4]))
end

-- include tell lane share advance accept
local fence, awaited = lane[GRANTED], lane[AWAITED]
if ARGV[11] == '1' then
  -- include burst turns
  local lead = read_message(key, ident)
  awaited = lead[WATCHERS]
  release_unseen(key, lead, tonumber(ARGV[14]))
  local others = others_of(lead)
  for i, its in ipairs(read_messages(key, others)) do -- all of a burst have one result
    if window > 0 then redis.call('SET', prefix .. 'mark:' .. key .. '\0' .. others[i], '\1' .. ident, 'PX', window) end
    if its and its[WATCHERS] ~= '' then tell_awaiting(its[WATCHERS], key, others[i]) end
  end
  redis.call('HDEL', KEYS[4], ident, unpack(others))
end
-- include send
if is_alone and redis.call('EXISTS', KEYS[3]) == 0 then return finish() end
announce(key, 'commit', fence, ident)
lane[CUTS] = 0
-- include burst turns give
if awaited ~= '' then tell_awaiting(awaited, key, ident) end
if ARGV[5] == 'set' then
  redis.call('SET', KEYS[2], ARGV[6]) -- its time begins when the lane is idle
elseif ARGV[5] == 'del' then
  redis.call('DEL', KEYS[2])
else
  redis.call('PEXPIRE', KEYS[2], ARGV[7], 'GT')
end
lane[KEEP] = ARGV[5] == 'set' and tonumber(ARGV[7]) or math.max(lane[KEEP], tonumber(ARGV[7]))
end_lease(lane)
return { 'committed', give_next(key, lane, ARGV[12], ARGV[13]) }
