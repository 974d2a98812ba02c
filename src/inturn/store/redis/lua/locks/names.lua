#!lua flags=no-writes
-- Lists the locks in use, `limit` of them at most.
-- KEYS  names
-- ARGV  prefix limit deadline_ms
-- returns  names, then a list of them | stale
-- include clock
return { 'names', redis.call('SRANDMEMBER', KEYS.names, ARGV.limit) }
