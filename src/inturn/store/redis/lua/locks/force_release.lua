#!lua flags=allow-oom
-- Takes a lock away from all its holders. The next places are granted.
-- KEYS  lock queue places fence processes names waits due era
-- ARGV  prefix name deadline_ms
-- returns  forced count | stale
-- include clock partition lock tell settle
local lock, count = lock_named(ARGV.name), 0
for token, grant in pairs(grants_of(lock)) do
  take_away(lock, token, grant, 'released by force')
  count = count + 1
end
if count > 0 then settle(lock, nil) end
return { 'forced', count }
