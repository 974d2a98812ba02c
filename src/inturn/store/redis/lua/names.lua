#!lua flags=no-writes
-- Which locks are in use.
-- include clock
-- KEYS  names
-- ARGV  prefix deadline_ms limit
-- returns  names, then a list of them | stale
return { 'names', redis.call('ZRANGE', KEYS[1], 0, ARGV[3] - 1) }
