-- A plain key that services outside of inturn lock too: a string that holds its owner's token, with a life. While we hold
-- it, it stands in `shared:<process>` (hash: token -> packed {plain key, ttl, lane}), and the process's beat renews it.
local LOOK_AT_SHARED_MS = 100 -- whoever holds it deletes it without telling us

-- When to look again whether the plain key is free; 0: it is.
local function shared_until(plain)
  local left = plain == '' and -2 or redis.call('PTTL', plain)
  if left == -2 then return 0 end
  return now + (left > 0 and math.min(left + 1, LOOK_AT_SHARED_MS) or LOOK_AT_SHARED_MS)
end

-- Only after `shared_until` has answered 0.
local function share(key, plain, token, ttl)
  redis.call('SET', plain, token, 'PX', ttl)
  local mine = prefix .. 'shared:' .. process_of(token)
  redis.call('HSET', mine, token, cmsgpack.pack({ plain, ttl, key }))
  redis.call('PEXPIRE', mine, 8 * 86400000) -- longer than any lease can live
end

local function unshare(plain, token)
  redis.call('HDEL', prefix .. 'shared:' .. process_of(token), token)
  if redis.call('GET', plain) == token then redis.call('DEL', plain) end
end
