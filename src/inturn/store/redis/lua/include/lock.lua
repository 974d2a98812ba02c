-- One lock. A name has a capacity and every grant a weight (mutex: 1 of 1).
--   lock:<name>    hash: cap, used, and token -> packed grant
--   queue:<name>   zset, all scores 0: 'PPPP AAAAAAAAAAAAAAAA token', so that its order is priority, then arrival
--   places:<name>  hash: token -> packed place
-- Without grants and places, none of these keys exists.
--   a grant: 1 owner, 2 weight, 3 fence, 4 arrival, 5 ttl, 6 fixed end, 7 lapses if unconfirmed, 8 since, 9 order of the last
--     extend
--   a place: 1 owner, 2 weight, 3 arrival, 4 ttl, 5 life, 6 priority, 7 since
local OWNER, WEIGHT, FENCE, ARRIVAL, TTL, ENDS, LAPSES, SINCE, EXTENDED = 1, 2, 3, 4, 5, 6, 7, 8, 9
local PLACE_ARRIVAL, PLACE_TTL, PLACE_LIFE, PRIORITY, PLACE_SINCE = 3, 4, 5, 6, 7

local function lock_named(name)
  return {
    name = name,
    hash = prefix .. 'lock:' .. name,
    queue = prefix .. 'queue:' .. name,
    places = prefix .. 'places:' .. name,
  }
end

-- Returns the text that all waits of this owner begin with, and no others.
local function waits_of(owner)
  return #owner .. ':' .. owner
end

-- Returns when the grant ends if nothing renews it.
local function grant_ends(token, grant)
  local ends = math.huge
  if grant[TTL] > 0 then ends = seen_at(process_of(token)) + grant[TTL] end
  if grant[ENDS] > 0 then ends = math.min(ends, grant[ENDS]) end
  if grant[LAPSES] > 0 then ends = math.min(ends, grant[LAPSES]) end
  return ends
end

local function save_grant(lock, token, grant)
  redis.call('HSET', lock.hash, token, cmsgpack.pack(grant))
end

-- Returns the milliseconds until the fixed end; 0: there is none.
local function life_left(grant)
  if grant[ENDS] > 0 then return math.max(1, grant[ENDS] - now) end
  return 0
end

-- Returns nil for a place that is gone. Any key of a lock may be: evicted, if its owner allows that, or deleted by hand.
local function read_place(lock, token)
  local packed = redis.call('HGET', lock.places, token)
  return packed and cmsgpack.unpack(packed)
end

local function grants_of(lock)
  local flat, grants = redis.call('HGETALL', lock.hash), {}
  for i = 1, #flat, 2 do
    if flat[i] ~= 'cap' and flat[i] ~= 'used' then grants[flat[i]] = cmsgpack.unpack(flat[i + 1]) end
  end
  return grants
end
