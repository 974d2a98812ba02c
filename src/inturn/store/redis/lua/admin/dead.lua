#!lua flags=no-writes
-- Shows dead letters, the oldest first: `limit` of them, or the one that is asked for.
-- KEYS  dead letters
-- ARGV  prefix limit member('': all; else key NUL ident) deadline_ms
-- returns  dead {key ident body attempts accepted_ms died_ms errors} | stale
-- include clock partition lane
local found = {}
local members = ARGV.member ~= '' and { ARGV.member } or redis.call('ZRANGE', KEYS.dead, 0, ARGV.limit - 1)
for _, member in ipairs(members) do
  local packed = redis.call('HGET', KEYS.letters, member)
  if packed then
    local key, ident, message, died = unpack(cmsgpack.unpack(packed))
    found[#found + 1] = { key, ident, message[BODY], message[ATTEMPTS], message[ACCEPTED], died, message[ERRORS] }
  end
end
return { 'dead', found }
