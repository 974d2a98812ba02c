#!lua flags=allow-oom
-- Puts the sends of another partition into their lanes here, each once: numbers that were taken before are passed over.
-- KEYS  taken lanes fence processes alarms era
-- ARGV  prefix from, sends...(packed: see include/send.lua) deadline_ms
-- returns  taken number | stale
-- include clock partition tell lane share advance accept burst arrive
local taken = tonumber(redis.call('HGET', KEYS.taken, ARGV.from) or 0)
for i = FIRST.sends, LAST.sends do
  local number, key, ident, body, ttl, limit, keep, rank, rule, after, shares, is_fresh, group =
    unpack(cmsgpack.unpack(ARGV[i]))
  if number > taken then
    taken = number
    if redis.call('EXISTS', prefix .. 'mark:' .. key .. '\0' .. ident) == 0
      and redis.call('HEXISTS', prefix .. 'msgs:' .. key, ident) == 0
      -- a commit that was lost in a failover may have sent it before, and it has failed here since
      and not (is_fresh and redis.call('HEXISTS', prefix .. 'letters', key .. '\0' .. ident) == 1) then
      local lane = read_lane(key) or new_lane()
      local message = new_message(rank or NO_PRIORITY, body, ttl, limit, 0, '', rule or '', shares or '', group or '')
      if (after or 0) > now then
        postpone(key, lane, ident, message, keep, after - now)
      else
        stir(key, lane, ident, arrive(key, lane, ident, message, keep, false, true))
      end
    end
  end
end
redis.call('HSET', KEYS.taken, ARGV.from, string.format('%.0f', taken))
return { 'taken', string.format('%.0f', taken) }
