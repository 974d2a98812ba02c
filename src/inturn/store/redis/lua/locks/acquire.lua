#!lua
-- Asks for a lock, asks again after a lost reply, or confirms a provisional grant: always the same call.
-- KEYS  lock queue places fence processes names waits due era
-- ARGV  prefix name process capacity weight ttl_ms life_ms priority token owner wait(0|1) deadline_ms
-- returns  granted fence arrival life_left_ms | waiting arrival | busy token since_ms | own token | mismatch capacity
--          | stale;  and at the end a list, if settling granted something to other places of this process:
--          {token fence arrival life_left_ms}
-- include clock partition
local name, process, token, owner = ARGV.name, ARGV.process, ARGV.token, ARGV.owner
local capacity, weight = tonumber(ARGV.capacity), tonumber(ARGV.weight)
local ttl, life = tonumber(ARGV.ttl_ms), tonumber(ARGV.life_ms)
local mine = {}
seen_now(process)

local function grant_now(used)
  local number = tick()
  local grant = { owner, weight, number, number, ttl, life > 0 and now + life or 0, 0, now, '' }
  redis.call('HSET', KEYS.lock, 'cap', capacity, 'used', used + weight, token, cmsgpack.pack(grant))
  if used == 0 then redis.call('SADD', KEYS.names, name) end
  if #mine == 0 then return { 'granted', number, number, life } end
  return { 'granted', number, number, life, mine }
end

local state = redis.call('HMGET', KEYS.lock, 'cap', 'used', token)
if not state[1] then return grant_now(0) end

-- include lock tell
local lock = lock_named(name)
if state[3] then
  local grant = cmsgpack.unpack(state[3])
  if grant[LAPSES] > 0 then
    grant[LAPSES] = 0
    if life > 0 then grant[ENDS] = now + life end
    save_grant(lock, token, grant)
    untell(token, 'granted ' .. token .. ' ' .. name)
  end
  return { 'granted', grant[FENCE], grant[ARRIVAL], life_left(grant) }
end

-- include settle
local place = read_place(lock, token)
if place then
  -- a place that the queue does not know is taken again, behind all others
  if redis.call('ZSCORE', lock.queue, place_member(token, place)) then return { 'waiting', place[PLACE_ARRIVAL] } end
  remove_place(lock, token, place)
end
local rank = rank_of(ARGV.priority)
local function fits()
  state = redis.call('HMGET', lock.hash, 'cap', 'used')
  if not state[1] then return true end
  if tonumber(state[1]) ~= capacity or tonumber(state[2]) + weight > capacity then return false end
  local head = redis.call('ZRANGE', lock.queue, 0, 0)[1]
  return not head or rank < head:sub(1, 4)
end
if not fits() then
  local soonest
  mine, soonest = settle(lock, process)
  if not fits() then
    if tonumber(state[1]) ~= capacity then return { 'mismatch', tonumber(state[1]), mine } end
    local own, own_weight, holder, since = nil, 0, '', 0
    for held, grant in pairs(grants_of(lock)) do
      holder, since = held, grant[SINCE]
      if grant[OWNER] == owner then own, own_weight = held, own_weight + grant[WEIGHT] end
    end
    -- waiting could never end: the owner would wait for what it holds itself
    if own and own_weight + weight > capacity then return { 'own', own, mine } end
    if ARGV.wait == '0' then return { 'busy', holder, since, mine } end
    local arrival = tick()
    redis.call('DEL', prefix .. 'lost:' .. token) -- a grant that lapsed left a note; the token starts afresh
    place = { owner, weight, arrival, ttl, life, tonumber(ARGV.priority), now }
    redis.call('ZADD', lock.queue, 0, place_member(token, place))
    redis.call('HSET', lock.places, token, cmsgpack.pack(place))
    redis.call('ZADD', KEYS.waits, 0, waits_of(owner) .. '\0' .. token .. '\0' .. name)
    reschedule(lock, tonumber(state[2]), soonest)
    return { 'waiting', arrival, mine }
  end
end
local answer = grant_now(tonumber(state[2] or 0))
-- if it was granted ahead of lower priorities, it may end before the time at which they are due to be looked at
reschedule(lock, weight, reap(lock))
return answer
