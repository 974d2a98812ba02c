#!lua flags=allow-oom
-- A worker stops: nobody wakes it any more, and its handlers are not its own.
-- KEYS  workers
-- ARGV  prefix process deadline_ms
-- returns  stopped | stale
-- include clock partition worker
forget_worker(ARGV[2])
return { 'stopped' }
