#!lua flags=allow-oom
-- A running turn takes what arrived for its handler meanwhile: it commits, or fails, with them.
-- KEYS  lanes state mail msgs fence processes alarms era
-- ARGV  prefix key, token fence have(how many messages the turn has) version(that its worker can read) deadline_ms
-- returns  steered messages {ident body waited_ms} | lost | gone | stale
-- include clock partition lane burst turns steer
local lane = read_lane(ARGV[2])
if not lane or lane[HOLDER] ~= ARGV[3] or lane[GRANTED] ~= tonumber(ARGV[4]) then
  return lost_or_gone(ARGV[3], tonumber(ARGV[4]))
end
return { 'steered', steer(ARGV[2], lane, tonumber(ARGV[5]), tonumber(ARGV[6]), false) }
