#!lua flags=allow-oom
-- What became of a message; if that is still open, this process will be told.
-- KEYS  lanes state mail msgs fence processes alarms era letters inbox, mark
-- ARGV  prefix key process, ident deadline_ms
-- returns  done mark | dead attempts errors | pending | unknown | stale
-- include clock partition lane
local key, process, ident = ARGV[2], ARGV[3], ARGV[4]
redis.call('SREM', KEYS[10], 'settled ' .. process .. '#0 ' .. key .. '\0' .. ident)
local mark = redis.call('GET', KEYS[11])
if mark and mark:byte() == 1 then mark = redis.call('GET', prefix .. 'mark:' .. key .. '\0' .. mark:sub(2)) end
if mark then return { 'done', mark } end

local function with_me(processes)
  if (' ' .. processes .. ' '):find(' ' .. process .. ' ', 1, true) then return processes end
  return processes .. ' ' .. process
end

local message = read_message(key, ident)
if message then
  message[WATCHERS] = with_me(message[WATCHERS])
  redis.call('HSET', KEYS[4], ident, cmsgpack.pack(message))
  return { 'pending' }
end
local lane = read_lane(key)
if lane and lane[RUNNING] == ident then
  lane[AWAITED] = with_me(lane[AWAITED])
  save_lane(key, lane)
  -- if its caller dies, nobody else may ever ask for this lane
  redis.call('ZADD', KEYS[7], 'LT', lane_ends(lane), key)
  return { 'pending' }
end
local letter = redis.call('HGET', KEYS[9], key .. '\0' .. ident)
if letter then
  message = cmsgpack.unpack(letter)[3]
  return { 'dead', message[ATTEMPTS], message[ERRORS] }
end
return { 'unknown' }
