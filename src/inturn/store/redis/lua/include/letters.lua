-- How long dead letters are kept. Each has its time from whoever buried it.

-- Returns until when a dead letter is kept. From then on nobody sees it, whether a beat has removed it yet or not.
local function letter_until(letter, letter_ms)
  return letter[6] or letter[4] + letter_ms
end

-- Removes the dead letters whose time is over. One that nobody has given a time yet, because the store itself has buried
-- it, or an older version has, gets `letter_ms`, counted from when it died.
local function expire_letters(letter_ms)
  local dead, letters = prefix .. 'dead', prefix .. 'letters'
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', dead, 0, now_us, 'LIMIT', 0, limits.MAX_LETTERS)) do
    local packed = redis.call('HGET', letters, member)
    local letter = packed and cmsgpack.unpack(packed)
    if letter and letter_until(letter, letter_ms) > now then
      letter[6] = letter_until(letter, letter_ms)
      redis.call('HSET', letters, member, cmsgpack.pack(letter))
      redis.call('ZADD', dead, redis.call('ZSCORE', dead, member) + letter_ms * 1000, member)
    else
      redis.call('HDEL', letters, member)
      redis.call('ZREM', dead, member)
    end
  end
end
