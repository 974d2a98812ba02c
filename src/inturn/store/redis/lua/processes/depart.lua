#!lua flags=allow-oom
-- A process closes in good order. It holds nothing any more.
-- KEYS  processes inbox workers
-- ARGV  prefix process deadline_ms
-- returns  departed | stale
-- include clock partition worker
redis.call('HDEL', KEYS.processes, ARGV.process)
redis.call('DEL', KEYS.inbox)
forget_worker(ARGV.process)
return { 'departed' }
