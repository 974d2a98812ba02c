#!lua flags=allow-oom
-- A lane that was stopped goes on. The message it was parked for has all its attempts again.
-- KEYS  lanes state mail msgs fence processes alarms era
-- ARGV  prefix key, deadline_ms
-- returns  resumed | idle (it was not stopped) | stale
-- include clock partition tell lane share advance
local key = ARGV[2]
local lane = read_lane(key)
if not lane or lane[STOPPED] == '' then return { 'idle' } end
local head = lane[STOPPED] == 'parked' and redis.call('ZRANGE', KEYS[3], 0, 0)[1]
if head then
  local message = read_message(key, head:sub(23))
  message[ATTEMPTS], message[AFTER] = 0, 0
  put(key, head:sub(23), message)
end
lane[STOPPED], lane[WHY] = '', ''
advance(key, lane)
return { 'resumed' }
