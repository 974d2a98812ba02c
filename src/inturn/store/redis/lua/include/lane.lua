-- One lane. A lane that is idle has no record; its state, while it lives, is a key of its own.
--   lanes        hash: key -> packed lane: leased, stopped, or with messages that wait
--   mail:<key>   zset, all scores 0: 'PPPP NNNNNNNNNNNNNNNN ident': what waits, by priority, then number;
--                the ident is `sub(23)` of a member
--   msgs:<key>   hash: ident -> packed message, waiting or running; an ident is '<handler>' NUL '<id>'
--   state:<key>  string: '<version> <json>'; it does not expire while messages wait
--   mark:<key> NUL <ident>  string: the result of a message that was committed; or byte 1 and an ident, whose mark has
--                           it; or byte 0 and a word: it will never run, because it was superseded or cancelled
--   alarms       zset: key -> when the lane must be looked at again (ms)
--   lates        zset: '<key>' NUL '<ident>' -> when the message must have begun
--   later        zset: 'NNNNNNNNNNNNNNNN <key>' NUL '<ident>' -> when a delayed message, in `msgs` alone, arrives
--   delayed:<key>  zset: 'NNNNNNNNNNNNNNNN <ident>' -> the same for one lane: for those who look at it
--   ready:<handler>  zset: key -> number: free lanes whose next message is this handler's; and NUL <group> -> number:
--                    the place of a group, whose lanes stand in ready:<handler> NUL <group>
--   grouped      hash: handler -> how many more lanes are ready for it than its ready list has members
--   a lane: 1 token, 2 fence, 3 ttl, 4 fixed end, 5 lapses if unconfirmed, 6 since, 7 ident that runs, 8 '' | paused |
--     parked, 9 why, 10 the ready list it stands in ('<handler>', or '<handler>' NUL '<group>'), 11 ttl of the state,
--     12 who awaits the result of an inline turn, 13 others may interrupt it (0|1), 14 interrupts of inline turns in a
--     row, 15 token that was interrupted and has not ended, 16 until when it may take, 17 the plain key that its lease
--     holds too
--   a message: 1 number, 2 rank, 3 body, 4 attempts, 5 ttl, 6 time limit, 7 accepted, 8 not before, 9 not begun later
--     than, 10 token of its inline caller or '', 11 errors, 12 processes that await its result,
--     13 the call that submitted it, 14 rule of its handler, 15 '' or the idents of its burst, itself left out,
--     16 more may join it (0|1), 17 plain key that its turn holds too, 18 '' or '@' and the version of its handler,
--     19 interrupts in a row, 20 ttl of the state, while it is delayed, 21 its group (nil: none)
--   a rule: '' (it queues), or 'policy quiet_ms cap max_quiet_ms allows(0|1) version window_ms', and perhaps
--     cut_at: when so many messages wait for quiet, their burst begins
local HOLDER, GRANTED, LEASE, UNTIL, LAPSE, BEGAN, RUNNING = 1, 2, 3, 4, 5, 6, 7
local STOPPED, WHY, READY, KEEP, AWAITED = 8, 9, 10, 11, 12
local ALLOWS, CUTS, YIELDS, YIELD_BY, SHARED = 13, 14, 15, 16, 17
local NO_PRIORITY = 'limits.MAX_PRIORITY'  -- the rank of priority 0
local NUMBER, RANK, BODY, ATTEMPTS, M_TTL, LIMIT, ACCEPTED = 1, 2, 3, 4, 5, 6, 7
local AFTER, LATE, CALLER, ERRORS, WATCHERS, CALL_OF = 8, 9, 10, 11, 12, 13
local RULE, TOGETHER, OPEN, SHARES, NEEDS, M_CUTS, M_KEEP, GROUP = 14, 15, 16, 17, 18, 19, 20, 21

local function new_lane()
  return { '', 0, 0, 0, 0, 0, '', '', '', '', 0, '', 0, 0, '', 0, '' }
end

-- A lane or message that was written before there were policies has fewer fields.
local function whole_lane(packed)
  local lane = cmsgpack.unpack(packed)
  if not lane[SHARED] then lane[ALLOWS], lane[CUTS], lane[YIELDS], lane[YIELD_BY], lane[SHARED] = 0, 0, '', 0, '' end
  return lane
