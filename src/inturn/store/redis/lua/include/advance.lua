-- Bring a lane up to date. After `advance` it is leased, or in a ready list, or waits for its alarm, or is stopped, or is
-- idle and has no record: there is no other way for a lane to be, so none can be stuck.
local INLINE_LIVES_MS = 3000  -- an inline caller's place lives while its process was seen within three beats
local CONFIRM_TURN_MS = 2000  -- a turn that its caller does not confirm lapses after two beats,
local CONFIRM_TURN_UNHEARD_MS = 500 -- or sooner when nobody was listening: most likely the process is dead

local function alarm(key, at)
  redis.call('ZADD', prefix .. 'alarms', at, key)
end

-- Everyone who awaits the result is told to ask for it.
local function tell_awaiting(processes, key, ident)
  for process in processes:gmatch('%S+') do
    tell(process, 'settled ' .. process .. '#0 ' .. key .. '\0' .. ident)
  end
end

-- Out of the mailbox and into the dead letters.
local function bury(key, lane, ident, message)
  local member = key .. '\0' .. ident
  redis.call('HDEL', prefix .. 'msgs:' .. key, ident)
  redis.call('HSET', prefix .. 'letters', member, cmsgpack.pack({ key, ident, message, now, lane[KEEP] }))
  redis.call('ZADD', prefix .. 'dead', tick(), member)
  tell_awaiting(message[WATCHERS], key, ident)
end

-- The text of an error that only the store has seen.
local function add_error(message, kind, why)
  local errors = message[ERRORS]
  errors[#errors + 1] = string.format('{"type":"%s","message":"%s","attempt":%d,"at":%.0f,"accepted":%.0f}',
    kind, why, message[ATTEMPTS], now, message[ACCEPTED])
end

local function end_lease(lane)
  lane[HOLDER], lane[GRANTED], lane[LAPSE], lane[RUNNING], lane[AWAITED] = '', 0, 0, '', ''
end

-- Ends a lease against its holder's will. A message that was submitted goes back to its place; the attempt counts. An
-- inline one belongs to its caller, and is gone.
local function take_lane_away(key, lane, why)
  if lane[LAPSE] > 0 then untell(lane[HOLDER], turn_notice(lane[HOLDER], key)) end
  tell_loss(key, lane[HOLDER], lane[GRANTED], why)
  local message = read_message(key, lane[RUNNING])
  if message then
    add_error(message, 'LeaseLost', why)
    put(key, lane[RUNNING], message)
  else
    tell_awaiting(lane[AWAITED], key, lane[RUNNING])
  end
  end_lease(lane)
end

-- One idle process that can run this handler is told that there is work. If that is lost, a timed look finds it.
local function wake(handler)
  while true do
    local process = redis.call('SPOP', prefix .. 'idle:' .. handler)
    if not process then return end
    if now <= seen_at(process) + INLINE_LIVES_MS
      and redis.call('SPUBLISH', prefix .. 'push:' .. process, 'ready ' .. process .. '#0 ' .. handler) > 0 then
      return
    end
  end
end

-- Where a free lane waits: in the ready list of this handler, or ('') in none.
local function stand_ready(key, lane, handler)
  if lane[READY] == handler then return end
  if lane[READY] ~= '' then redis.call('ZREM', prefix .. 'ready:' .. lane[READY], key) end
  lane[READY] = handler
  if handler ~= '' then
    redis.call('ZADD', prefix .. 'ready:' .. handler, tick(), key)
    redis.call('SADD', prefix .. 'handlers', handler)
    wake(handler)
  end
end

local function lease_to(lane, token, ident, ttl, limit)
  lane[HOLDER], lane[GRANTED], lane[LEASE], lane[UNTIL] = token, tick(), ttl, now + limit + ttl
  lane[LAPSE], lane[BEGAN], lane[RUNNING], lane[AWAITED] = 0, now, ident, ''
end

-- The turn of an inline caller has come: its process is told, and confirms by asking once more.
local function offer(key, lane, ident, message)
  local token = message[CALLER]
  lease_to(lane, token, ident, message[M_TTL], message[LIMIT])
  lane[AWAITED] = message[WATCHERS]
  local heard = tell(process_of(token), turn_notice(token, key))
  lane[LAPSE] = now + (heard > 0 and CONFIRM_TURN_MS or CONFIRM_TURN_UNHEARD_MS)
  alarm(key, lane_ends(lane))
end

-- Nothing runs and nothing waits: what is left is the state, which lives on for its own time.
local function go_idle(key, lane)
  redis.call('HDEL', prefix .. 'lanes', key)
  redis.call('ZREM', prefix .. 'alarms', key)
  -- a state that was not held by messages, nor written by a turn just now, has its time already
  if lane[KEEP] > 0 then redis.call('PEXPIRE', prefix .. 'state:' .. key, lane[KEEP], 'NX') end
end

local MOST_BURIED = 100 -- at once; the rest follows soon

local function advance(key, lane)
  if lane[HOLDER] ~= '' then
    local ends = lane_ends(lane)
    if now < ends then
      alarm(key, ends)
      return save_lane(key, lane)
    end
    take_lane_away(key, lane, lane[LAPSE] > 0 and 'not confirmed in time' or 'expired')
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
      take_out(key, ident, message)
      if now <= seen_at(process_of(message[CALLER])) + INLINE_LIVES_MS then
        offer(key, lane, ident, message)
        break
      end
      tell_awaiting(message[WATCHERS], key, ident)
      tell_loss(key, message[CALLER], 0, 'its process was not seen') -- if it lives after all, it asks again
    elseif message[LATE] > 0 and now > message[LATE] then
      if buried == MOST_BURIED then
        alarm(key, now)
        break
      end
      buried = buried + 1
      redis.call('ZREM', prefix .. 'mail:' .. key, head)
      add_error(message, 'LaneTimeout', 'not begun in time')
      bury(key, lane, ident, message)
    elseif message[AFTER] > now then
      alarm(key, message[AFTER])
      break
    else
      ready = handler_of(ident)
      redis.call('ZREM', prefix .. 'alarms', key)
      break
    end
  end
  stand_ready(key, lane, ready)
  save_lane(key, lane)
end
