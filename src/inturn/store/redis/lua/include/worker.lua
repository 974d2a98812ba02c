-- A process that works: it is woken while it is idle, and forgotten when it is gone.
local function not_idle(process, can)
  for handler in can:gmatch('%Z+') do redis.call('SREM', prefix .. 'idle:' .. handler, process) end
end

-- A process may have several workers, each for some handlers: it runs all of them.
local function works(process, can)
  local runs = redis.call('HGET', prefix .. 'workers', process) or '\0'
  for handler in can:gmatch('%Z+') do
    if not runs:find('\0' .. handler .. '\0', 1, true) then runs = runs .. handler .. '\0' end
  end
  redis.call('HSET', prefix .. 'workers', process, runs)
end

local function forget_worker(process)
  not_idle(process, redis.call('HGET', prefix .. 'workers', process) or '')
  redis.call('HDEL', prefix .. 'workers', process)
end
