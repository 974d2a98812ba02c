-- Messages come together: the lead of a burst stays in the mailbox, or runs, and lists the others.
local MOST_TOGETHER = 1000

local function version_of(message)
  return tonumber(message[NEEDS]:sub(2)) or 1
end

-- Out of the mailbox (`members` of it, with their messages) and into the burst of this lead, which its caller saves.
local function join(key, lead, members, messages)
  if #members == 0 then return end
  local others = others_of(lead)
  for i, member in ipairs(members) do
    local ident, message = member:sub(23), messages[i]
    others[#others + 1] = ident
    -- who runs the burst must be able to read all of it
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

-- What came into a turn without its handler having seen it goes back to its place: all behind the first `have` messages.
local function release_unseen(key, lead, have)
  local seen_ones = {}
  for i, other in ipairs(others_of(lead)) do
    local its = i >= have and read_message(key, other)
    if its then put(key, other, its) elseif i < have then seen_ones[i] = other end
  end
  lead[TOGETHER] = #seen_ones > 0 and seen_ones or ''
end
