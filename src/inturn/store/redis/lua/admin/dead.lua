#!lua flags=no-writes
-- Dead letters, the oldest first: all of them, or the one that is asked for.
-- KEYS  dead letters
-- ARGV  prefix limit member('': all; else key NUL ident) deadline_ms
-- returns  dead {key ident body attempts accepted_ms died_ms errors} | stale
-- include clock partition lane
local found = {}
local members = ARGV[3] ~= '' and { ARGV[3] } or redis.call('ZRANGE', KEYS[1], 0, ARGV[2] - 1)
for _, member in ipairs(members) do
  local packed = redis.call('HGET', KEYS[2], member)
  if packed then
    local key, ident, message, died = unpack(cmsgpack.unpack(packed))
    found[#found + 1] = { key, ident, message[BODY], message[ATTEMPTS], message[ACCEPTED], died, message[ERRORS] }
  end
end
return { 'dead', found }
