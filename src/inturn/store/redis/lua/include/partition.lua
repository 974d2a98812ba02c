-- What all locks and lanes of a partition share. A verb declares the keys that its common case touches. The keys of its
-- rare cases are named from the prefix, and are in the same slot. `prefix` is '<namespace>:{p}:'; the names below
-- follow it.
--   fence      string: the last number given out
--   era        string: the first number that this memory gave out; a smaller one is from a memory that was lost
--   partitions string: how many there are; only in partition 0, and no script uses it (see calls.py)
--   processes  hash: process -> when it was last seen (ms)
--   names      set: every lock in use
--   due        zset: every lock that is waited for -> when it must be looked at again (ms)
--   waits      zset, all scores 0: '<length of owner>:<owner>' NUL token NUL name, one for each waiting place
--   workers    hash: process -> the handlers it runs, each between two NULs
--   idle:<handler>   set: processes that asked for work of this handler and found none
--   handlers   set: every handler that ever had a lane in its ready list
--   dead       zset: '<key>' NUL '<ident>' of every dead letter, by number plus how long it is kept (us); by number
--              alone while nobody has said how long
--   letters    hash: the same member -> packed {key, ident, message, when it died, ttl of the state, until when it is
--              kept (nil: nobody has said yet)}
--   forward:<partition>  list: sends on their way there, packed; forwards: set of those partitions
--   taken      hash: partition -> the highest number that was taken from there
--   inbox:<process>  set: what the process has to be told; kept until it says that it has acted on it
--   lost:<token>     string: why a lease was taken away, for a minute
local prefix = ARGV.prefix

local function process_of(token)
  return token:match('^(.*)#')
end

local function seen_at(process)
  return tonumber(redis.call('HGET', prefix .. 'processes', process) or 0)
end

local function seen_now(process)
  redis.call('HSET', prefix .. 'processes', process, now)
end

-- Returns the next number, for arrivals and fences. The counter follows the clock, so it still grows if the memory is
-- lost.
local function tick()
  local key = prefix .. 'fence'
  local last = redis.call('SET', key, string.format('%.0f', now_us), 'GET')
  if not last then redis.call('SET', prefix .. 'era', string.format('%.0f', now_us)) end
  last = tonumber(last or 0)
  if last < now_us then return now_us end
  redis.call('SET', key, string.format('%.0f', last + 1))
  return last + 1
end
