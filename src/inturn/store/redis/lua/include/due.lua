-- Messages that have not begun by their time become dead letters, also behind a turn that runs, so that nobody awaits
-- them in vain. They stand in `lates`, by that time, as '<key>' NUL '<ident>'.
local function bury_late()
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', prefix .. 'lates', 0, '(' .. now, 'LIMIT', 0, limits.MAX_DUE)) do
    redis.call('ZREM', prefix .. 'lates', member)
    local at = member:find('\0', 1, true)
    local key, ident = member:sub(1, at - 1), member:sub(at + 1)
    local lane, message = read_lane(key), read_message(key, ident)
    if lane and message and message[LATE] > 0 and message[LATE] < now then
      redis.call('ZREM', prefix .. 'mail:' .. key, mail_member(ident, message))
      add_error(message, 'LaneTimeout', 'not begun in time')
      bury(key, lane, ident, message)
      if not is_leased(lane) then advance(key, lane) end
    end
  end
end

-- Renews the plain keys that leases of this process hold too. A lease whose plain key is not ours any more is taken
-- away: someone else may be at work.
local function keep_shared(process)
  local all = redis.call('HGETALL', prefix .. 'shared:' .. process)
  for i = 1, #all, 2 do
    local token, plain, ttl, key = all[i], unpack(cmsgpack.unpack(all[i + 1]))
    if redis.call('GET', plain) == token then
      redis.call('PEXPIRE', plain, ttl)
    else
      redis.call('HDEL', prefix .. 'shared:' .. process, token)
      local lane = read_lane(key)
      if lane and lane[HOLDER] == token then
        take_lane_away(key, lane, 'its plain key was lost')
        advance(key, lane)
      end
    end
  end
end

-- Brings the lanes up to date whose alarm time has come.
local function advance_due()
  for _, key in ipairs(redis.call('ZRANGEBYSCORE', prefix .. 'alarms', 0, now, 'LIMIT', 0, limits.MAX_DUE)) do
    local lane = read_lane(key)
    if lane then advance(key, lane) else redis.call('ZREM', prefix .. 'alarms', key) end
  end
end

-- Returns the milliseconds until something is due in any of these; -1: nothing is.
local function due_in(...)
  local soonest = -1
  for _, times in ipairs({ ... }) do
    local due = redis.call('ZRANGE', times, 0, 0, 'WITHSCORES')[2]
    if due then soonest = math.max(0, math.min(soonest < 0 and math.huge or soonest, tonumber(due) - now)) end
  end
  return soonest
end
