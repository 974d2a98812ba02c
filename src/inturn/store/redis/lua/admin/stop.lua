#!lua flags=allow-oom
-- Stops a lane: the turn that runs may commit, and nothing else begins until the lane is resumed.
-- KEYS  lanes state mail msgs fence processes alarms era
-- ARGV  prefix key, how(paused|parked) why deadline_ms
-- returns  stopped | stale
-- include clock partition tell lane share advance
local key = ARGV.key
local lane = read_lane(key) or new_lane()
lane[STOPPED], lane[WHY] = ARGV.how, ARGV.why
advance(key, lane)
return { 'stopped' }
