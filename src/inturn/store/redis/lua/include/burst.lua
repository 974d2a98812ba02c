-- A burst: its lead is in the mailbox, or runs, and lists the other messages of the burst.

local function version_of(message)
  return tonumber(message[NEEDS]:sub(2)) or 1
end

-- Moves these members of the mailbox, with their messages, into the burst of this lead. The caller saves the lead.
local function join(key, lead, members, messages)
  if #members == 0 then return end
  local others = others_of(lead)
  for i, member in ipairs(members) do
    local ident, message = member:sub(23), messages[i]
    others[#others + 1] = ident
    -- if the burst goes back to the mailbox, nobody of this priority may come before it
    if message[RANK] < lead[RANK] then lead[RANK] = message[RANK] end
    -- the worker that runs the burst must be able to read all of it
    if version_of(message) > version_of(lead) then lead[NEEDS] = message[NEEDS] end
    if message[TOGETHER] ~= '' or message[LATE] > 0 then -- it led a burst itself; it has begun in time
      for _, more in ipairs(others_of(message)) do others[#others + 1] = more end
      message[TOGETHER], message[LATE] = '', 0
      save_message(key, ident, message)
    end
  end
  lead[TOGETHER] = others
  redis.call('ZREM', prefix .. 'mail:' .. key, unpack(members))
end

-- Puts back the messages of a turn that its handler has not seen: all behind the first `have`.
local function release_unseen(key, lead, have)
  local seen_ones = {}
  for i, other in ipairs(others_of(lead)) do
    local its = i >= have and read_message(key, other)
    if its then put(key, other, its) elseif i < have then seen_ones[i] = other end
  end
  lead[TOGETHER] = #seen_ones > 0 and seen_ones or ''
end
