-- What waits for the handler of the running turn comes into the turn. Answers the messages that its holder does not have
-- yet: it has the first `have` of them. So a repeat is answered alike. A lane that is stopped takes nothing more in.
local MOST_STEERED = 100
local function steer(key, lane, have)
  local ident = lane[RUNNING]
  local lead, handler, members, messages, newer = read_message(key, ident), handler_of(ident), {}, {}, {}
  local waiting = lane[STOPPED] == '' and redis.call('ZRANGE', prefix .. 'mail:' .. key, 0, MOST_STEERED - 1) or {}
  for _, member in ipairs(waiting) do
    local other = member:sub(23)
    local its = handler_of(other) == handler and read_message(key, other)
    if joins(other, its, handler, lead[SHARES]) and (its[LATE] == 0 or now <= its[LATE])
      and (its[NEEDS] == '' or its[NEEDS] == lead[NEEDS]) then
      members[#members + 1], messages[#messages + 1] = member, its
    end
  end
  join(key, lead, members, messages)
  if #members > 0 then save_message(key, ident, lead) end
  local others = others_of(lead)
  for i = have, #others do newer[#newer + 1] = seen(others[i], read_message(key, others[i])) end
  return newer
end
