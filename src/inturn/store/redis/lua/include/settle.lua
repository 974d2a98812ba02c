-- Brings a lock up to date: takes away the grants that have ended, and grants to the places that come next.

-- Returns the priority as text that sorts a higher one first.
local function rank_of(priority)
  return string.format('%04d', limits.MAX_PRIORITY - priority)
end

local function place_member(token, place)
  return string.format('%s %016.0f %s', rank_of(place[PRIORITY]), place[PLACE_ARRIVAL], token)
end

local function remove_place(lock, token, place)
  redis.call('ZREM', lock.queue, place_member(token, place))
  redis.call('HDEL', lock.places, token)
  redis.call('ZREM', prefix .. 'waits', waits_of(place[OWNER]) .. '\0' .. token .. '\0' .. lock.name)
end

local function grant_notice(lock, token)
  return 'granted ' .. token .. ' ' .. lock.name
end

-- Ends a grant against its holder's will.
local function take_away(lock, token, grant, why)
  redis.call('HDEL', lock.hash, token)
  redis.call('HINCRBY', lock.hash, 'used', -grant[WEIGHT])
  if grant[LAPSES] > 0 then untell(token, grant_notice(lock, token)) end
  tell_loss(lock.name, token, grant[FENCE], why)
end

-- Takes away every grant that has ended. Returns when the next one could end.
local function reap(lock)
  local soonest = math.huge
  for token, grant in pairs(grants_of(lock)) do
    local ends = grant_ends(token, grant)
    if now >= ends then
      take_away(lock, token, grant, grant[LAPSES] > 0 and 'not confirmed in time' or 'expired')
    else
      soonest = math.min(soonest, ends)
    end
  end
  return soonest
end

-- Grants to the head of the queue while it fits. A head that does not fit stops the queue, so that nobody overtakes it.
-- Grants to the calling process are complete and are returned. A grant to another process is provisional until that
-- process confirms it by repeating its acquire; it also stands in that process's inbox.
local function grant_heads(lock, calling_process)
  local mine, soonest = {}, math.huge
  local state = redis.call('HMGET', lock.hash, 'cap', 'used')
  local capacity, used = tonumber(state[1]), tonumber(state[2])
  while true do
    local head = redis.call('ZRANGE', lock.queue, 0, 0)[1]
    if not head then break end
    local token = head:sub(23)
    local process = process_of(token)
    local place = read_place(lock, token)
    if not place then
      redis.call('ZREM', lock.queue, head)
      tell_loss(lock.name, token, 0, 'its place was gone')
    elseif process ~= calling_process and now > seen_at(process) + limits.PLACE_LIVES_MS then
      remove_place(lock, token, place)
    elseif used + place[WEIGHT] <= capacity then
      remove_place(lock, token, place)
      local ends = place[PLACE_LIFE] > 0 and now + place[PLACE_LIFE] or 0
      local grant = { place[OWNER], place[WEIGHT], tick(), place[PLACE_ARRIVAL], place[PLACE_TTL], ends, 0, now, '' }
      if process == calling_process then
        mine[#mine + 1] = { token, grant[FENCE], grant[ARRIVAL], life_left(grant) }
      else
        local heard = tell(process, grant_notice(lock, token))
        grant[LAPSES] = now + (heard > 0 and limits.CONFIRM_MS or limits.CONFIRM_UNHEARD_MS)
      end
      used = used + place[WEIGHT]
      save_grant(lock, token, grant)
      soonest = math.min(soonest, grant_ends(token, grant))
    else
      break
    end
  end
  redis.call('HSET', lock.hash, 'used', used)
  -- its call shows that the calling process is alive; its new leases live from this moment on
  if #mine > 0 then seen_now(calling_process) end
  return mine, soonest, used
end

-- Notes when the lock must be looked at again, or removes it if it is not in use any more.
local function reschedule(lock, used, soonest)
  if used == 0 then
    redis.call('DEL', lock.hash)
    redis.call('SREM', prefix .. 'names', lock.name)
    redis.call('ZREM', prefix .. 'due', lock.name)
  elseif redis.call('EXISTS', lock.queue) == 0 then
    redis.call('ZREM', prefix .. 'due', lock.name)
  elseif soonest < math.huge then
    redis.call('ZADD', prefix .. 'due', soonest, lock.name)
  end
end

-- The lock itself, or its queue, is gone (evicted, or deleted by hand). Its waiters are told to ask again.
local function dismiss_waiters(lock)
  local tokens = redis.call('HKEYS', lock.places)
  for _, member in ipairs(redis.call('ZRANGE', lock.queue, 0, -1)) do
    if redis.call('HEXISTS', lock.places, member:sub(23)) == 0 then tokens[#tokens + 1] = member:sub(23) end
  end
  for _, token in ipairs(tokens) do
    local place = read_place(lock, token)
    if place then remove_place(lock, token, place) end
    tell_loss(lock.name, token, 0, 'the lock was gone')
  end
  redis.call('DEL', lock.queue)
end

local function settle(lock, calling_process)
  if redis.call('EXISTS', lock.hash) == 0 then
    dismiss_waiters(lock)
    reschedule(lock, 0, math.huge)
    return {}, math.huge
  end
  if redis.call('ZCARD', lock.queue) < redis.call('HLEN', lock.places) then dismiss_waiters(lock) end
  local held_until = reap(lock)
  local mine, granted_until, used = grant_heads(lock, calling_process)
  local soonest = math.min(held_until, granted_until)
  reschedule(lock, used, soonest)
  return mine, soonest
end
