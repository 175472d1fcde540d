-- Spends from each of KEYS on its own, by the rules of limit/algo.
--
-- Lua counts in doubles. The caller sees to it that limits and what is made of
-- them are at most 2^52, and a state beyond that is left as it is. So all counts
-- are exact, and x/y is not rounded up to a whole number that it does not reach:
-- it is 1/y away at least, and the doubles in between are less apart than that.
--
-- ARGV: the key of the clock, the version of what is written, and, of 8 bytes
-- each, the slack, the quota, the window, the burst, by what quota and window
-- can be divided, the cost, and how often to spend it at most.
--
-- Returns the instant and, for each key, the value found, '-' if there was none,
-- or 'x' if the key was left as it is.
local now, version = clock(ARGV[1]), ARGV[2]
local slack, quota, window, burst, divisor, cost, times = struct.unpack('>i8i8i8i8i8i8i8', ARGV[3])
local floor, exact, longest = math.floor, 2 ^ 52, 2 ^ 53

-- often returns how many times cost is spent where there is room, 0 or less if
-- it does not fit.
local function often(room)
  local n = floor(room / cost)
  return n < times and n or times
end

local values = fetch(KEYS)
for i = 1, #KEYS do
  local value, ends, at, a, b = values[i], 0, 0, 0, 0
  local odd = value and #value ~= 40
  if value and not odd then ends, at, a, b = struct.unpack('>i8i8i8i8', value, 9) end
  if ends <= now then value, at, a, b = '-', 0, 0, 0 end
  local t = at > now and at or now
  if odd or at < 0 or a < 0 or b < 0 or t > exact or a > exact or b > exact then
    value = 'x'
  else
    -- From t, at, a and b comes n, how many times cost is spent, the new a and
    -- b, and in how long they are as good as new, or more.
    local n, reset
    --[[ the algorithm ]]
    if n > 0 then
      local ttl = t - now + reset
      if ttl > longest then ttl = longest end
      set(KEYS[i], version .. struct.pack('>i8i8i8i8', now + ttl, t, a, b), ttl, slack)
    end
  end
  values[i] = value
end
return struct.pack('>i8', now) .. table.concat(values)
