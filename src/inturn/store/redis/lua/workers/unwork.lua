#!lua flags=allow-oom
-- A worker stops: it is not woken any more, and does not count among those that run its handlers.
-- KEYS  workers
-- ARGV  prefix process deadline_ms
-- returns  stopped | stale
-- include clock partition worker
forget_worker(ARGV.process)
return { 'stopped' }
