-- Brings a lane up to date. After `advance` it is leased, or in a ready list, or waits for its alarm, or is stopped, or
-- is idle and has no record. A lane has no other state, so none can be stuck.

local function alarm(key, at)
  redis.call('ZADD', prefix .. 'alarms', at, key)
end

-- Tells every process that awaits the result to ask for it.
local function tell_awaiting(processes, key, ident)
  for process in processes:gmatch('%S+') do
    tell(process, 'settled ' .. process .. '#0 ' .. key .. '\0' .. ident)
  end
end

-- Moves a message, which is in no mailbox any more, to the dead letters, for `letter_ms`. nil: the next beat says for how
-- long (include/letters.lua); only a call that fails a message knows, and beats do.
local function bury(key, lane, ident, message, letter_ms)
  local member, letter = key .. '\0' .. ident, { key, ident, message, now, lane[KEEP] }
  if letter_ms then letter[6] = now + letter_ms end
  redis.call('HDEL', prefix .. 'msgs:' .. key, ident)
  redis.call('HSET', prefix .. 'letters', member, cmsgpack.pack(letter))
  redis.call('ZADD', prefix .. 'dead', tick() + (letter_ms or 0) * 1000, member)
  tell_awaiting(message[WATCHERS], key, ident)
end

-- Adds an error that only the store has seen.
local function add_error(message, kind, why)
  local errors = message[ERRORS]
  errors[#errors + 1] = string.format('{"type":"%s","message":"%s","attempt":%d,"at":%.0f,"accepted":%.0f}',
    kind, why, message[ATTEMPTS], now, message[ACCEPTED])
end

local function end_lease(lane)
  if lane[SHARED] ~= '' then unshare(lane[SHARED], lane[HOLDER]) end
  lane[SHARED] = ''
  lane[HOLDER], lane[GRANTED], lane[LAPSE], lane[RUNNING], lane[AWAITED] = '', 0, 0, '', ''
end

-- Ends a lease against its holder's will. A submitted message goes back to its place, and the attempt counts. An inline
-- message belongs to its caller, and is gone.
local function take_lane_away(key, lane, why)
  if lane[LAPSE] > 0 then untell(lane[HOLDER], turn_notice(lane[HOLDER], key)) end
  tell_loss(key, lane[HOLDER], lane[GRANTED], why)
  announce(key, 'lost', lane[GRANTED], why)
  local message = read_message(key, lane[RUNNING])
  if message then
    add_error(message, 'LeaseLost', why)
    message[OPEN] = 0
    put(key, lane[RUNNING], message)
  else
    tell_awaiting(lane[AWAITED], key, lane[RUNNING])
  end
  end_lease(lane)
end

-- Tells one idle process that can run this handler that there is work. If the push is lost, the next timed look finds
-- it.
local function wake(handler)
  local what = '#0 ' .. prefix:match('{(%d+)}:$') .. ' ' .. handler
  while true do
    local process = redis.call('SPOP', prefix .. 'idle:' .. handler)
    if not process then return end
    if now <= seen_at(process) + limits.PLACE_LIVES_MS
      and redis.call('SPUBLISH', prefix .. 'push:' .. process, 'ready ' .. process .. what) > 0 then
      return
    end
  end
end

