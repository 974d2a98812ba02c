-- A process that works: who is idle is woken, who is gone is not.
local function not_idle(process, can)
  for handler in can:gmatch('%Z+') do redis.call('SREM', prefix .. 'idle:' .. handler, process) end
end

local function forget_worker(process)
  not_idle(process, redis.call('HGET', prefix .. 'workers', process) or '')
  redis.call('HDEL', prefix .. 'workers', process)
end
