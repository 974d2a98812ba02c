-- Messages come together: the lead of a burst stays in the mailbox, or runs, and lists the others.

-- Whether a message that waits can become a part of a burst of this handler, with this plain key.
local function joins(ident, message, handler, plain)
  return message and message[OPEN] == 1 and message[CALLER] == '' and message[AFTER] <= now
    and message[SHARES] == plain and handler_of(ident) == handler
end

-- Out of the mailbox (`members` of it, with their messages) and into the burst of this lead, which its caller saves.
local function join(key, lead, members, messages)
  if #members == 0 then return end
  local others = others_of(lead)
  for i, member in ipairs(members) do
    local ident, message = member:sub(23), messages[i]
    others[#others + 1] = ident
    if message[TOGETHER] ~= '' or message[LATE] > 0 then -- it led a burst itself; it has begun in time
      for _, more in ipairs(others_of(message)) do others[#others + 1] = more end
      message[TOGETHER], message[LATE] = '', 0
      save_message(key, ident, message)
    end
  end
  lead[TOGETHER] = others
  redis.call('ZREM', prefix .. 'mail:' .. key, unpack(members))
end
