#!lua flags=allow-oom
-- Cancels a message that waits or is delayed. One that runs, or has run in a burst, is left alone.
-- KEYS  lanes state mail msgs fence processes alarms era, note
-- ARGV  prefix key, ident window_ms note_ms deadline_ms
-- returns  cancelled | begun | ended (or it was never there) | stale
-- include clock partition note tell lane share advance accept burst arrive
local key, ident = ARGV.key, ARGV.ident
if redis.call('GET', prefix .. 'mark:' .. key .. '\0' .. ident) == '\0cancelled' then return answer('cancelled') end
local message = read_message(key, ident)
if not message then return answer('ended') end
local is_delayed = redis.call('ZSCORE', prefix .. 'later', later_member(key, ident, message))
if not is_delayed and not redis.call('ZSCORE', KEYS.mail, mail_member(ident, message)) or message[TOGETHER] ~= '' then
  return answer('begun')
end
write_off(key, ident, message, 'cancelled', tonumber(ARGV.window_ms))
local lane = read_lane(key)
if lane and not is_delayed and not is_leased(lane) then advance(key, lane) end
return answer('cancelled')
