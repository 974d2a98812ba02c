-- A message comes into a lane, behind all of its rank. `lane` is what was read of it, or a new one.
-- is_fresh: its id is new, so that it cannot lie among the dead letters.
local function accept(key, lane, ident, message, keep_ms, is_fresh)
  message[NUMBER] = tick()
  put(key, ident, message)
  -- while messages wait the state does not expire; then it has at least the time that it had before
  local left = redis.call('PTTL', prefix .. 'state:' .. key)
  if left > 0 then redis.call('PERSIST', prefix .. 'state:' .. key) end
  local keep = math.max(lane[KEEP], keep_ms, left)
  if not is_fresh and redis.call('HDEL', prefix .. 'letters', key .. '\0' .. ident) == 1 then
    redis.call('ZREM', prefix .. 'dead', key .. '\0' .. ident)
  end
  if lane[KEEP] ~= keep then
    lane[KEEP] = keep
    if lane[HOLDER] ~= '' or lane[READY] ~= '' then save_lane(key, lane) end
  end
end

-- Whether it stands behind all others, and there are others.
local function is_last(key, ident)
  local ends = redis.call('ZRANGE', prefix .. 'mail:' .. key, -1, -1)[1]
  return ends:sub(23) == ident and redis.call('ZCARD', prefix .. 'mail:' .. key) > 1
end

-- Now the lane has something to do. A living lease is left alone: whoever ends it finds the message. So is a lane that
-- is ready for another message, if the new one came behind all of them and changes nothing else.
local function stir(key, lane, ident, has_moved)
  if is_leased(lane) then
    redis.call('ZADD', prefix .. 'alarms', 'LT', lane_ends(lane), key)
  elseif has_moved or lane[READY] == '' or not is_last(key, ident) then
    advance(key, lane)
  end
end

local function new_message(rank, body, ttl, limit, late, caller, rule, shares)
  local version = rule == '' and 1 or tonumber(rule:match('(%d+) %d+$'))
  return { 0, rank, body, 0, ttl, limit, now, 0, late, caller, {}, '', '', rule, '', 1, shares,
    version > 1 and '@' .. version or '', 0 }
end
