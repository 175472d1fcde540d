-- Returns id, what is known, and row of those whose ids come after ARGV[2], in
-- the order of their ids, and ARGV[3] of them at most.
look()
local ids = {}
for _, id in ipairs(redis.call('HKEYS', known)) do
  if less(ARGV[2], id) then ids[#ids + 1] = id end
end
table.sort(ids, less)
local reply = {}
for i = 1, math.min(#ids, tonumber(ARGV[3])) do
  for _, part in ipairs({ids[i], redis.call('HGET', known, ids[i]), redis.call('HGET', rows, ids[i])}) do
    reply[#reply + 1] = part
  end
end
return reply
