-- What the rule of a message that arrives does to the turn that runs and to the messages that wait.

local function later_member(key, ident, message)
  return string.format('%016.0f ', message[NUMBER]) .. key .. '\0' .. ident
end

-- A delayed message stands in `later` for the time at which it arrives, and in `delayed:<key>` for those who look.
local function end_delay(key, ident, message)
  local member = later_member(key, ident, message)
  redis.call('ZREM', prefix .. 'later', member)
  redis.call('ZREM', prefix .. 'delayed:' .. key, member:sub(1, 17) .. ident)
end

-- This message will never run. Submitters of the same id, and processes that await it, are told why, until its window
-- has passed; the window of a delayed message begins when it would have run.
local function write_off(key, ident, message, why, window)
  window = math.max(1, window) + math.max(0, message[AFTER] - now)
  redis.call('SET', prefix .. 'mark:' .. key .. '\0' .. ident, '\0' .. why, 'PX', window)
  if message[M_KEEP] then end_delay(key, ident, message) end
  take_out(key, ident, message)
  tell_awaiting(message[WATCHERS], key, ident)
end

-- The new message supersedes every other of its handler that waits or is delayed. Returns how many those are, and the
-- highest count of interrupts among them.
local function supersede(key, lane, ident, window)
  local count, cuts = 0, 0
  local handler, runs = handler_of(ident), {}
  local running = lane[RUNNING] ~= '' and read_message(key, lane[RUNNING])
  if running then
    runs[lane[RUNNING]] = true
    for _, other in ipairs(others_of(running)) do runs[other] = true end
  end
  for _, other in ipairs(redis.call('HKEYS', prefix .. 'msgs:' .. key)) do
    if other ~= ident and not runs[other] and handler_of(other) == handler then
      local its = read_message(key, other)
      write_off(key, other, its, 'superseded', window)
      count, cuts = count + 1, math.max(cuts, its[M_CUTS])
    end
  end
  return count, cuts
end

