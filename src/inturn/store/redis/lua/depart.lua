#!lua flags=allow-oom
-- A process closes in good order, holding nothing any more.
-- include clock partition
-- KEYS  processes inbox
-- ARGV  prefix deadline_ms process
-- returns  departed | stale
redis.call('ZREM', KEYS[1], ARGV[3])
redis.call('DEL', KEYS[2])
return { 'departed' }
