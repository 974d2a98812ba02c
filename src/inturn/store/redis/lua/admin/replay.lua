#!lua flags=allow-oom
-- Puts a dead letter back to its old place in its lane, past the duplicate check, with all its attempts; or drops it.
-- KEYS  dead letters lanes fence processes alarms era, note
-- ARGV  prefix key letter_ms, ident how(replay|drop) note_ms deadline_ms
-- returns  done | none (no such letter) | stale
-- include clock partition note tell lane share advance accept letters
local key, ident = ARGV.key, ARGV.ident
local member = key .. '\0' .. ident
local packed = redis.call('HGET', KEYS.letters, member)
local letter = packed and cmsgpack.unpack(packed)
if not letter or letter_until(letter, tonumber(ARGV.letter_ms)) <= now then return answer('none') end
redis.call('HDEL', KEYS.letters, member)
redis.call('ZREM', KEYS.dead, member)
if ARGV.how == 'replay' then
  local lane, message = read_lane(key) or new_lane(), whole(letter[3])
  local left = redis.call('PTTL', prefix .. 'state:' .. key)
  lane[KEEP] = math.max(lane[KEEP], left)
  if lane[KEEP] <= 0 then lane[KEEP] = letter[5] end -- a state that was written since knows its own time
  message[ATTEMPTS], message[AFTER], message[LATE], message[WATCHERS], message[OPEN] = 0, 0, 0, '', 0
  -- it waits anew; and never from the same time, so that what it sends has other ids than what its death has sent
  message[ACCEPTED] = math.max(now, message[ACCEPTED] + 1)
  redis.call('DEL', prefix .. 'mark:' .. member)
  redis.call('PERSIST', prefix .. 'state:' .. key)
  put(key, ident, message)
  stir(key, lane, ident)
end
return answer('done')
