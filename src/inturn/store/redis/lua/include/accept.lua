-- Puts a message into a lane, behind all others of its rank. `lane` is its record, or a new one.
-- is_fresh: the id is new, so there can be no dead letter of it.
local function accept(key, lane, ident, message, keep_ms, is_fresh)
  message[NUMBER] = tick()
  put(key, ident, message)
  -- while messages wait the state does not expire; afterwards it lives at least as long as it would have
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

-- Whether there are other messages, and this one stands behind all of them.
local function is_last(key, ident)
  local ends = redis.call('ZRANGE', prefix .. 'mail:' .. key, -1, -1)[1]
  return ends:sub(23) == ident and redis.call('ZCARD', prefix .. 'mail:' .. key) > 1
end

-- Gets a lane going that has a new message. A lane with a living lease goes on when the lease ends. A lane that is
-- ready already stays as it is, unless the new message stands first or has changed the others (`has_moved`).
local function stir(key, lane, ident, has_moved)
  if is_leased(lane) then
    redis.call('ZADD', prefix .. 'alarms', 'LT', lane_ends(lane), key)
  elseif has_moved or lane[READY] == '' or not is_last(key, ident) then
    advance(key, lane)
  end
end

local function new_message(rank, body, ttl, limit, late, caller, rule, shares, group)
  local version = rule == '' and 1 or tonumber(rule:match('^%a+ %d+ %d+ %d+ %d+ (%d+)'))
  local message = { 0, rank, body, 0, ttl, limit, now, 0, late, caller, {}, '', '', rule, '', 1, shares,
    version > 1 and '@' .. version or '', 0 }
  if group and group ~= '' then message[M_KEEP], message[GROUP] = false, group end
  return message
end
