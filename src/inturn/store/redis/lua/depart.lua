#!lua flags=allow-oom
-- A process closes in good order, holding nothing any more.
-- KEYS  processes inbox workers
-- ARGV  prefix process deadline_ms
-- returns  departed | stale
-- include clock partition
redis.call('HDEL', KEYS[1], ARGV[2])
redis.call('DEL', KEYS[2])
for handler in (redis.call('HGET', KEYS[3], ARGV[2]) or ''):gmatch('%Z+') do
  redis.call('SREM', prefix .. 'idle:' .. handler, ARGV[2])
end
redis.call('HDEL', KEYS[3], ARGV[2])
return { 'departed' }
