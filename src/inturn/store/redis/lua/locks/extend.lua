#!lua flags=allow-oom
-- Changes the fixed end of a lease. A lease without one is only confirmed.
-- KEYS  lock processes due
-- ARGV  prefix name token how(add|set|at_least) ms order(of the calls of one process: digits, always as many) deadline_ms
-- returns  extended life_left_ms | lost | stale
-- include clock partition lock
local lock, token, ms, how = lock_named(ARGV.name), ARGV.token, tonumber(ARGV.ms), ARGV.how
local packed = redis.call('HGET', lock.hash, token)
if not packed then return { 'lost' } end
local grant = cmsgpack.unpack(packed)
if now >= grant_ends(token, grant) then return { 'lost' } end
-- A repeat changes nothing more, nor do bytes that arrive after those of a newer call. `at_least` never takes time away,
-- so it may come at any time, and from any process.
if grant[ENDS] > 0 and (how == 'at_least' or ARGV.order > grant[EXTENDED]) then
  if how == 'at_least' then
    grant[ENDS] = math.max(grant[ENDS], now + ms)
  else
    grant[ENDS] = how == 'add' and grant[ENDS] + ms or now + ms
    grant[EXTENDED] = ARGV.order
  end
  save_grant(lock, token, grant)
  -- if someone waits, and the lease now ends sooner
  redis.call('ZADD', KEYS.due, 'XX', 'LT', grant[ENDS], lock.name)
end
seen_now(process_of(token))
return { 'extended', life_left(grant) }