end

local function whole(message)
  if not message[M_CUTS] then
    message[CALL_OF] = message[CALL_OF] or ''
    message[RULE], message[TOGETHER], message[OPEN] = '', '', 1
    message[SHARES], message[NEEDS], message[M_CUTS] = '', '', 0
  end
  return message
end

local function read_lane(key)
  local packed = redis.call('HGET', prefix .. 'lanes', key)
  return packed and whole_lane(packed)
end

local function save_lane(key, lane)
  redis.call('HSET', prefix .. 'lanes', key, cmsgpack.pack(lane))
end

-- Returns when the lease ends if nothing renews it.
local function lane_ends(lane)
  local ends = math.min(seen_at(process_of(lane[HOLDER])) + lane[LEASE], lane[UNTIL])
  if lane[LAPSE] > 0 then ends = math.min(ends, lane[LAPSE]) end
  return ends
end

local function is_leased(lane)
  return lane[HOLDER] ~= '' and now < lane_ends(lane)
end

local function turn_notice(token, key)
  return 'turn ' .. token .. ' ' .. key
end

local function read_message(key, ident)
  local packed = redis.call('HGET', prefix .. 'msgs:' .. key, ident)
  return packed and whole(cmsgpack.unpack(packed))
end

local function mail_member(ident, message)
  return string.format('%s %016.0f ', message[RANK], message[NUMBER]) .. ident
end

local function handler_of(ident)
  return ident:sub(1, ident:find('\0', 1, true) - 1)
end

local function save_message(key, ident, message)
  redis.call('HSET', prefix .. 'msgs:' .. key, ident, cmsgpack.pack(message))
end

-- Puts a message into the mailbox, anew or back to its old place. The lead of a burst brings the others along.
local function put(key, ident, message)
  redis.call('ZADD', prefix .. 'mail:' .. key, 0, mail_member(ident, message))
  save_message(key, ident, message)
end

local function take_out(key, ident, message)
  redis.call('ZREM', prefix .. 'mail:' .. key, mail_member(ident, message))
  redis.call('HDEL', prefix .. 'msgs:' .. key, ident)
end

-- Returns policy, quiet_ms, cap, max_quiet_ms, allows, window_ms, cut_at (0: none).
local function rule_of(message)
  if message[RULE] == '' then return 'queue', 0, 1, 0, 0, 0, 0 end
  local policy, quiet, cap, max_quiet, allows, _, window, cut_at =
    message[RULE]:match('^(%a+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) ?(%d*)$')
  return policy, tonumber(quiet), tonumber(cap), tonumber(max_quiet), tonumber(allows), tonumber(window),
    tonumber(cut_at) or 0
end

-- Returns what a worker must be able to run to get this message: its handler, and perhaps '@' and a version.
local function needs_of(ident, message)
  return handler_of(ident) .. (message and message[NEEDS] or '')
end

-- Returns the ready list for a lane whose next message this is.
local function list_of(ident, message)
  return needs_of(ident, message) .. (message[GROUP] and '\0' .. message[GROUP] or '')
end

-- Returns the idents of a burst without its lead.
local function others_of(message)
  return message[TOGETHER] == '' and {} or message[TOGETHER]
end

-- Whether a message that waits can become a part of a burst of this handler, with this plain key.
local function joins(ident, message, handler, plain)
  return message and message[OPEN] == 1 and message[CALLER] == '' and message[AFTER] <= now
    and message[SHARES] == plain and handler_of(ident) == handler
end

-- Returns what became of a lease that is not there. One that was taken away left a note that says why. One with a fence
-- from before this memory was lost with another. Any other was ended by its holder. A fence of 0 is not known.
local function lost_or_gone(token, fence)
  local why = redis.call('GET', prefix .. 'lost:' .. token)
  local era = tonumber(redis.call('GET', prefix .. 'era') or math.huge)
  if why or (fence > 0 and fence < era) then return { 'lost', why or '' } end
  return { 'gone' }
end
