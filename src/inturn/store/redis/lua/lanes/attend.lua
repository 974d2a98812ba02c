#!lua flags=allow-oom
-- Tells what became of a message. If that is still open, this process will be told.
-- KEYS  lanes state mail msgs fence processes alarms era letters inbox, mark
-- ARGV  prefix key process letter_ms, ident deadline_ms
-- returns  done mark | dead attempts errors | pending | unknown | stale
-- include clock partition lane letters
local key, process, ident = ARGV.key, ARGV.process, ARGV.ident
redis.call('SREM', KEYS.inbox, 'settled ' .. process .. '#0 ' .. key .. '\0' .. ident)
local mark = redis.call('GET', KEYS.mark)
if mark and mark:byte() == 1 then mark = redis.call('GET', prefix .. 'mark:' .. key .. '\0' .. mark:sub(2)) end
if mark then return { 'done', mark } end

local function with_me(processes)
  if (' ' .. processes .. ' '):find(' ' .. process .. ' ', 1, true) then return processes end
  return processes .. ' ' .. process
end

local message = read_message(key, ident)
if message then
  message[WATCHERS] = with_me(message[WATCHERS])
  redis.call('HSET', KEYS.msgs, ident, cmsgpack.pack(message))
  return { 'pending' }
end
local lane = read_lane(key)
if lane and lane[RUNNING] == ident then
  lane[AWAITED] = with_me(lane[AWAITED])
  save_lane(key, lane)
  -- if its caller dies, nobody else may ever ask for this lane
  redis.call('ZADD', KEYS.alarms, 'LT', lane_ends(lane), key)
  return { 'pending' }
end
local packed = redis.call('HGET', KEYS.letters, key .. '\0' .. ident)
local letter = packed and cmsgpack.unpack(packed)
if letter and letter_until(letter, tonumber(ARGV.letter_ms)) > now then
  message = letter[3]
  return { 'dead', message[ATTEMPTS], message[ERRORS] }
end
return { 'unknown' }
