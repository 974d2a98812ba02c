#!lua flags=no-writes
-- Shows dead letters, those first that expire first: `limit` of them, or the one that is asked for. It passes over those
-- whose time is over, `MAX_LOOKED_AT` of them at most.
-- KEYS  dead letters
-- ARGV  prefix letter_ms, limit member('': all; else key NUL ident) deadline_ms
-- returns  dead {number key ident body attempts accepted_ms died_ms until_ms errors} | stale; `number` says who died first
-- include clock partition lane letters
local found, limit = {}, tonumber(ARGV.limit)
local members = ARGV.member ~= '' and { ARGV.member, '0' }
  or redis.call('ZRANGE', KEYS.dead, 0, limit + limits.MAX_LOOKED_AT - 1, 'WITHSCORES')
for i = 1, #members, 2 do
  local packed = #found < limit and redis.call('HGET', KEYS.letters, members[i])
  if packed then
    local letter = cmsgpack.unpack(packed)
    local message, kept_until = letter[3], letter_until(letter, tonumber(ARGV.letter_ms))
    if kept_until > now then
      local number = members[i + 1] - (letter[6] and letter[6] - letter[4] or 0) * 1000
      found[#found + 1] = { number, letter[1], letter[2], message[BODY], message[ATTEMPTS], message[ACCEPTED], letter[4],
        kept_until, message[ERRORS] }
    end
  end
end
return { 'dead', found }
