#!lua flags=allow-oom
-- Stops a lane: the turn that runs may commit, and nothing else begins until the lane is resumed.
-- KEYS  lanes state mail msgs fence processes alarms era, note
-- ARGV  prefix key, how(paused|parked) why note_ms deadline_ms
-- returns  stopped | stale
-- include clock partition note tell lane share advance
local key = ARGV.key
local lane = read_lane(key) or new_lane()
lane[STOPPED], lane[WHY] = ARGV.how, ARGV.why
advance(key, lane)
return answer('stopped')
