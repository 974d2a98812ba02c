#!lua flags=no-writes
-- Whether a turn's lease is still known here.
-- KEYS  lanes state mail msgs fence processes alarms era
-- ARGV  prefix key token deadline_ms
-- returns  held | lost | stale
-- include clock partition lane
local lane = read_lane(ARGV[2])
return { lane and lane[HOLDER] == ARGV[3] and is_leased(lane) and 'held' or 'lost' }
