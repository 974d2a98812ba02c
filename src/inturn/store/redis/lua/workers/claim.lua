#!lua flags=allow-oom
-- A worker asks for turns: up to `count` ready lanes are leased to it, each with its next message and its state.
-- KEYS  lanes alarms fence processes era workers, note
-- ARGV  prefix process can(each handler between two NULs), call count note_ms deadline_ms
-- returns  claimed due_in_ms(-1: nothing) turns | stale; a turn: key token state(false: none) given (include/turns.lua)
-- include clock partition tell lane share advance burst turns give due worker
local process, can, call, count = ARGV.process, ARGV.can, ARGV.call, tonumber(ARGV.count)
local turns, note = {}, {}

local function turn_of(key, token, what)
  return { key, token, redis.call('GET', prefix .. 'state:' .. key), what }
end

seen_now(process)
local before = redis.call('GET', KEYS.note)
if before then -- a repeat: what was given the first time, as far as it is still ours
  for _, pair in ipairs(cmsgpack.unpack(before)) do
    local lane = read_lane(pair[1])
    if lane and lane[HOLDER] == pair[2] then
      turns[#turns + 1] = turn_of(pair[1], pair[2], given(pair[1], lane))
    end
  end
  return { 'claimed', 0, turns }
end

redis.call('HSET', KEYS.workers, process, can)
not_idle(process, can)
-- include arrive_due
bury_late()
advance_due()
local has_more = true
while has_more and #turns < count do
  has_more = false
  for handler in can:gmatch('%Z+') do -- one lane of each handler in turn
    local key = #turns < count and redis.call('ZPOPMIN', prefix .. 'ready:' .. handler)[1]
    if key then
      has_more = true
      local lane, token = read_lane(key), call .. '.' .. (#turns + 1)
      if lane then lane[READY] = '' end
      local what = lane and give_next(key, lane, token, can)
      if what then
        turns[#turns + 1] = turn_of(key, token, what)
        note[#note + 1] = { key, token }
      end
    end
  end
end
-- also when nothing was given: bytes of a first attempt that arrive after its repeat must give nothing either
redis.call('SET', KEYS.note, cmsgpack.pack(note), 'PX', ARGV.note_ms)
if #turns < count then
  for handler in can:gmatch('%Z+') do redis.call('SADD', prefix .. 'idle:' .. handler, process) end
end
return { 'claimed', due_in(KEYS.alarms, prefix .. 'lates', prefix .. 'later'), turns }
