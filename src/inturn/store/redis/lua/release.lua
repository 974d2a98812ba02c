#!lua flags=allow-oom
-- Give back a grant, or leave the queue. Who comes next is granted in the same step.
-- KEYS  lock queue places fence processes names waits due era
-- ARGV  prefix name token fence(0: not held, as far as we know) deadline_ms
-- returns  released | left (it only waited) | lost (it was taken away before) | gone (neither: a repeat) | stale;
--          and a list, if this granted something to places of the same process: {token fence arrival life_left_ms}
-- include clock partition lock
local name, token = ARGV[2], ARGV[3]
local state = redis.call('HMGET', KEYS[1], 'used', token)
local grant, answer
if state[2] then
  grant = cmsgpack.unpack(state[2])
  answer = now < grant_ends(token, grant) and 'released' or 'lost'
  if tonumber(state[1]) == grant[WEIGHT] and grant[LAPSES] == 0 and redis.call('EXISTS', KEYS[2]) == 0 then
    redis.call('DEL', KEYS[1])
    redis.call('SREM', KEYS[6], name)
    return { answer }
  end
end

-- include tell settle
local lock = lock_named(name)
if grant then
  if grant[LAPSES] > 0 then untell(lock, token) end
  redis.call('HDEL', lock.hash, token)
  redis.call('HINCRBY', lock.hash, 'used', -grant[WEIGHT])
  local mine, soonest, used = grant_heads(lock, process_of(token))
  reschedule(lock, used, soonest)
  return { answer, mine }
end
local place = redis.call('HGET', lock.places, token)
if place then
  remove_place(lock, token, cmsgpack.unpack(place))
  local mine = settle(lock, process_of(token))
  return { 'left', mine }
end
-- A lease that was taken away left a note; one that is older than this memory went with another.
local fence, era = tonumber(ARGV[4]), tonumber(redis.call('GET', KEYS[9]) or math.huge)
if redis.call('EXISTS', prefix .. 'lost:' .. token) == 1 or (fence > 0 and fence < era) then
  return { 'lost' }
end
return { 'gone' }
