-- The next message of a lane goes to a worker. The attempt is counted here, so that one which kills its worker counts.
-- `can` holds the handlers of the worker, each between two NULs. Answers what was given, or advances the lane.
local function give_next(key, lane, token, can)
  local head = token ~= '' and lane[STOPPED] == '' and redis.call('ZRANGE', prefix .. 'mail:' .. key, 0, 0)[1]
  if head then
    local ident = head:sub(23)
    local message = read_message(key, ident)
    if message and message[CALLER] == '' and message[AFTER] <= now and (message[LATE] == 0 or now <= message[LATE])
      and can:find('\0' .. handler_of(ident) .. '\0', 1, true) then
      redis.call('ZREM', prefix .. 'mail:' .. key, head)
      message[ATTEMPTS], message[LATE] = message[ATTEMPTS] + 1, 0
      redis.call('HSET', prefix .. 'msgs:' .. key, ident, cmsgpack.pack(message))
      lease_to(lane, token, ident, message[M_TTL], message[LIMIT])
      lane[READY] = ''
      save_lane(key, lane)
      -- who asks is alive: its worker counts the new lease from this call on, and so must we
      seen_now(process_of(token))
      redis.call('ZADD', prefix .. 'alarms', 'LT', now + lane[LEASE], key)
      return given(lane, ident, message)
    end
  end
  advance(key, lane)
end
