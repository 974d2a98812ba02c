-- A process that works: it is woken while it is idle, and forgotten when it is gone.
local function not_idle(process, can)
  for handler in can:gmatch('%Z+') do redis.call('SREM', prefix .. 'idle:' .. handler, process) end
end

local function forget_worker(process)
  not_idle(process, redis.call('HGET', prefix .. 'workers', process) or '')
  redis.call('HDEL', prefix .. 'workers', process)
end
