-- What all locks of a partition share. `prefix` is 'inturn:{p}:'; the keys below end it.
--   fence      string: the last number given out
--   processes  zset: process -> when it was last seen (ms)
--   names      zset: every lock in use -> when it must be looked at again (ms)
--   waits      zset, all scores 0: owner NUL token NUL name, one for each waiting place
--   inbox:<process>  set: what the process has to be told; kept until it says that it was
--   lost:<token>     string: why a lease was taken away, for a minute
local prefix = ARGV[1]
local PLACE_LIVES_MS = 3000   -- a waiting place lives while its process was seen within three beats
local CONFIRM_MS = 2000       -- a grant that is not confirmed lapses after two beats,
local CONFIRM_UNHEARD_MS = 500 -- or sooner when nobody was listening: most likely the process is dead
local IDLE_CHECK_MS = 600000  -- a lock that nobody waits for is only looked at to collect what the dead left

local function process_of(token)
  return token:match('^(.*)#')
end

local function seen_at(process)
  return tonumber(redis.call('ZSCORE', prefix .. 'processes', process) or 0)
end

-- Arrivals and fences come from one counter. It follows the clock, so that it grows on after the memory is lost.
local function tick()
  local last = tonumber(redis.call('GET', prefix .. 'fence') or 0)
  local next = math.max(last + 1, now_us)
  redis.call('SET', prefix .. 'fence', string.format('%.0f', next))
  return next
end

-- Tell a process; the answer is how many connections heard it. The inbox is what counts, the push is a hint.
local function tell(process, notice)
  local inbox = prefix .. 'inbox:' .. process
  redis.call('SADD', inbox, notice)
  redis.call('PEXPIRE', inbox, 3600000)
  return redis.call('SPUBLISH', prefix .. 'push:' .. process, notice)
end
