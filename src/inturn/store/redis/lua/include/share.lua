-- A plain key that services outside of inturn lock too: a string with a life that holds its owner's token. While we
-- hold it, it stands in `shared:<process>` (hash: token -> packed {plain key, ttl, lane}), and the beat of the process
-- renews it.

-- Returns when to look again whether the plain key is free; 0: it is free.
local function shared_until(plain)
  local left = plain == '' and -2 or redis.call('PTTL', plain)
  if left == -2 then return 0 end
  return now + (left > 0 and math.min(left + 1, limits.LOOK_AT_SHARED_MS) or limits.LOOK_AT_SHARED_MS)
end

-- Takes the plain key. Only call it when `shared_until` has returned 0.
local function share(key, plain, token, ttl)
  redis.call('SET', plain, token, 'PX', ttl)
  local mine = prefix .. 'shared:' .. process_of(token)
  redis.call('HSET', mine, token, cmsgpack.pack({ plain, ttl, key }))
  redis.call('PEXPIRE', mine, limits.PROCESS_LIVES_MS)
end

local function unshare(plain, token)
  redis.call('HDEL', prefix .. 'shared:' .. process_of(token), token)
  if redis.call('GET', plain) == token then redis.call('DEL', plain) end
end
