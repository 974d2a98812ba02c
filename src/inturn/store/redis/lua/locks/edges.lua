#!lua flags=no-writes
-- Shows what each of these nodes waits for, and who is in its way. A node is an owner of locks, or the token of a turn.
-- KEYS  waits
-- ARGV  prefix, owners... deadline_ms
-- returns  edges, a list of {owner name token arrival age_ms needs_all(0|1) ahead reported_ms(0: by nobody) holder}, and a
--          list of {name holders queue}. Of a wait for a lane, `holder` has it; of one for a lock the holders have it (''
--          if it ends by itself), and the first `ahead` of the queue stand before this one. needs_all: not one of them may stay
-- include clock partition lock lane
local edges, locks, shown = {}, {}, {}

-- Returns what all waits for one lock share. It is read once: thousands may wait for the same name.
local function shared_by_waits(name)
  local known = locks[name]
  if known then return known end
  local lock = lock_named(name)
  known = { lock = lock, capacity = tonumber(redis.call('HGET', lock.hash, 'cap')), ranks = {} }
  locks[name] = known
  -- of more holders than this we do not know which ones matter, so nobody is said to be stuck behind them
  if not known.capacity or redis.call('HLEN', lock.hash) > limits.MAX_HOLDERS + 2 then
    known.capacity = nil
    return known
  end
  local holders, queue = {}, {}
  -- a grant that ends by itself is nobody's: whatever its owner does, it is over then
  for _, grant in pairs(grants_of(lock)) do holders[#holders + 1] = grant[ENDS] > 0 and '' or grant[OWNER] end
  for _, member in ipairs(redis.call('ZRANGE', lock.queue, 0, limits.MAX_AHEAD - 1)) do
    local other = member:sub(23)
    local place = read_place(lock, other)
    known.ranks[other] = #queue
    if place then queue[#queue + 1] = place[OWNER] end
  end
  known.length = #queue
  shown[#shown + 1] = { name, holders, queue }
  return known
end

local function wait_for_lock(owner, name, token, reported)
  local known = shared_by_waits(name)
  local place = known.capacity and read_place(known.lock, token)
  if not place then return end
  edges[#edges + 1] = { owner, name, token, place[PLACE_ARRIVAL], now - place[PLACE_SINCE],
    place[WEIGHT] == known.capacity and 1 or 0, known.ranks[token] or known.length, reported, '' }
end

-- Whoever waits in a lane waits for its holder; those ahead in the mailbox wait for it too.
local function wait_for_lane(owner, key, token, ident, arrival, reported)
  local lane = read_lane(key)
  if lane and is_leased(lane) and lane[HOLDER] ~= token
    and (lane[RUNNING] == ident or redis.call('HEXISTS', prefix .. 'msgs:' .. key, ident) == 1) then
    edges[#edges + 1] = { owner, key, token, arrival, now - math.floor(arrival / 1000), 1, 0, reported, lane[HOLDER] }
  end
end

for i = FIRST.owners, LAST.owners do
  local owner = ARGV[i]
  local waits = waits_of(owner)
  for _, member in ipairs(redis.call('ZRANGEBYLEX', KEYS.waits, '[' .. waits .. '\0', '(' .. waits .. '\1')) do
    local token, name = member:sub(#waits + 2):match('^(%Z*)%z(.*)$')
    wait_for_lock(owner, name, token, 0)
  end
  local report = redis.call('GET', prefix .. 'awaits:' .. owner)
  local reported, its = unpack(report and cmsgpack.unpack(report) or { 0, {} })
  for _, wait in ipairs(its) do
    local token, name, ident, arrival = unpack(wait)
    if ident == '' then
      wait_for_lock(owner, name, token, reported)
    else
      wait_for_lane(owner, name, token, ident, arrival, reported)
    end
  end
end
return { 'edges', edges, shown }
