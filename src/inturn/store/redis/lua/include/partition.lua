-- What all locks and lanes of a partition share. A verb declares the keys that its common way touches; what only its rare
-- ways touch is named from the prefix, in the same slot. `prefix` is 'inturn:{p}:'; the keys below end it.
--   fence      string: the last number given out
--   era        string: the first number that this memory gave out; what has a smaller one was lost with another memory
--   processes  hash: process -> when it was last seen (ms)
--   names      set: every lock in use
--   due        zset: every lock that is waited for -> when it must be looked at again (ms)
--   waits      zset, all scores 0: '<length of owner>:<owner>' NUL token NUL name, one for each waiting place
--   workers    hash: process -> the handlers it runs, each between two NULs
--   idle:<handler>   set: processes that asked for work of this handler and found none
--   handlers   set: every handler that ever had a lane in its ready list
--   dead       zset: dead letters by number; letters: hash, the same member -> packed {key, ident, message, died, state ttl}
--   forward:<partition>  list: sends on their way there, packed; forwards: set of those partitions
--   taken      hash: partition -> the highest number that was taken from there
--   inbox:<process>  set: what the process has to be told; kept until it says that it was
--   lost:<token>     string: why a lease was taken away, for a minute
local prefix = ARGV[1]

local function process_of(token)
  return token:match('^(.*)#')
end

local function seen_at(process)
  return tonumber(redis.call('HGET', prefix .. 'processes', process) or 0)
end

local function seen_now(process)
  redis.call('HSET', prefix .. 'processes', process, now)
end

-- Arrivals and fences come from one counter. It follows the clock, so that it grows on after the memory is lost.
local function tick()
  local key = prefix .. 'fence'
  local last = redis.call('SET', key, string.format('%.0f', now_us), 'GET')
  if not last then redis.call('SET', prefix .. 'era', string.format('%.0f', now_us)) end
  last = tonumber(last or 0)
  if last < now_us then return now_us end
  redis.call('SET', key, string.format('%.0f', last + 1))
  return last + 1
end
