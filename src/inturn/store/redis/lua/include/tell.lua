-- What a process is told: '<kind> <token> <rest>'. A loss is 'lost <token> <fence> <why>\n<name>'.

-- Answers how many connections heard it. The inbox is what counts, the push is a hint.
local function tell(process, notice)
  local inbox = prefix .. 'inbox:' .. process
  redis.call('SADD', inbox, notice)
  redis.call('PEXPIRE', inbox, 3600000)
  return redis.call('SPUBLISH', prefix .. 'push:' .. process, notice)
end

-- The process has heard of this, or does not need to any more.
local function untell(token, notice)
  redis.call('SREM', prefix .. 'inbox:' .. process_of(token), notice)
end

-- Whoever watches the lane hears it: '<what> <fence> <rest>'. Nobody is told again, and nobody has to be there.
local function announce(key, what, fence, rest)
  redis.call('SPUBLISH', prefix .. 'watch:' .. key, string.format('%s %.0f ', what, fence) .. rest)
end

-- A lease ended against its holder's will. The note lets what its holder does later be refused; the fence tells which
-- grant was lost, as the token may have got another since.
local function tell_loss(name, token, fence, why)
  if fence > 0 then redis.call('SET', prefix .. 'lost:' .. token, why, 'PX', 60000) end
  tell(process_of(token), string.format('lost %s %.0f %s\n', token, fence, why) .. name)
end
