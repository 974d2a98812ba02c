#!lua flags=allow-oom
-- Stop a lane: what runs may commit, and nothing else begins until it is resumed.
-- KEYS  lanes state mail msgs fence processes alarms era
-- ARGV  prefix key, how(paused|parked) why deadline_ms
-- returns  stopped | stale
-- include clock partition tell lane share advance
local key = ARGV[2]
local lane = read_lane(key) or new_lane()
lane[STOPPED], lane[WHY] = ARGV[3], ARGV[4]
advance(key, lane)
return { 'stopped' }
