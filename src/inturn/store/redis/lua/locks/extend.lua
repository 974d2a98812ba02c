#!lua flags=allow-oom
-- Changes the fixed end of a lease. A lease without one is only confirmed.
-- KEYS  lock processes due
-- ARGV  prefix name token how(add|set|at_least) ms call_id deadline_ms
-- returns  extended life_left_ms | lost | stale
-- include clock partition lock
local lock, token, ms = lock_named(ARGV.name), ARGV.token, tonumber(ARGV.ms)
local packed = redis.call('HGET', lock.hash, token)
if not packed then return { 'lost' } end
local grant = cmsgpack.unpack(packed)
if now >= grant_ends(token, grant) then return { 'lost' } end
if grant[ENDS] > 0 and grant[CALL] ~= ARGV.call_id then
  if ARGV.how == 'add' then
    grant[ENDS] = grant[ENDS] + ms
  elseif ARGV.how == 'set' then
    grant[ENDS] = now + ms
  else
    grant[ENDS] = math.max(grant[ENDS], now + ms)
  end
  grant[CALL] = ARGV.call_id
  save_grant(lock, token, grant)
  -- if someone waits, and the lease now ends sooner
  redis.call('ZADD', KEYS.due, 'XX', 'LT', grant[ENDS], lock.name)
end
seen_now(process_of(token))
return { 'extended', life_left(grant) }
