-- One lock. A name has a capacity and every grant a weight (mutex: 1 of 1).
--   lock:<name>    hash: cap, used, and token -> packed grant
--   queue:<name>   zset, all scores 0: 'PPPP AAAAAAAAAAAAAAAA token', so that its order is priority, then arrival
--   places:<name>  hash: token -> packed place
-- Without grants and places, none of these keys exists.
local function lock_named(name)
  return {
    name = name,
    hash = prefix .. 'lock:' .. name,
    queue = prefix .. 'queue:' .. name,
    places = prefix .. 'places:' .. name,
  }
end

local GRANT = { owner = 1, weight = 2, fence = 3, arrival = 4, ttl = 5, ends = 6, lapses = 7, since = 8, call = 9 }
local PLACE = { owner = 1, weight = 2, arrival = 3, ttl = 4, life = 5, priority = 6, since = 7 }

local function place_member(token, place)
  return string.format('%04d %016.0f %s', 1000 - place[PLACE.priority], place[PLACE.arrival], token)
end

-- When the grant ends if nothing renews it. 0: it has ended already, with its process.
local function grant_ends(token, grant)
  local ends = math.huge
  if grant[GRANT.ttl] > 0 then ends = seen_at(process_of(token)) + grant[GRANT.ttl] end
  if grant[GRANT.ends] > 0 then ends = math.min(ends, grant[GRANT.ends]) end
  if grant[GRANT.lapses] > 0 then ends = math.min(ends, grant[GRANT.lapses]) end
  return ends
end

local function save_grant(lock, token, grant)
  redis.call('HSET', lock.hash, token, cmsgpack.pack(grant))
end

-- Milliseconds until a fixed end; 0 means that there is none.
local function life_left(grant)
  if grant[GRANT.ends] > 0 then return math.max(1, grant[GRANT.ends] - now) end
  return 0
end

local function take_away(lock, token, grant, why)
  redis.call('HDEL', lock.hash, token)
  redis.call('HINCRBY', lock.hash, 'used', -grant[GRANT.weight])
  redis.call('SET', prefix .. 'lost:' .. token, why, 'PX', 60000)
  if grant[GRANT.lapses] > 0 then
    redis.call('SREM', prefix .. 'inbox:' .. process_of(token), 'granted ' .. token .. ' ' .. lock.name)
  end
  tell(process_of(token), 'lost ' .. token .. ' ' .. why .. '\n' .. lock.name)
end

local function grants_of(lock)
  local flat, grants = redis.call('HGETALL', lock.hash), {}
  for i = 1, #flat, 2 do
    if flat[i] ~= 'cap' and flat[i] ~= 'used' then grants[flat[i]] = cmsgpack.unpack(flat[i + 1]) end
  end
  return grants
end
