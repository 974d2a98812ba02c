-- The sends of a commit, or of a dead letter, in their order. One to another partition waits in a list until it is taken there, packed:
--   {number, key, ident, body, ttl_ms, limit_ms, keep_ms, rank, rule, when it is due (0: at once), shares, is_fresh,
--   group}
for i = FIRST.sends, LAST.sends, SIZE.SEND do
  local to, send_key, send_ident = ARGV[i + SEND.to], ARGV[i + SEND.key], ARGV[i + SEND.ident]
  local body, ttl, limit = ARGV[i + SEND.body], tonumber(ARGV[i + SEND.ttl_ms]), tonumber(ARGV[i + SEND.limit_ms])
  local keep, is_fresh = tonumber(ARGV[i + SEND.keep_ms]), ARGV[i + SEND.is_fresh] == '1'
  local rank, rule = ARGV[i + SEND.rank], ARGV[i + SEND.rule]
  local delay, shares, group = tonumber(ARGV[i + SEND.delay_ms]), ARGV[i + SEND.shares], ARGV[i + SEND.group]
  if to ~= '' then
    redis.call('RPUSH', prefix .. 'forward:' .. to, cmsgpack.pack({ tick(), send_key, send_ident, body, ttl, limit,
      keep, rank, rule, delay > 0 and now + delay or 0, shares, is_fresh, group }))
    redis.call('SADD', prefix .. 'forwards', to)
  elseif is_fresh or (redis.call('EXISTS', prefix .. 'mark:' .. send_key .. '\0' .. send_ident) == 0
    and redis.call('HEXISTS', prefix .. 'msgs:' .. send_key, send_ident) == 0) then
    local target = send_key == key and lane or read_lane(send_key) or new_lane()
    local message = new_message(rank, body, ttl, limit, 0, '', rule, shares, group)
    if rule == '' and delay == 0 then
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
