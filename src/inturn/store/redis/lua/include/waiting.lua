-- Returns how many messages wait. One whose holder is gone counts, although nothing has put it back yet.
local function waiting_in(key, lane)
  local is_left = not is_leased(lane) and redis.call('HEXISTS', prefix .. 'msgs:' .. key, lane[RUNNING])
  return redis.call('ZCARD', prefix .. 'mail:' .. key) + (is_left == 1 and 1 or 0)
end
