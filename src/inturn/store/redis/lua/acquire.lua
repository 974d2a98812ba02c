#!lua
-- Ask for a lock, ask again after a lost reply, or confirm a provisional grant: always the same call.
-- include clock partition lock settle
-- KEYS  lock queue places fence processes names waits
-- ARGV  prefix deadline_ms name token owner capacity weight ttl_ms life_ms priority wait(0|1)
-- returns  granted fence arrival life_left_ms mine | waiting arrival 0 0 mine | busy token since_ms 0 mine
--          | own token 0 0 mine | mismatch capacity 0 0 mine | stale
--          mine: the grants that settling gave to other places of this process (token fence arrival life_left_ms)
local name, token, owner = ARGV[3], ARGV[4], ARGV[5]
local capacity, weight = tonumber(ARGV[6]), tonumber(ARGV[7])
local ttl, life, priority = tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10])
local process = process_of(token)
local lock, mine = lock_named(name), {}
redis.call('ZADD', KEYS[5], now, process)

local function grant_now()
  local number = tick()
  local grant = { owner, weight, number, number, ttl, life > 0 and now + life or 0, 0, now, '' }
  redis.call('HSET', lock.hash, 'cap', capacity, token, cmsgpack.pack(grant))
  redis.call('HINCRBY', lock.hash, 'used', weight)
  redis.call('ZADD', KEYS[6], now + IDLE_CHECK_MS, name)
  return { 'granted', number, number, life, mine }
end

local state = redis.call('HMGET', lock.hash, 'cap', 'used', token)
if not state[1] then return grant_now() end

if state[3] then
  local grant = cmsgpack.unpack(state[3])
  if grant[GRANT.lapses] > 0 then
    grant[GRANT.lapses] = 0
    if life > 0 then grant[GRANT.ends] = now + life end
    save_grant(lock, token, grant)
    redis.call('SREM', prefix .. 'inbox:' .. process, 'granted ' .. token .. ' ' .. name)
  end
  return { 'granted', grant[GRANT.fence], grant[GRANT.arrival], life_left(grant), mine }
end

local place = redis.call('HGET', lock.places, token)
if place then return { 'waiting', cmsgpack.unpack(place)[PLACE.arrival], 0, 0, mine } end

local function fits()
  state = redis.call('HMGET', lock.hash, 'cap', 'used')
  return not state[1]
    or (tonumber(state[1]) == capacity and tonumber(state[2]) + weight <= capacity
      and redis.call('EXISTS', lock.queue) == 0)
end
if not fits() then
  local soonest
  mine, soonest = settle(lock, process)
  if not fits() then
    if tonumber(state[1]) ~= capacity then return { 'mismatch', tonumber(state[1]), 0, 0, mine } end
    local own, own_weight, holder, since = nil, 0, '', 0
    for held, grant in pairs(grants_of(lock)) do
      holder, since = held, grant[GRANT.since]
      if grant[GRANT.owner] == owner then own, own_weight = held, own_weight + grant[GRANT.weight] end
    end
    -- waiting could never end: what the owner holds itself is in its own way
    if own and own_weight + weight > capacity then return { 'own', own, 0, 0, mine } end
    if ARGV[11] == '0' then return { 'busy', holder, since, 0, mine } end
    local arrival = tick()
    place = { owner, weight, arrival, ttl, life, priority, now }
    redis.call('ZADD', lock.queue, 0, place_member(token, place))
    redis.call('HSET', lock.places, token, cmsgpack.pack(place))
    redis.call('ZADD', KEYS[7], 0, owner .. '\0' .. token .. '\0' .. name)
    -- the lock may have had no waiters until now: look at it when its first grant could end
    redis.call('ZADD', KEYS[6], soonest, name)
    return { 'waiting', arrival, 0, 0, mine }
  end
end
return grant_now()
