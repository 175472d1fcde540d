-- Looks at KEYS, and writes those states that nobody has changed since they
-- were looked at before: each on its own, or all together or none.
--
-- ARGV: the key of the clock, the version of what is written, the slack, 'each'
-- or 'together'; then for each key the version that is expected, empty for none,
-- the TTL, 0 to drop it, and the state, empty to write nothing.
--
-- Returns the instant and, for each key, '=' if it was written, or else the
-- value that it has.
local now, version, slack = clock(ARGV[1]), ARGV[2], tonumber(ARGV[3])
local found, same, all = fetch(KEYS), {}, true
for i = 1, #KEYS do
  local value = found[i]
  if value and #value >= 40 and struct.unpack('>i8', value, 9) <= now then
    value, found[i] = false, false
  end
  same[i] = ARGV[3 * i + 2] == (value and value:sub(1, 8) or '')
  all = all and same[i]
end

local reply = {struct.pack('>i8', now)}
for i = 1, #KEYS do
  local ttl, state = tonumber(ARGV[3 * i + 3]), ARGV[3 * i + 4] or ''
  reply[i + 1] = found[i]
  if state ~= '' and same[i] and (all or ARGV[4] == 'each') then
    if ttl > 0 then
      set(KEYS[i], version .. struct.pack('>i8', now + ttl) .. state, ttl, slack)
    else
      redis.call('DEL', KEYS[i])
    end
    reply[i + 1] = '='
  end
end
return reply