-- Returns what comes along when the message `ident` interrupts, and last the message itself: all that wait before it
-- for its handler, so that their order stays. nil: not all of them can join, or one was tried before and must run
-- first, alone. With an inline caller come the callers before it; each of them has a turn of its own.
local function company(key, plain, ident, message)
  local last, members, messages, handler = mail_member(ident, message), {}, {}, handler_of(ident)
  for _, member in ipairs(redis.call('ZRANGE', prefix .. 'mail:' .. key, 0, limits.MAX_JOINING - 1)) do
    local other = member:sub(23)
    local its = handler_of(other) == handler and read_message(key, other)
    if its then
      if handler ~= '' and not joins(other, its, handler, plain or its[SHARES]) then return nil end
      members[#members + 1], messages[#messages + 1] = member, its
    end
    if member == last then return members, messages end
  end
end

-- Puts the messages of the turn that the message `ident` has interrupted to where they belong now.
local function make_way(key, lead, running, ident, message, window, members, messages)
  running[ATTEMPTS], running[M_CUTS] = running[ATTEMPTS] - 1, running[M_CUTS] + 1
  if members and handler_of(lead) == handler_of(ident) then
    join(key, running, members, messages)
    running[OPEN] = 1
    return put(key, lead, running)
  end
  if members then -- directly behind the one that interrupted it and what came before that, and ahead of the others
    redis.call('ZREM', prefix .. 'mail:' .. key, unpack(members))
    for i, its in ipairs(messages) do
      its[NUMBER] = running[NUMBER] - 1 - #members + i
      put(key, members[i]:sub(23), its)
    end
    message[NUMBER] = running[NUMBER] - 1
    return put(key, lead, running)
  end
  redis.call('ZREM', prefix .. 'mail:' .. key, mail_member(ident, message))
  for _, other in ipairs(others_of(running)) do
    local its = read_message(key, other)
    if its then write_off(key, other, its, 'superseded', window) end
  end
  write_off(key, lead, running, 'superseded', window)
  message[NUMBER], message[M_CUTS] = running[NUMBER], running[M_CUTS]
  put(key, ident, message)
end

-- Interrupts the turn that runs, if the rule of the new message says so and the turn allows it. From here on its commit
-- is refused. The lane waits until the turn has ended, for `YIELD_MS` at most. A turn of a higher priority is left
-- alone. So is one in a lane that is stopped: the new message could not run in its place.
local function interrupt(key, lane, ident, message, policy, window)
  if lane[STOPPED] ~= '' or not is_leased(lane) then return end
  local lead, members, messages = lane[RUNNING]
  local running = read_message(key, lead)
  local is_own = running and handler_of(lead) == handler_of(ident)
  if (running and running[M_CUTS] or lane[CUTS]) >= limits.MAX_CUTS or not (is_own or lane[ALLOWS] == 1)
    or (running and running[RANK] or NO_PRIORITY) < message[RANK] then return end
  if is_own and policy == 'interrupt' then
    if #others_of(running) >= limits.MAX_TOGETHER then return end
    members, messages = company(key, running[SHARES], ident, message)
  elseif running and not is_own then
    members, messages = company(key, nil, ident, message)
  end
  if running and not members and not (is_own and policy == 'rollback') then return end
  local token, shared = lane[HOLDER], lane[SHARED]
  tell_loss(key, token, lane[GRANTED], 'interrupted')
  announce(key, 'interrupt', lane[GRANTED], ident)
  if lane[LAPSE] > 0 then -- it was only offered: nobody runs
    untell(token, turn_notice(token, key))
  else
    lane[YIELDS], lane[YIELD_BY], lane[SHARED] = token, now + limits.YIELD_MS, ''
  end
  if not running then tell_awaiting(lane[AWAITED], key, lead) end
  end_lease(lane)
  if lane[YIELDS] ~= '' then lane[SHARED] = shared end -- nobody else gets the plain key before it has ended
  if running then
    make_way(key, lead, running, ident, message, window, members, messages)
  else
    lane[CUTS] = lane[CUTS] + 1
  end
end

-- may_interrupt: false for what a turn sends to its own lane. Returns whether more than the new message may have
-- changed.
local function arrive(key, lane, ident, message, keep_ms, is_fresh, may_interrupt)
  if may_interrupt and lane[HOLDER] ~= '' and not is_leased(lane) then take_lane_away(key, lane, 'expired') end
  accept(key, lane, ident, message, keep_ms, is_fresh)
  if message[RULE] == '' then return false end
  local policy, _, _, _, _, window = rule_of(message)
  if policy == 'latest' or policy == 'rollback' then
    local _, cuts = supersede(key, lane, ident, window)
    if cuts > 0 then -- it takes the place of one that has interrupted already
      message[M_CUTS] = cuts
      save_message(key, ident, message)
    end
  end
  if may_interrupt and (policy == 'interrupt' or policy == 'rollback') then
    interrupt(key, lane, ident, message, policy, window)
  end
  return true -- others may have moved, and how long the head waits for quiet may have changed
end

-- The message arrives later. Until then it is in no mailbox, so it delays no other message and does not keep the state
-- alive.
local function postpone(key, lane, ident, message, keep_ms, delay)
  local policy, _, _, _, _, window = rule_of(message)
  local has_moved = policy == 'latest' and (supersede(key, lane, ident, window)) > 0
  message[NUMBER], message[AFTER], message[M_KEEP] = tick(), now + delay, keep_ms
  save_message(key, ident, message)
  local member, letter = later_member(key, ident, message), key .. '\0' .. ident
  redis.call('ZADD', prefix .. 'later', message[AFTER], member)
  redis.call('ZADD', prefix .. 'delayed:' .. key, message[AFTER], member:sub(1, 17) .. ident)
  if redis.call('HDEL', prefix .. 'letters', letter) == 1 then redis.call('ZREM', prefix .. 'dead', letter) end
  if redis.call('ZRANGE', prefix .. 'later', 0, 0)[1] == member then wake(needs_of(ident, message)) end
  if has_moved and lane[HOLDER] == '' then advance(key, lane) end
end
