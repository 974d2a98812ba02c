#!lua flags=allow-oom
-- Gives back the turns of a claim that nobody took, as if they had not been given.
-- KEYS  lanes alarms fence processes era, note
-- ARGV  prefix call note_ms deadline_ms
-- returns  unclaimed count | stale
-- include clock partition tell lane share advance
local count, before = 0, redis.call('GET', KEYS.note)
-- the note stays: bytes of the claim that are still under way find it, and give nothing
redis.call('SET', KEYS.note, cmsgpack.pack({}), 'PX', ARGV.note_ms)
local pairs_given = before and cmsgpack.unpack(before)
if not pairs_given then
  -- The store was away for longer than notes live: look for the lanes that the call's tokens hold.
  pairs_given = {}
  local all = redis.call('HGETALL', KEYS.lanes)
  for i = 1, #all, 2 do
    if all[i + 1]:find(ARGV.call .. '.', 1, true) then
      pairs_given[#pairs_given + 1] = { all[i], cmsgpack.unpack(all[i + 1])[HOLDER] }
    end
  end
end
for _, pair in ipairs(pairs_given) do
  local key, lane = pair[1], read_lane(pair[1])
  if lane and lane[HOLDER] == pair[2] and pair[2]:sub(1, #ARGV.call + 1) == ARGV.call .. '.' then
    local ident, message = lane[RUNNING], read_message(key, lane[RUNNING])
    message[ATTEMPTS] = message[ATTEMPTS] - 1
    put(key, ident, message)
    end_lease(lane)
    advance(key, lane)
    count = count + 1
  elseif lane and lane[YIELDS] == pair[2] then
    stop_yielding(lane)
    advance(key, lane)
  end
end
return { 'unclaimed', count }
