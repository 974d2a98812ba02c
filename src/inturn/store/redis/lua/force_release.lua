#!lua flags=allow-oom
-- Take a lock away from everyone who holds it; who comes next is granted.
-- include clock partition lock settle
-- KEYS  lock queue places fence processes names waits
-- ARGV  prefix deadline_ms name
-- returns  forced count | stale
local lock, count = lock_named(ARGV[3]), 0
for token, grant in pairs(grants_of(lock)) do
  take_away(lock, token, grant, 'released by force')
  count = count + 1
end
if count > 0 then settle(lock, nil) end
return { 'forced', count }
