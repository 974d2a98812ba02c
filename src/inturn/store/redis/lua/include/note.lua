-- A call that is answered leaves its answer in a note under its own id. The same call may arrive again: as a repeat whose
-- first reply was lost, or with its first bytes after the repeat was answered. It gets the noted answer, and does nothing.
local noted = redis.call('GET', KEYS.note)
if noted then return cmsgpack.unpack(noted) end

-- Returns the answer, and leaves it for the same call.
local function answer(...)
  redis.call('SET', KEYS.note, cmsgpack.pack({ ... }), 'PX', ARGV.note_ms)
  return { ... }
end
