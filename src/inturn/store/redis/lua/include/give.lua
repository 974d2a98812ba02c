-- The open messages of the same handler directly behind the head join it, up to its cap.
local function gather(key, ident, message, can)
  local _, _, cap = rule_of(message)
  local count, handler, members, messages = 1 + #others_of(message), handler_of(ident), {}, {}
  if message[OPEN] == 0 or cap <= count then return end
  local waiting = redis.call('ZRANGE', prefix .. 'mail:' .. key, 0, cap - count - 1)
  local idents = {}
  for i, member in ipairs(waiting) do idents[i] = member:sub(23) end
  for i, its in ipairs(read_messages(key, idents)) do
    local other = idents[i]
    if not joins(other, its, handler, message[SHARES]) or its[LATE] > 0 or count + 1 + #others_of(its) > cap
      or not can:find('\0' .. needs_of(other, its) .. '\0', 1, true) then break end
    count = count + 1 + #others_of(its)
    members[#members + 1], messages[#messages + 1] = waiting[i], its
  end
  join(key, message, members, messages)
end

-- Gives the next message of a lane, or a burst, to a worker. The attempt is counted here, so that a message which kills
-- its worker has had one. `can` holds the handlers of the worker, each between two NULs. Returns what was given; if
-- nothing can be, the lane advances.
local function give_next(key, lane, token, can)
  local is_free = token ~= '' and lane[STOPPED] == '' and lane[YIELDS] == ''
  local head = is_free and redis.call('ZRANGE', prefix .. 'mail:' .. key, 0, 0)[1]
  if head then
    local ident = head:sub(23)
    local message = read_message(key, ident)
    if message and message[CALLER] == '' and message[AFTER] <= now and (message[LATE] == 0 or now <= message[LATE])
      and can:find('\0' .. needs_of(ident, message) .. '\0', 1, true)
      and quiet_until(key, ident, message) <= now and shared_until(message[SHARES]) == 0 then
      redis.call('ZREM', prefix .. 'mail:' .. key, head)
      gather(key, ident, message, can)
      message[ATTEMPTS], message[LATE] = message[ATTEMPTS] + 1, 0
      save_message(key, ident, message)
      lease_to(key, lane, token, ident, message)
      lane[READY] = ''
      save_lane(key, lane)
      -- the caller is alive: its worker counts the new lease from this call on, and so must we
      seen_now(process_of(token))
      redis.call('ZADD', prefix .. 'alarms', 'LT', now + lane[LEASE], key)
      return given(key, lane, message)
    end
  end
  advance(key, lane)
end
