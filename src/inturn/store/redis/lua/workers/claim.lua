#!lua flags=allow-oom
-- A worker asks for turns: up to `count` ready lanes are leased to it, each with its next message and its state.
-- KEYS  lanes alarms fence processes era workers, note
-- ARGV  prefix process can(each handler between two NULs), call count note_ms deadline_ms
-- returns  claimed due_in_ms(-1: nothing) turns | stale; a turn: key token state(false: none) given (include/turns.lua)
-- include clock partition tell lane share advance burst turns give due worker
local process, can, call, count = ARGV.process, ARGV.can, ARGV.call, tonumber(ARGV.count)
local turns, note, empties = {}, {}, 0

local function turn_of(key, token, what)
  return { key, token, redis.call('GET', prefix .. 'state:' .. key), what }
end

-- Returns the next lane of this handler. Groups take turns: one that has had a turn stands behind all that come within
-- `BEHIND_MS`, and keeps that place although it may have no more lanes: it would come back to a better one.
local function next_ready(handler)
  local list = prefix .. 'ready:' .. handler
  while empties < limits.MAX_DUE do
    local member = redis.call('ZPOPMIN', list)[1]
    if not member or member:byte() ~= 0 then return member end
    local key = redis.call('ZPOPMIN', list .. member)[1]
    redis.call('HINCRBY', prefix .. 'grouped', handler, key and -1 or 1)
    if key then
      redis.call('ZADD', list, tick() + limits.BEHIND_MS * 1000, member)
      return key
    end
    empties = empties + 1
  end
end

seen_now(process)
local before = redis.call('GET', KEYS.note)
if before then -- a repeat: what was given the first time, as far as it is still ours
  for _, pair in ipairs(cmsgpack.unpack(before)) do
    local lane = read_lane(pair[1])
    local what = lane and lane[HOLDER] == pair[2] and given(pair[1], lane)
    if what then turns[#turns + 1] = turn_of(pair[1], pair[2], what) end
  end
  return { 'claimed', 0, turns }
end

works(process, can)
not_idle(process, can)
-- include arrive_due
bury_late()
advance_due()
local has_more = true
while has_more and #turns < count do
  has_more = false
  for handler in can:gmatch('%Z+') do -- one lane of each handler in turn
    local key = #turns < count and next_ready(handler)
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
local due = empties < limits.MAX_DUE and due_in(KEYS.alarms, prefix .. 'lates', prefix .. 'later') or 0
return { 'claimed', due, turns }
