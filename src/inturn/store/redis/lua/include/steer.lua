-- What waits for the handler of the running turn comes into the turn. Returns the messages behind the first `have`,
-- which its holder has already; so a repeat gets the same answer. A lane that is stopped takes nothing more in. A turn
-- that is tried again does so only when it would commit: else a poison message could live for ever on new ones.
local function steer(key, lane, have, version, would_commit)
  local ident = lane[RUNNING]
  local lead, handler, members, messages, newer = read_message(key, ident), handler_of(ident), {}, {}, {}
  if not lead then return newer end -- gone
  local may_join = lane[STOPPED] == '' and (lead[OPEN] == 1 or would_commit) and #others_of(lead) < limits.MAX_TOGETHER
  local waiting = may_join and redis.call('ZRANGE', prefix .. 'mail:' .. key, 0, limits.MAX_LOOKED_AT - 1) or {}
  for _, member in ipairs(waiting) do
    local other = member:sub(23)
    local its = #members < limits.MAX_STEERED and handler_of(other) == handler and read_message(key, other)
    if its and (its[LATE] == 0 or now <= its[LATE]) then
      -- nothing comes in past a message of the same handler that cannot
      if not joins(other, its, handler, lead[SHARES]) or version_of(its) > version then break end
      members[#members + 1], messages[#messages + 1] = member, its
    end
  end
  join(key, lead, members, messages)
  if #members > 0 then save_message(key, ident, lead) end
  local others = others_of(lead)
  for i = have, #others do
    local its = read_message(key, others[i])
    if its then newer[#newer + 1] = seen(others[i], its) end
  end
  return newer
end
