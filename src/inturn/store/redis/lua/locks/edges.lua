#!lua flags=no-writes
-- Shows what each of these owners waits for, and which owners are in its way.
-- KEYS  waits
-- ARGV  prefix, owners... deadline_ms
-- returns  edges, then a list of {owner name token arrival age_ms needs_all(0|1) blockers}
--          blockers hold the lock, or wait ahead in its queue; needs_all: not one of them may stay
-- include clock partition lock
local edges = {}
for i = FIRST.owners, LAST.owners do
  local owner = ARGV[i]
  local waits = waits_of(owner)
  for _, member in ipairs(redis.call('ZRANGEBYLEX', KEYS.waits, '[' .. waits .. '\0', '(' .. waits .. '\1')) do
    local token, name = member:sub(#waits + 2):match('^(%Z*)%z(.*)$')
    local lock = lock_named(name)
    local place = cmsgpack.unpack(redis.call('HGET', lock.places, token))
    local blockers, capacity = {}, tonumber(redis.call('HGET', lock.hash, 'cap'))
    for _, grant in pairs(grants_of(lock)) do blockers[#blockers + 1] = grant[OWNER] end
    for _, ahead in ipairs(redis.call('ZRANGE', lock.queue, 0, limits.MAX_AHEAD - 1)) do
      local other = ahead:sub(23)
      if other == token then break end
      blockers[#blockers + 1] = cmsgpack.unpack(redis.call('HGET', lock.places, other))[OWNER]
    end
    edges[#edges + 1] = { owner, name, token, place[PLACE_ARRIVAL], now - place[PLACE_SINCE],
      place[WEIGHT] == capacity and 1 or 0, blockers }
  end
end
return { 'edges', edges }
