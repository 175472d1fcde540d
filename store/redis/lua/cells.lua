-- A state is kept as version, end, at, a, b, of 8 bytes each and big-endian,
-- and after them the entries of a log. The version is random, with its first
-- bit set, and new with each write; from the end on the state is unknown.

-- clock returns the instant in microseconds: the server's, or what key holds.
local function clock(key)
  if key ~= '' then return tonumber(redis.call('GET', key)) end
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- fetch returns the values of keys, false for those that are not there.
local function fetch(keys)
  local all = {}
  for from = 1, #keys, 1000 do -- more do not fit on the stack
    local some = redis.call('MGET', unpack(keys, from, math.min(from + 999, #keys)))
    if from == 1 then
      all = some
    else
      for i = 1, #some do all[from + i - 1] = some[i] end
    end
  end
  return all
end

-- set writes the value of a state that ends ttl microseconds from now. Redis
-- drops it a while later: slack, in milliseconds.
local function set(key, value, ttl, slack)
  redis.call('SET', key, value, 'PX', string.format('%d', ttl / 1000 + slack))
end
