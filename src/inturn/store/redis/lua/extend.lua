#!lua flags=allow-oom
-- Change the fixed end of a lease. A lease without one is only confirmed.
-- include clock partition lock
-- KEYS  lock processes
-- ARGV  prefix deadline_ms name token how(add|set|at_least) ms call_id
-- returns  extended life_left_ms | lost | stale
local lock, token, ms = lock_named(ARGV[3]), ARGV[4], tonumber(ARGV[6])
local packed = redis.call('HGET', lock.hash, token)
if not packed then return { 'lost' } end
local grant = cmsgpack.unpack(packed)
if now >= grant_ends(token, grant) then return { 'lost' } end
if grant[GRANT.ends] > 0 and grant[GRANT.call] ~= ARGV[7] then
  if ARGV[5] == 'add' then
    grant[GRANT.ends] = grant[GRANT.ends] + ms
  elseif ARGV[5] == 'set' then
    grant[GRANT.ends] = now + ms
  else
    grant[GRANT.ends] = math.max(grant[GRANT.ends], now + ms)
  end
  grant[GRANT.call] = ARGV[7]
  save_grant(lock, token, grant)
end
redis.call('ZADD', KEYS[2], now, process_of(token))
return { 'extended', life_left(grant) }
