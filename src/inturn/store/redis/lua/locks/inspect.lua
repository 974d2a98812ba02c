#!lua flags=no-writes
-- Shows one lock as it is now.
-- KEYS  lock queue places
-- ARGV  prefix name deadline_ms
-- returns  held capacity grants {token owner weight fence arrival held_ms ends_in_ms(0: with its process)}
--          waiters in order {token owner weight priority arrival waited_ms} | free | stale
-- include clock partition lock
local lock = lock_named(ARGV.name)
local capacity = redis.call('HGET', lock.hash, 'cap')
if not capacity then return { 'free' } end
local grants, waiters = {}, {}
for token, grant in pairs(grants_of(lock)) do
  if now < grant_ends(token, grant) then
    grants[#grants + 1] = { token, grant[OWNER], grant[WEIGHT], grant[FENCE],
      grant[ARRIVAL], now - grant[SINCE], life_left(grant) }
  end
end
for _, member in ipairs(redis.call('ZRANGE', lock.queue, 0, limits.MAX_WAITERS - 1)) do
  local token = member:sub(23)
  local place = read_place(lock, token)
  if place then
    waiters[#waiters + 1] = { token, place[OWNER], place[WEIGHT], place[PRIORITY],
      place[PLACE_ARRIVAL], now - place[PLACE_SINCE] }
  end
end
return { 'held', tonumber(capacity), grants, waiters }
