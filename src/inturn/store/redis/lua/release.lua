#!lua flags=allow-oom
-- Give back a grant, or leave the queue. Who comes next is granted in the same step.
-- include clock partition lock settle
-- KEYS  lock queue places fence processes names waits
-- ARGV  prefix deadline_ms name token
-- returns  released|left|lost mine: the grants that this gave to the same process (token fence arrival life_left_ms)
--          | gone: neither held nor waiting (a repeat) | lost: it was taken away before | stale
local name, token = ARGV[3], ARGV[4]
local lock = lock_named(name)

local packed = redis.call('HGET', lock.hash, token)
if packed then
  local grant = cmsgpack.unpack(packed)
  local answer = now < grant_ends(token, grant) and 'released' or 'lost'
  if grant[GRANT.lapses] > 0 then
    redis.call('SREM', prefix .. 'inbox:' .. process_of(token), 'granted ' .. token .. ' ' .. name)
  end
  redis.call('HDEL', lock.hash, token)
  local used = redis.call('HINCRBY', lock.hash, 'used', -grant[GRANT.weight])
  if redis.call('EXISTS', lock.queue) == 0 then
    if used == 0 then reschedule(lock, 0, 0) end
    return { answer, {} }
  end
  local mine, soonest
  mine, soonest, used = grant_heads(lock, process_of(token))
  reschedule(lock, used, soonest)
  return { answer, mine }
end

local place = redis.call('HGET', lock.places, token)
if place then
  remove_place(lock, token, cmsgpack.unpack(place))
  local mine = settle(lock, process_of(token))
  return { 'left', mine }
end
-- A lease that was taken away left a note; one whose partition forgot its process went with the memory.
if redis.call('EXISTS', prefix .. 'lost:' .. token) == 1 or seen_at(process_of(token)) == 0 then
  return { 'lost', {} }
end
return { 'gone', {} }
