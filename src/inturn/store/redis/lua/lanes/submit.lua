#!lua
-- Puts a message into a lane, unless it is there already or was committed before. Its rule says what it does there.
-- KEYS  lanes state mail msgs fence processes alarms era, mark
-- ARGV  prefix key, ident body rank ttl_ms limit_ms late_ms(0: none) cap(0: none) busy(queue|reject) keep_ms
--       call note_ms rule delay_ms shares group deadline_ms
-- returns  accepted position(0: nothing is ahead of it) | delayed | duplicate mark | pending
--          | busy token since_ms waiting stopped | full waiting | stale
-- include clock partition tell
local key, ident = ARGV.key, ARGV.ident
local refused = redis.call('GET', prefix .. 'note:' .. ARGV.call)
if refused then return cmsgpack.unpack(refused) end -- a repeat, or bytes that come after it: this call was refused
local mark = redis.call('GET', KEYS.mark)
if mark and mark:byte() == 1 then mark = redis.call('GET', prefix .. 'mark:' .. key .. '\0' .. mark:sub(2)) end
if mark then return { 'duplicate', mark } end
if redis.call('HEXISTS', KEYS.msgs, ident) == 1 then return { 'pending' } end
-- include lane share advance accept
local letter = redis.call('HGET', prefix .. 'letters', key .. '\0' .. ident)
-- a repeat; what the first attempt brought has become a dead letter already
if letter and cmsgpack.unpack(letter)[3][CALL_OF] == ARGV.call then return { 'accepted', 0 } end

-- The caller is told that its message will not run. Bytes of another attempt that are still under way find the note.
local function refuse(...)
  redis.call('SET', prefix .. 'note:' .. ARGV.call, cmsgpack.pack({ ... }), 'PX', ARGV.note_ms)
  return { ... }
end

local lane = read_lane(key)
if lane and lane[HOLDER] ~= '' and not is_leased(lane) then
  advance(key, lane)
  lane = read_lane(key)
end
local waiting = redis.call('ZCARD', KEYS.mail)
if ARGV.busy == 'reject' and (lane or shared_until(ARGV.shares) > 0) then
  lane = lane or new_lane()
  return refuse('busy', lane[HOLDER], now - lane[BEGAN], waiting, lane[STOPPED])
end
local cap, late, delay = tonumber(ARGV.cap), tonumber(ARGV.late_ms), tonumber(ARGV.delay_ms)
if delay > 0 then waiting = redis.call('HLEN', KEYS.msgs) end -- the delayed ones are in no mailbox
if cap > 0 and waiting >= cap then return refuse('full', waiting) end
local ahead = waiting + (lane and lane[HOLDER] ~= '' and 1 or 0)
lane = lane or new_lane()
local late_at = late > 0 and now + delay + late or 0
local ttl, limit = tonumber(ARGV.ttl_ms), tonumber(ARGV.limit_ms)
local message = new_message(ARGV.rank, ARGV.body, ttl, limit, late_at, '', ARGV.rule, ARGV.shares, ARGV.group)
message[CALL_OF] = ARGV.call
if late > 0 then redis.call('ZADD', prefix .. 'lates', late_at, key .. '\0' .. ident) end
local has_moved = false
if ARGV.rule == '' and delay == 0 then
  accept(key, lane, ident, message, tonumber(ARGV.keep_ms), not letter)
else
  -- include burst arrive
  if delay > 0 then
    postpone(key, lane, ident, message, tonumber(ARGV.keep_ms), delay)
    return { 'delayed' }
  end
  has_moved = arrive(key, lane, ident, message, tonumber(ARGV.keep_ms), not letter, true)
end
stir(key, lane, ident, has_moved)
return { 'accepted', ahead }
