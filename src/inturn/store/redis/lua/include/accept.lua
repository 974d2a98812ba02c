-- A message comes into a lane, behind all of its rank. `lane` is what was read of it, or a new one.
local function accept(key, lane, ident, message, keep_ms)
  message[NUMBER] = tick()
  put(key, ident, message)
  redis.call('PERSIST', prefix .. 'state:' .. key)
  if redis.call('HDEL', prefix .. 'letters', key .. '\0' .. ident) == 1 then
    redis.call('ZREM', prefix .. 'dead', key .. '\0' .. ident)
  end
  if lane[KEEP] ~= keep_ms then
    lane[KEEP] = keep_ms
    if is_leased(lane) then save_lane(key, lane) end
  end
end

-- Now the lane has something to do. A living lease is left alone: whoever ends it finds the message.
local function stir(key, lane)
  if is_leased(lane) then
    redis.call('ZADD', prefix .. 'alarms', 'NX', lane_ends(lane), key)
  else
    advance(key, lane)
  end
end

local function new_message(rank, body, ttl, limit, late, caller)
  return { 0, rank, body, 0, ttl, limit, now, 0, late, caller, {}, '' }
end
