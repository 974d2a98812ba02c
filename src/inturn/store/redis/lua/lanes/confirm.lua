#!lua flags=no-writes
-- Tells whether a turn's lease is still known here.
-- KEYS  lanes state mail msgs fence processes alarms era
-- ARGV  prefix key token deadline_ms
-- returns  held | lost | stale
-- include clock partition lane
local lane = read_lane(ARGV.key)
return { lane and lane[HOLDER] == ARGV.token and is_leased(lane) and 'held' or 'lost' }
