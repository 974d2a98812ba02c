#!lua flags=no-writes
-- Shows one lane as it is now, with its first `limit` waiting messages and as many delayed ones. Only those are read.
-- KEYS  lanes state mail msgs fence processes alarms era
-- ARGV  prefix key, limit deadline_ms
-- returns  lane token fence since_ms ident stopped why ready waiting state(false: none) state_ttl_ms messages | stale
--          a message, the running ones first: ident rank attempts age_ms due_in_ms is_inline(0|1) body errors
--          place(running|waiting|delayed) lead('': itself)
-- include clock partition lane waiting
local key = ARGV.key
local lane, messages = read_lane(key) or new_lane(), {}

local look_at
function look_at(ident, place, lead)
  local message = read_message(key, ident)
  if message then
    messages[#messages + 1] = { ident, message[RANK], message[ATTEMPTS], now - message[ACCEPTED],
      math.max(0, message[AFTER] - now), message[CALLER] ~= '' and 1 or 0, message[BODY], message[ERRORS], place, lead }
    for _, other in ipairs(others_of(message)) do look_at(other, place, ident) end
  end
end

local held = is_leased(lane)
look_at(lane[RUNNING], held and 'running' or 'waiting', '') -- a message whose holder is gone waits for the next one
for _, member in ipairs(redis.call('ZRANGE', KEYS.mail, 0, ARGV.limit - 1)) do
  look_at(member:sub(23), 'waiting', '')
end
for _, member in ipairs(redis.call('ZRANGE', prefix .. 'delayed:' .. key, 0, ARGV.limit - 1)) do
  look_at(member:sub(18), 'delayed', '')
end
return { 'lane', held and lane[HOLDER] or '', held and lane[GRANTED] or 0, held and now - lane[BEGAN] or 0,
  held and lane[RUNNING] or '', lane[STOPPED], lane[WHY], lane[READY]:match('%Z*'), waiting_in(key, lane),
  redis.call('GET', KEYS.state), redis.call('PTTL', KEYS.state), messages }