-- Puts a free lane into this ready list ('': into none), and takes it out of the one that it was in. Its group gets a
-- place, if it has none: it may still have that of its last turn (see claim.lua).
local function stand_ready(key, lane, list)
  if lane[READY] == list then return end
  if lane[READY] ~= '' then
    redis.call('ZREM', prefix .. 'ready:' .. lane[READY], key)
    if lane[READY]:find('%z') then redis.call('HINCRBY', prefix .. 'grouped', lane[READY]:match('%Z+'), -1) end
  end
  lane[READY] = list
  if list ~= '' then
    local handler = list:match('%Z+')
    redis.call('ZADD', prefix .. 'ready:' .. list, tick(), key)
    if handler ~= list
      and redis.call('ZADD', prefix .. 'ready:' .. handler, 'NX', tick(), list:sub(#handler + 1)) == 0 then
      redis.call('HINCRBY', prefix .. 'grouped', handler, 1)
    end
    redis.call('SADD', prefix .. 'handlers', handler)
    wake(handler)
  end
end

-- Leases the lane. Only call it when `shared_until` of the message's plain key has returned 0.
local function lease_to(key, lane, token, ident, message)
  local ttl = message[M_TTL]
  lane[HOLDER], lane[GRANTED], lane[LEASE], lane[UNTIL] = token, tick(), ttl, now + message[LIMIT] + ttl
  lane[LAPSE], lane[BEGAN], lane[RUNNING], lane[AWAITED] = 0, now, ident, ''
  lane[ALLOWS], lane[SHARED] = select(5, rule_of(message)), message[SHARES]
  if message[SHARES] ~= '' then share(key, message[SHARES], token, ttl) end
  announce(key, 'begin', lane[GRANTED], message[ATTEMPTS] .. ' ' .. ident)
end

-- Leases the lane to an inline caller whose turn has come. Its process is told, and confirms by calling begin again.
local function offer(key, lane, ident, message)
  local token = message[CALLER]
  message[ATTEMPTS] = 1
  lease_to(key, lane, token, ident, message)
  lane[AWAITED] = message[WATCHERS]
  local heard = tell(process_of(token), turn_notice(token, key))
  lane[LAPSE] = now + (heard > 0 and limits.CONFIRM_MS or limits.CONFIRM_UNHEARD_MS)
  alarm(key, lane_ends(lane))
end

-- The lane waits for a time, not for a lease. If it is the next alarm of all, and is new, a worker is told to look.
local function wait_until(key, at, handler)
  local before = redis.call('ZSCORE', prefix .. 'alarms', key)
  alarm(key, at)
  if not (before and tonumber(before) <= at) and redis.call('ZRANGE', prefix .. 'alarms', 0, 0)[1] == key then
    wake(handler)
  end
end

-- Returns when the burst at the head of the mailbox, led by this message, may begin. Every message restarts the quiet
-- time. If its turn was interrupted, all waits begin anew with the message that interrupted it, the last of the burst.
local function quiet_until(key, ident, message)
  local _, quiet, cap, max_quiet, _, _, cut_at = rule_of(message)
  local others, first = others_of(message), message
  if message[M_CUTS] > 0 and #others > 0 then
    first = read_message(key, others[#others]) or message
    _, quiet, _, max_quiet = rule_of(first)
  end
  if quiet == 0 or message[OPEN] == 0 then return 0 end
  local last, count, handler = first[ACCEPTED] + quiet, 1 + #others, handler_of(ident)
  local enough = cut_at > 0 and math.min(cut_at, cap) or cap
  for _, member in ipairs(redis.call('ZRANGE', prefix .. 'mail:' .. key, 1, enough - 1)) do
    local other = read_message(key, member:sub(23))
    if not joins(member:sub(23), other, handler, message[SHARES]) or other[LATE] > 0 then break end
    local _, its_quiet = rule_of(other)
    if its_quiet == 0 then return 0 end
    last, count = math.max(last, other[ACCEPTED] + its_quiet), count + 1
  end
  if count >= enough then return 0 end
  return math.min(last, first[ACCEPTED] + max_quiet)
end

-- The interrupted turn has ended, or has had its time: the lane waits for it no longer.
local function stop_yielding(lane)
  if lane[SHARED] ~= '' then unshare(lane[SHARED], lane[YIELDS]) end
  lane[SHARED], lane[YIELDS], lane[YIELD_BY] = '', '', 0
end

-- Nothing runs and nothing waits. Only the state is left, which lives on for its own time.
local function go_idle(key, lane)
  redis.call('HDEL', prefix .. 'lanes', key)
  redis.call('ZREM', prefix .. 'alarms', key)
  -- a state that no message kept from expiring, and no turn has just written, has its time already
  if lane[KEEP] > 0 then redis.call('PEXPIRE', prefix .. 'state:' .. key, lane[KEEP], 'NX') end
end

local function advance(key, lane)
  if lane[HOLDER] ~= '' then
    local ends = lane_ends(lane)
    if now < ends then
      alarm(key, ends)
      return save_lane(key, lane)
    end
    take_lane_away(key, lane, lane[LAPSE] > 0 and 'not confirmed in time' or 'expired')
  end
  if lane[YIELDS] ~= '' then
    if now < lane[YIELD_BY] then
      local head = redis.call('ZRANGE', prefix .. 'mail:' .. key, 0, 0)[1]
      stand_ready(key, lane, '')
      wait_until(key, lane[YIELD_BY], head and needs_of(head:sub(23), read_message(key, head:sub(23))) or '')
      return save_lane(key, lane)
    end
    stop_yielding(lane)
  end
  local ready, buried = '', 0
  if lane[STOPPED] ~= '' then redis.call('ZREM', prefix .. 'alarms', key) end
  while lane[STOPPED] == '' do
    local head = redis.call('ZRANGE', prefix .. 'mail:' .. key, 0, 0)[1]
    if not head then
      stand_ready(key, lane, '')
      return go_idle(key, lane)
    end
    local ident = head:sub(23)
    local message = read_message(key, ident)
    if not message then -- half of a transition: Redis was killed while it wrote its append-only file
      redis.call('ZREM', prefix .. 'mail:' .. key, head)
    elseif message[CALLER] ~= '' then
      local lives = now <= seen_at(process_of(message[CALLER])) + limits.PLACE_LIVES_MS
      local held_until = lives and shared_until(message[SHARES]) or 0
      if held_until > 0 then
        wait_until(key, held_until, '')
        break
      end
      take_out(key, ident, message)
      if lives then
        offer(key, lane, ident, message)
        break
      end
      tell_awaiting(message[WATCHERS], key, ident)
      tell_loss(key, message[CALLER], 0, 'its process was not seen') -- if it lives after all, it asks again
    elseif message[LATE] > 0 and now > message[LATE] then
      if buried == limits.MAX_BURIED then
        alarm(key, now) -- the rest follows soon
        break
      end
      buried = buried + 1
      redis.call('ZREM', prefix .. 'mail:' .. key, head)
      add_error(message, 'LaneTimeout', 'not begun in time')
      bury(key, lane, ident, message)
    else
      local needs = needs_of(ident, message)
      local waits_until = message[AFTER]
      if message[RULE] ~= '' then waits_until = math.max(waits_until, quiet_until(key, ident, message)) end
      if message[SHARES] ~= '' then waits_until = math.max(waits_until, shared_until(message[SHARES])) end
      if waits_until > now then
        wait_until(key, waits_until, needs)
      else
        ready = list_of(ident, message)
        redis.call('ZREM', prefix .. 'alarms', key)
      end
      break
    end
  end
  stand_ready(key, lane, ready)
  save_lane(key, lane)
end
