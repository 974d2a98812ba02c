#!lua flags=allow-oom
-- Lets a lane that was stopped go on. The message that it was parked for has all its attempts again.
-- KEYS  lanes state mail msgs fence processes alarms era, note
-- ARGV  prefix key, note_ms deadline_ms
-- returns  resumed | idle (it was not stopped) | stale
-- include clock partition note tell lane share advance
local key = ARGV.key
local lane = read_lane(key)
if not lane or lane[STOPPED] == '' then return answer('idle') end
local head = lane[STOPPED] == 'parked' and redis.call('ZRANGE', KEYS.mail, 0, 0)[1]
local message = head and read_message(key, head:sub(23))
if message then
  message[ATTEMPTS], message[AFTER] = 0, 0
  put(key, head:sub(23), message)
end
lane[STOPPED], lane[WHY] = '', ''
advance(key, lane)
return answer('resumed')
