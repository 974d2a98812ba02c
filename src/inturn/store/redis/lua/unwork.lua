#!lua flags=allow-oom
-- A worker stops: nobody wakes it any more, and its handlers are not its own.
-- KEYS  workers
-- ARGV  prefix process deadline_ms
-- returns  stopped | stale
-- include clock partition
for handler in (redis.call('HGET', KEYS[1], ARGV[2]) or ''):gmatch('%Z+') do
  redis.call('SREM', prefix .. 'idle:' .. handler, ARGV[2])
end
redis.call('HDEL', KEYS[1], ARGV[2])
return { 'stopped' }
