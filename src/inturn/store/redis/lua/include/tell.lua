-- What a process is told: 'granted <token> <name>' or 'lost <token> <fence> <why>\n<name>'.

-- Answers how many connections heard it. The inbox is what counts, the push is a hint.
local function tell(process, notice)
  local inbox = prefix .. 'inbox:' .. process
  redis.call('SADD', inbox, notice)
  redis.call('PEXPIRE', inbox, 3600000)
  return redis.call('SPUBLISH', prefix .. 'push:' .. process, notice)
end

local function grant_notice(lock, token)
  return 'granted ' .. token .. ' ' .. lock.name
end

-- The process has heard of this grant, or does not need to any more.
local function untell(lock, token)
  redis.call('SREM', prefix .. 'inbox:' .. process_of(token), grant_notice(lock, token))
end

-- The fence tells which grant was lost: the token may have got another since.
local function tell_loss(lock, token, fence, why)
  tell(process_of(token), string.format('lost %s %.0f %s\n%s', token, fence, why, lock.name))
end

-- Ends a grant against its holder's will; the note lets a late release of it be refused.
local function take_away(lock, token, grant, why)
  redis.call('HDEL', lock.hash, token)
  redis.call('HINCRBY', lock.hash, 'used', -grant[WEIGHT])
  redis.call('SET', prefix .. 'lost:' .. token, why, 'PX', 60000)
  if grant[LAPSES] > 0 then untell(lock, token) end
  tell_loss(lock, token, grant[FENCE], why)
end
