#!lua
-- Begins an inline turn, asks again after a lost reply, or confirms an offered turn: always the same call.
-- KEYS  lanes state mail msgs fence processes alarms era, mark
-- ARGV  prefix key process ttl_ms limit_ms keep_ms, token ident has_id(0|1) busy(wait|reject) cap(0: none)
--       rule(of its policies, only `interrupt` has an effect here) shares deadline_ms
-- returns  granted fence state(false: none) | waiting position | duplicate result | pending
--          | busy token since_ms waiting stopped | full waiting | stale
-- include clock partition
local key, token, ident = ARGV.key, ARGV.token, ARGV.ident
if ARGV.has_id == '1' then
  local mark = redis.call('GET', KEYS.mark)
  if mark then return { 'duplicate', mark } end
end
local ttl, limit = tonumber(ARGV.ttl_ms), tonumber(ARGV.limit_ms)
local packed = redis.call('HGET', KEYS.lanes, key)
seen_now(ARGV.process)
if not packed and ARGV.shares == '' then
  local fence, allows = tick(), tonumber(ARGV.rule:match('^%a+ %d+ %d+ %d+ (%d)') or 0)
  redis.call('HSET', KEYS.lanes, key, cmsgpack.pack({ token, fence, ttl, now + limit + ttl, 0, now, ident, '', '', '',
    tonumber(ARGV.keep_ms), '', allows, 0, '', 0, '' }))
  redis.call('SPUBLISH', prefix .. 'watch:' .. key, string.format('begin %.0f 1 ', fence) .. ident)
  return { 'granted', fence, redis.call('GET', KEYS.state) }
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
  return { 'granted', lane[GRANTED], redis.call('GET', KEYS.state) }
end
local message = read_message(key, ident)
if message and message[CALLER] == token then
  local ahead = redis.call('ZRANK', KEYS.mail, mail_member(ident, message))
  if ahead then return { 'waiting', ahead } end
  redis.call('HDEL', KEYS.msgs, ident) -- the mailbox was evicted: it queues anew
end

-- include share advance accept
if lane and not is_leased(lane) then
  advance(key, lane)
  lane, message = read_lane(key), read_message(key, ident)
end
if message or (lane and lane[RUNNING] == ident) then return { 'pending' } end
local mine = new_message(NO_PRIORITY, '', ttl, limit, 0, token, ARGV.rule, ARGV.shares)
local held_until = lane and 0 or shared_until(ARGV.shares)
if not lane and held_until == 0 then
  lane = new_lane()
  lane[KEEP], mine[ATTEMPTS] = tonumber(ARGV.keep_ms), 1
  lease_to(key, lane, token, ident, mine)
  save_lane(key, lane)
  return { 'granted', lane[GRANTED], redis.call('GET', KEYS.state) }
end
lane = lane or new_lane() -- nobody has the lane, but someone else has the plain key
local waiting, cap = redis.call('ZCARD', KEYS.mail), tonumber(ARGV.cap)
if ARGV.busy == 'reject' then return { 'busy', lane[HOLDER], now - lane[BEGAN], waiting, lane[STOPPED] } end
if cap > 0 and waiting >= cap then return { 'full', waiting } end
-- an offer that lapsed left a note, and the token starts afresh; it interrupted what it could when it first came
local is_back = redis.call('DEL', prefix .. 'lost:' .. token) == 1
if is_back or ARGV.rule:sub(1, 9) ~= 'interrupt' then
  accept(key, lane, ident, mine, tonumber(ARGV.keep_ms))
else
  -- include burst arrive
  arrive(key, lane, ident, mine, tonumber(ARGV.keep_ms), false, true)
  waiting = redis.call('ZRANK', KEYS.mail, mail_member(ident, mine))
end
stir(key, lane, ident)
return { 'waiting', waiting }
