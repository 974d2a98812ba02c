#!lua flags=allow-oom
-- Takes a lock away from all its holders; or, for an owner, gives back the oldest of its grants. The next places are
-- granted.
-- KEYS  lock queue places fence processes names waits due era, note
-- ARGV  prefix name owner('': whoever holds it) note_ms deadline_ms
-- returns  forced count | stale
-- include clock partition note lock tell settle
local lock, count = lock_named(ARGV.name), 0
if ARGV.owner == '' then
  for token, grant in pairs(grants_of(lock)) do
    take_away(lock, token, grant, 'released by force')
    count = count + 1
  end
else
  local token, oldest
  for held, grant in pairs(grants_of(lock)) do
    if grant[OWNER] == ARGV.owner and now < grant_ends(held, grant) and (not oldest or grant[FENCE] < oldest[FENCE]) then
      token, oldest = held, grant
    end
  end
  if oldest then
    take_away(lock, token, oldest, 'released by its owner elsewhere')
    count = 1
  end
end
if count > 0 then settle(lock, nil) end
return answer('forced', count)
