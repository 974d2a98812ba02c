-- The server's clock, in milliseconds (`now`) and microseconds (`now_us`).
local seconds_and_micros = redis.call('TIME')
local now_us = seconds_and_micros[1] * 1000000 + seconds_and_micros[2]
local now = math.floor(now_us / 1000)
-- Bytes that arrive after the call's deadline change nothing: its caller has given up on them.
if now > tonumber(ARGV.deadline_ms) then return { 'stale' } end
