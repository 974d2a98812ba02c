#!lua
-- Begin an inline turn, ask again after a lost reply, or confirm an offered turn: always the same call.
-- KEYS  lanes state mail msgs fence processes alarms era, mark
-- ARGV  prefix key process ttl_ms limit_ms keep_ms, token ident has_id(0|1) busy(wait|reject) cap rule shares deadline_ms
--       (of the policies that a rule can name, only `interrupt` means something here)
-- returns  granted fence state(false: none) | waiting position | duplicate result | pending
--          | busy token since_ms waiting stopped | full waiting | stale
-- include clock partition
local key, token, ident = ARGV[2], ARGV[7], ARGV[8]
if ARGV[9] == '1' then
  local mark = redis.call('GET', KEYS[9])
  if mark then return { 'duplicate', mark } end
end
local ttl, limit = tonumber(ARGV[4]), tonumber(ARGV[5])
local packed = redis.call('HGET', KEYS[1], key)
seen_now(ARGV[3])
if not packed and ARGV[13] == '' then
  local fence, allows = tick(), tonumber(ARGV[12]:match('^%a+ %d+ %d+ %d+ (%d)') or 0)
  redis.call('HSET', KEYS[1], key, cmsgpack.pack({ token, fence, ttl, now + limit + ttl, 0, now, ident, '', '', '',
    tonumber(ARGV[6]), '', allows, 0, '', 0, '' }))
  redis.call('SPUBLISH', prefix .. 'watch:' .. key, string.format('begin %.0f 1 ', fence) .. ident)
  return { 'granted', fence, redis.call('GET', KEYS[2]) }
end

-- include lane
local lane = packed and whole_lane(packed)
-- include tell
if lane and lane[HOLDER] == token then
  if lane[LAPSE] > 0 then
    lane[LAPSE] = 0
    untell(token, turn_notice(token, key))
    save_lane(key, lane)
  end
  return { 'granted', lane[GRANTED], redis.call('GET', KEYS[2]) }
end
local message = read_message(key, ident)
if message and message[CALLER] == token then
  return { 'waiting', redis.call('ZRANK', KEYS[3], mail_member(ident, message)) }
end

-- include share advance accept
if lane and not is_leased(lane) then
  advance(key, lane)
  lane, message = read_lane(key), read_message(key, ident)
end
if message or (lane and lane[RUNNING] == ident) then return { 'pending' } end
local mine = new_message('1000', '', ttl, limit, 0, token, ARGV[12], ARGV[13])
local held_until = lane and 0 or shared_until(ARGV[13])
if not lane and held_until == 0 then
  lane = new_lane()
  lane[KEEP], mine[ATTEMPTS] = tonumber(ARGV[6]), 1
  lease_to(key, lane, token, ident, mine)
  save_lane(key, lane)
  return { 'granted', lane[GRANTED], redis.call('GET', KEYS[2]) }
end
lane = lane or new_lane() -- nobody has the lane, but someone else has the plain key
local waiting, cap = redis.call('ZCARD', KEYS[3]), tonumber(ARGV[11])
if ARGV[10] == 'reject' then return { 'busy', lane[HOLDER], now - lane[BEGAN], waiting, lane[STOPPED] } end
if cap > 0 and waiting >= cap then return { 'full', waiting } end
-- an offer that lapsed left a note, and the token begins anew; what it interrupted when it came, it did then
local is_back = redis.call('DEL', prefix .. 'lost:' .. token) == 1
if is_back or ARGV[12]:sub(1, 9) ~= 'interrupt' then
  accept(key, lane, ident, mine, tonumber(ARGV[6]))
else
  -- include burst arrive
  arrive(key, lane, ident, mine, tonumber(ARGV[6]), false, true)
  waiting = redis.call('ZRANK', KEYS[3], mail_member(ident, mine))
end
stir(key, lane, ident)
return { 'waiting', waiting }
