-- What a process is told: '<kind> <token> <rest>'. A loss is 'lost <token> <fence> <why>\n<name>'.

-- Returns how many connections heard it. The inbox is what counts; the push is a hint.
local function tell(process, notice)
  local inbox = prefix .. 'inbox:' .. process
  redis.call('SADD', inbox, notice)
  redis.call('PEXPIRE', inbox, limits.INBOX_LIVES_MS)
  return redis.call('SPUBLISH', prefix .. 'push:' .. process, notice)
end

-- The process knows this already, or need not know it any more.
local function untell(token, notice)
  redis.call('SREM', prefix .. 'inbox:' .. process_of(token), notice)
end

-- Publishes '<what> <fence> <rest>' to the watchers of the lane, once. There need not be any.
local function announce(key, what, fence, rest)
  redis.call('SPUBLISH', prefix .. 'watch:' .. key, string.format('%s %.0f ', what, fence) .. rest)
end

-- A lease ended against its holder's will. Because of the note, what the holder does later is refused. The fence tells
-- which grant was lost: the token may have got another since.
local function tell_loss(name, token, fence, why)
  if fence > 0 then redis.call('SET', prefix .. 'lost:' .. token, why, 'PX', limits.LOST_NOTE_MS) end
  tell(process_of(token), string.format('lost %s %.0f %s\n', token, fence, why) .. name)
end
