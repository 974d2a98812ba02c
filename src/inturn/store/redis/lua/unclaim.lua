#!lua flags=allow-oom
-- Whatever this claim was given and nobody took is given back, as if it had not been given.
-- KEYS  lanes alarms fence processes era, note
-- ARGV  prefix call note_ms deadline_ms
-- returns  unclaimed count | stale
-- include clock partition tell lane advance
local count, before = 0, redis.call('GET', KEYS[6])
-- the note stays, so that bytes of the claim which are still under way find it and give nothing
redis.call('SET', KEYS[6], cmsgpack.pack({}), 'PX', ARGV[3])
for _, pair in ipairs(before and cmsgpack.unpack(before) or {}) do
  local key, lane = pair[1], read_lane(pair[1])
  if lane and lane[HOLDER] == pair[2] then
    local ident, message = lane[RUNNING], read_message(pair[1], lane[RUNNING])
    message[ATTEMPTS] = message[ATTEMPTS] - 1
    put(key, ident, message)
    end_lease(lane)
    advance(key, lane)
    count = count + 1
  end
end
return { 'unclaimed', count }
