#!lua flags=allow-oom
-- Gives back a grant, or leaves the queue. The next place is granted in the same step.
-- KEYS  lock queue places fence processes names waits due era
-- ARGV  prefix name process token fence(0: not held, as far as we know) deadline_ms
-- returns  released | left (it only waited) | lost (it was taken away before) | gone (neither: a repeat) | stale;
--          and a list, if this granted something to places of the same process: {token fence arrival life_left_ms}
-- include clock partition lock
local name, process, token = ARGV.name, ARGV.process, ARGV.token
local state = redis.call('HMGET', KEYS.lock, 'used', token, 'cap')
local grant, answer
if state[2] then
  grant = cmsgpack.unpack(state[2])
  answer = now < grant_ends(token, grant) and 'released' or 'lost'
  if tonumber(state[1]) == grant[WEIGHT] and grant[LAPSES] == 0 then
    local heads = redis.call('ZRANGE', KEYS.queue, 0, 1)
    if not heads[1] then
      redis.call('DEL', KEYS.lock)
      redis.call('SREM', KEYS.names, name)
      return { answer }
    end
    -- The common hand-over, in fewer steps than below: the next one is of the same process, and alike.
    local heir = heads[1]:sub(23)
    if heir:sub(1, #process + 1) == process .. '#' then
      local packed = redis.call('HGET', KEYS.places, heir)
      local place = packed and cmsgpack.unpack(packed)
      if place and state[1] == state[3] and place[WEIGHT] == grant[WEIGHT] and place[PLACE_TTL] == grant[TTL]
        and place[PLACE_LIFE] == 0 and grant[ENDS] == 0 then
        local number = tick()
        grant = { place[OWNER], place[WEIGHT], number, place[PLACE_ARRIVAL], place[PLACE_TTL], 0, 0, now, '' }
        redis.call('HDEL', KEYS.lock, token)
        redis.call('HSET', KEYS.lock, heir, cmsgpack.pack(grant))
        redis.call('ZREM', KEYS.queue, heads[1])
        redis.call('HDEL', KEYS.places, heir)
        redis.call('ZREM', KEYS.waits, waits_of(place[OWNER]) .. '\0' .. heir .. '\0' .. name)
        seen_now(process)
        -- while others wait it stays due when the last one could have ended, which is early enough
        if not heads[2] then redis.call('ZREM', KEYS.due, name) end
        return { answer, { { heir, number, place[PLACE_ARRIVAL], 0 } } }
      end
    end
  end
end

-- include tell settle
local lock = lock_named(name)
if grant then
  if grant[LAPSES] > 0 then untell(token, grant_notice(lock, token)) end
  redis.call('HDEL', lock.hash, token)
  redis.call('HINCRBY', lock.hash, 'used', -grant[WEIGHT])
  local mine = settle(lock, process)
  return { answer, mine }
end
local place = redis.call('HGET', lock.places, token)
if place then
  remove_place(lock, token, cmsgpack.unpack(place))
  local mine = settle(lock, process)
  return { 'left', mine }
end
-- A lease that was taken away left a note. One with a fence from before this memory was lost with another.
local fence, era = tonumber(ARGV.fence), tonumber(redis.call('GET', KEYS.era) or math.huge)
if redis.call('EXISTS', prefix .. 'lost:' .. token) == 1 or (fence > 0 and fence < era) then
  return { 'lost' }
end
return { 'gone' }
