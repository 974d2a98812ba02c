-- The sends of a commit, in their order. To another partition a send waits in a numbered list, until it is taken there.
for i = 14, #ARGV - 1, 8 do
  local to, send_key, send_ident = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local ttl, limit, keep = tonumber(ARGV[i + 4]), tonumber(ARGV[i + 5]), tonumber(ARGV[i + 6])
  if to ~= '' then
    redis.call('RPUSH', prefix .. 'forward:' .. to,
      cmsgpack.pack({ tick(), send_key, send_ident, ARGV[i + 3], ttl, limit, keep }))
    redis.call('SADD', prefix .. 'forwards', to)
  elseif ARGV[i + 7] == '1' or (redis.call('EXISTS', prefix .. 'mark:' .. send_key .. '\0' .. send_ident) == 0
    and redis.call('HEXISTS', prefix .. 'msgs:' .. send_key, send_ident) == 0) then
    local target = send_key == key and lane or read_lane(send_key) or new_lane()
    accept(send_key, target, send_ident, new_message('1000', ARGV[i + 3], ttl, limit, 0, ''), keep, ARGV[i + 7] == '1')
    if send_key ~= key then stir(send_key, target, send_ident) end
  end
end
