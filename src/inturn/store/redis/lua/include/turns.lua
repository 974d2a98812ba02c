-- What workers are given: turns and their messages.

-- Returns several messages at once; false for one that is not there.
local function read_messages(key, idents)
  local found = #idents > 0 and redis.call('HMGET', prefix .. 'msgs:' .. key, unpack(idents)) or {}
  for i, packed in ipairs(found) do found[i] = packed and whole(cmsgpack.unpack(packed)) end
  return found
end

-- Returns one message as its handler gets it: ident body waited_ms accepted_ms
local function seen(ident, message)
  return { ident, message[BODY], now - message[ACCEPTED], message[ACCEPTED] }
end

-- Returns what a worker is given of a turn: fence attempts ttl_ms limit_ms messages (see `seen`) open(0|1);
-- nil if its message is gone.
local function given(key, lane, lead)
  lead = lead or read_message(key, lane[RUNNING])
  if not lead then return nil end
  local others, there, messages = others_of(lead), {}, { seen(lane[RUNNING], lead) }
  for i, message in ipairs(read_messages(key, others)) do
    if message then messages[#messages + 1], there[#there + 1] = seen(others[i], message), others[i] end
  end
  if #there < #others then -- half of a transition, as in `advance`
    lead[TOGETHER] = there
    save_message(key, lane[RUNNING], lead)
  end
  return { lane[GRANTED], lead[ATTEMPTS], lead[M_TTL], lead[LIMIT], messages, lead[OPEN] }
end
