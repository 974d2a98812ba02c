-- Delayed messages whose time has come.
local come = redis.call('ZRANGEBYSCORE', prefix .. 'later', 0, now, 'LIMIT', 0, limits.MAX_DUE)
if #come > 0 then
  -- include accept burst arrive
  for _, member in ipairs(come) do
    redis.call('ZREM', prefix .. 'later', member)
    local at = member:find('\0', 1, true)
    local key, ident = member:sub(18, at - 1), member:sub(at + 1)
    local message = read_message(key, ident)
    if message and message[M_KEEP] then
      end_delay(key, ident, message)
      local lane, keep_ms = read_lane(key) or new_lane(), message[M_KEEP]
      message[ACCEPTED], message[AFTER], message[M_KEEP] = message[AFTER], 0, false
      stir(key, lane, ident, arrive(key, lane, ident, message, keep_ms, true, true))
    end
  end
end
