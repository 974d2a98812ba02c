#!lua flags=allow-oom
-- Take a lock away from everyone who holds it; who comes next is granted.
-- KEYS  lock queue places fence processes names waits due era
-- ARGV  prefix name deadline_ms
-- returns  forced count | stale
-- include clock partition lock tell settle
local lock, count = lock_named(ARGV[2]), 0
for token, grant in pairs(grants_of(lock)) do
  take_away(lock, token, grant, 'released by force')
  count = count + 1
end
if count > 0 then settle(lock, nil) end
return { 'forced', count }
