#!lua flags=allow-oom
-- Gives back the turns of a claim that nobody took, as if they had not been given.
-- KEYS  lanes alarms fence processes era, note
-- ARGV  prefix call note_ms deadline_ms
-- returns  unclaimed count has_more(0|1: ask again, not all lanes have been looked at) | stale
-- include clock partition tell lane share advance
local count, noted = 0, redis.call('GET', KEYS.note)
local note = noted and cmsgpack.unpack(noted) or { from = '0' }
local pairs_given, cursor = note, '0'
if note.from then
  -- The claim has never run, or its note is gone: the store was away for longer than notes live, or evicted it. So look
  -- for lanes that the call's tokens hold. They all have an alarm. One call looks at a part of them, the next goes on.
  local part = redis.call('ZSCAN', KEYS.alarms, note.from, 'COUNT', limits.MAX_UNCLAIM)
  pairs_given, cursor = {}, part[1]
  for i = 1, #part[2], 2 do
    local key = part[2][i]
    local packed = redis.call('HGET', KEYS.lanes, key)
    if packed and packed:find(ARGV.call .. '.', 1, true) then
      pairs_given[#pairs_given + 1] = { key, cmsgpack.unpack(packed)[HOLDER] }
    end
  end
end
-- the note stays: bytes of the claim that are still under way find it, and give nothing
redis.call('SET', KEYS.note, cmsgpack.pack(cursor == '0' and {} or { from = cursor }), 'PX', ARGV.note_ms)
for _, pair in ipairs(pairs_given) do
  local key, lane = pair[1], read_lane(pair[1])
  if lane and lane[HOLDER] == pair[2] and pair[2]:sub(1, #ARGV.call + 1) == ARGV.call .. '.' then
    local ident, message = lane[RUNNING], read_message(key, lane[RUNNING])
    if message then
      message[ATTEMPTS] = message[ATTEMPTS] - 1
      put(key, ident, message)
    end
    end_lease(lane)
    advance(key, lane)
    count = count + 1
  elseif lane and lane[YIELDS] == pair[2] then
    stop_yielding(lane)
    advance(key, lane)
  end
end
return { 'unclaimed', count, cursor == '0' and 0 or 1 }
