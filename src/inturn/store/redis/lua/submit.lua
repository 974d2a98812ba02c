#!lua
-- Put a message into a lane, unless it is there already or was committed before.
-- KEYS  lanes state mail msgs fence processes alarms era, mark
-- ARGV  prefix key, ident body rank ttl_ms limit_ms late_ms(0: none) cap(0: none) busy(queue|reject) keep_ms
--       call deadline_ms
-- returns  accepted position(0: nothing is ahead of it) | duplicate result | pending
--          | busy token since_ms waiting stopped | full waiting | stale
-- include clock partition tell
local key, ident = ARGV[2], ARGV[3]
local mark = redis.call('GET', KEYS[9])
if mark then return { 'duplicate', mark } end
if redis.call('HEXISTS', KEYS[4], ident) == 1 then return { 'pending' } end
-- include lane advance accept
local letter = redis.call('HGET', prefix .. 'letters', key .. '\0' .. ident)
-- a repeat, after the first attempt has come to a bad end already
if letter and cmsgpack.unpack(letter)[3][CALL_OF] == ARGV[12] then return { 'accepted', 0 } end
local lane = read_lane(key)
if lane and lane[HOLDER] ~= '' and not is_leased(lane) then
  advance(key, lane)
  lane = read_lane(key)
end
local waiting = redis.call('ZCARD', KEYS[3])
if lane and ARGV[10] == 'reject' then
  return { 'busy', lane[HOLDER], now - lane[BEGAN], waiting, lane[STOPPED] }
end
local cap, late = tonumber(ARGV[9]), tonumber(ARGV[8])
if cap > 0 and waiting >= cap then return { 'full', waiting } end
local ahead = waiting + (lane and lane[HOLDER] ~= '' and 1 or 0)
lane = lane or new_lane()
local message = new_message(ARGV[5], ARGV[4], tonumber(ARGV[6]), tonumber(ARGV[7]), late > 0 and now + late or 0, '')
message[CALL_OF] = ARGV[12]
accept(key, lane, ident, message, tonumber(ARGV[11]), not letter)
if late > 0 then redis.call('ZADD', prefix .. 'lates', now + late, key .. '\0' .. ident) end
stir(key, lane, ident)
return { 'accepted', ahead }
