#!lua flags=allow-oom
-- A process closes in good order, holding nothing any more.
-- KEYS  processes inbox workers
-- ARGV  prefix process deadline_ms
-- returns  departed | stale
-- include clock partition worker
redis.call('HDEL', KEYS[1], ARGV[2])
redis.call('DEL', KEYS[2])
forget_worker(ARGV[2])
return { 'departed' }
