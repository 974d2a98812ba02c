#!lua flags=no-writes
-- What one lock looks like now.
-- include clock partition lock
-- KEYS  lock queue places
-- ARGV  prefix deadline_ms name
-- returns  held capacity grants {token owner weight fence arrival held_ms ends_in_ms(0: with its process)}
--          waiters in order {token owner weight priority arrival waited_ms} | free | stale
local lock = lock_named(ARGV[3])
local capacity = redis.call('HGET', lock.hash, 'cap')
if not capacity then return { 'free' } end
local grants, waiters = {}, {}
for token, grant in pairs(grants_of(lock)) do
  if now < grant_ends(token, grant) then
    grants[#grants + 1] = { token, grant[GRANT.owner], grant[GRANT.weight], grant[GRANT.fence],
      grant[GRANT.arrival], now - grant[GRANT.since], life_left(grant) }
  end
end
for _, member in ipairs(redis.call('ZRANGE', lock.queue, 0, 999)) do
  local token = member:sub(23)
  local place = cmsgpack.unpack(redis.call('HGET', lock.places, token))
  waiters[#waiters + 1] = { token, place[PLACE.owner], place[PLACE.weight], place[PLACE.priority],
    place[PLACE.arrival], now - place[PLACE.since] }
end
return { 'held', tonumber(capacity), grants, waiters }
