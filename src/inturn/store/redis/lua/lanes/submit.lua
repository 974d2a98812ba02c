#!lua
-- Put a message into a lane, unless it is there already or was committed before. What it does there is up to its rule.
-- KEYS  lanes state mail msgs fence processes alarms era, mark
-- ARGV  prefix key, ident body rank ttl_ms limit_ms late_ms(0: none) cap(0: none) busy(queue|reject) keep_ms
--       call rule delay_ms shares deadline_ms
-- returns  accepted position(0: nothing is ahead of it) | delayed | duplicate mark | pending
--          | busy token since_ms waiting stopped | full waiting | stale
-- include clock partition tell
local key, ident = ARGV[2], ARGV[3]
local mark = redis.call('GET', KEYS[9])
if mark and mark:byte() == 1 then mark = redis.call('GET', prefix .. 'mark:' .. key .. '\0' .. mark:sub(2)) end
if mark then return { 'duplicate', mark } end
if redis.call('HEXISTS', KEYS[4], ident) == 1 then return { 'pending' } end
-- include lane share advance accept
local letter = redis.call('HGET', prefix .. 'letters', key .. '\0' .. ident)
-- a repeat, after the first attempt has come to a bad end already
if letter and cmsgpack.unpack(letter)[3][CALL_OF] == ARGV[12] then return { 'accepted', 0 } end
local lane = read_lane(key)
if lane and lane[HOLDER] ~= '' and not is_leased(lane) then
  advance(key, lane)
  lane = read_lane(key)
end
local waiting = redis.call('ZCARD', KEYS[3])
if ARGV[10] == 'reject' and (lane or shared_until(ARGV[15]) > 0) then
  lane = lane or new_lane()
  return { 'busy', lane[HOLDER], now - lane[BEGAN], waiting, lane[STOPPED] }
end
local cap, late, delay = tonumber(ARGV[9]), tonumber(ARGV[8]), tonumber(ARGV[14])
if delay > 0 then waiting = redis.call('HLEN', KEYS[4]) end -- the delayed ones are in no mailbox
if cap > 0 and waiting >= cap then return { 'full', waiting } end
local ahead = waiting + (lane and lane[HOLDER] ~= '' and 1 or 0)
lane = lane or new_lane()
local late_at = late > 0 and now + delay + late or 0
local message = new_message(ARGV[5], ARGV[4], tonumber(ARGV[6]), tonumber(ARGV[7]), late_at, '', ARGV[13], ARGV[15])
message[CALL_OF] = ARGV[12]
if late > 0 then redis.call('ZADD', prefix .. 'lates', late_at, key .. '\0' .. ident) end
local has_moved = false
if ARGV[13] == '' and delay == 0 then
  accept(key, lane, ident, message, tonumber(ARGV[11]), not letter)
else
  -- include burst arrive
  if delay > 0 then
    postpone(key, lane, ident, message, tonumber(ARGV[11]), delay)
    return { 'delayed' }
  end
  has_moved = arrive(key, lane, ident, message, tonumber(ARGV[11]), not letter, true)
end
stir(key, lane, ident, has_moved)
return { 'accepted', ahead }
