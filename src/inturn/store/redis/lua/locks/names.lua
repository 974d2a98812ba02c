#!lua flags=no-writes
-- Which locks are in use, `limit` of them at most.
-- KEYS  names
-- ARGV  prefix limit deadline_ms
-- returns  names, then a list of them | stale
-- include clock
return { 'names', redis.call('SRANDMEMBER', KEYS[1], ARGV[2]) }
