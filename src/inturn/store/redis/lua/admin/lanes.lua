#!lua flags=no-writes
-- Shows the lanes in use, `limit` of them at most, and for each handler its ready lanes and living workers.
-- KEYS  lanes handlers workers processes dead
-- ARGV  prefix limit deadline_ms
-- returns  lanes in_use dead_letters, lanes {key token since_ms ident stopped why ready waiting}
--          handlers {name ready workers} | stale
-- include clock partition lane waiting
local found, handlers, living = {}, {}, {}
local keys = redis.call('HLEN', KEYS.lanes) > tonumber(ARGV.limit) and redis.call('HRANDFIELD', KEYS.lanes, ARGV.limit)
  or redis.call('HKEYS', KEYS.lanes)
for _, key in ipairs(keys) do
  local lane = read_lane(key)
  local held = is_leased(lane)
  found[#found + 1] = { key, held and lane[HOLDER] or '', held and now - lane[BEGAN] or 0, held and lane[RUNNING] or '',
    lane[STOPPED], lane[WHY], lane[READY]:match('%Z*'), waiting_in(key, lane) }
end
local workers = redis.call('HGETALL', KEYS.workers)
for i = 1, #workers, 2 do
  if now <= seen_at(workers[i]) + limits.PLACE_LIVES_MS then
    for handler in workers[i + 1]:gmatch('%Z+') do living[handler] = (living[handler] or 0) + 1 end
  end
end
for _, handler in ipairs(redis.call('SMEMBERS', KEYS.handlers)) do
  local ready = redis.call('ZCARD', prefix .. 'ready:' .. handler)
    + tonumber(redis.call('HGET', prefix .. 'grouped', handler) or 0)
  handlers[#handlers + 1] = { handler, ready, living[handler] or 0 }
end
return { 'lanes', redis.call('HLEN', KEYS.lanes), redis.call('ZCARD', KEYS.dead), found, handlers }
