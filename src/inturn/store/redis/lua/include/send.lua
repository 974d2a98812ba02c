-- The sends of a commit, in their order. To another partition a send waits in a numbered list, until it is taken there.
-- a send: partition('': this one) key ident body ttl_ms limit_ms keep_ms is_fresh(1: its id cannot be a duplicate)
--         rank rule delay_ms shares
for i = 16, #ARGV - 1, 12 do
  local to, send_key, send_ident, is_fresh = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 7] == '1'
  local ttl, limit, keep = tonumber(ARGV[i + 4]), tonumber(ARGV[i + 5]), tonumber(ARGV[i + 6])
  local delay = tonumber(ARGV[i + 10])
  if to ~= '' then
    redis.call('RPUSH', prefix .. 'forward:' .. to, cmsgpack.pack({ tick(), send_key, send_ident, ARGV[i + 3], ttl, limit,
      keep, ARGV[i + 8], ARGV[i + 9], delay > 0 and now + delay or 0, ARGV[i + 11] }))
    redis.call('SADD', prefix .. 'forwards', to)
  elseif is_fresh or (redis.call('EXISTS', prefix .. 'mark:' .. send_key .. '\0' .. send_ident) == 0
    and redis.call('HEXISTS', prefix .. 'msgs:' .. send_key, send_ident) == 0) then
    local target = send_key == key and lane or read_lane(send_key) or new_lane()
    local message = new_message(ARGV[i + 8], ARGV[i + 3], ttl, limit, 0, '', ARGV[i + 9], ARGV[i + 11])
    if ARGV[i + 9] == '' and delay == 0 then
      accept(send_key, target, send_ident, message, keep, is_fresh)
      if send_key ~= key then stir(send_key, target, send_ident) end
    else
      -- include burst arrive
      if delay > 0 then
        postpone(send_key, target, send_ident, message, keep, delay)
      else
        local has_moved = arrive(send_key, target, send_ident, message, keep, is_fresh, send_key ~= key)
        if send_key ~= key then stir(send_key, target, send_ident, has_moved) end
      end
    end
  end
end
