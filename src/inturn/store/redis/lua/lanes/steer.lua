#!lua flags=allow-oom
-- A running turn takes in the messages that arrived for its handler meanwhile, and commits or fails with them.
-- KEYS  lanes state mail msgs fence processes alarms era
-- ARGV  prefix key, token fence have(how many messages the turn has) version(that its worker can read) deadline_ms
-- returns  steered messages {ident body waited_ms} | lost why | gone | stale
-- include clock partition lane burst turns steer
local lane = read_lane(ARGV.key)
if not lane or lane[HOLDER] ~= ARGV.token or lane[GRANTED] ~= tonumber(ARGV.fence) then
  return lost_or_gone(ARGV.token, tonumber(ARGV.fence))
end
return { 'steered', steer(ARGV.key, lane, tonumber(ARGV.have), tonumber(ARGV.version), false) }
