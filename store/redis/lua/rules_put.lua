-- Writes a row. ARGV: the channel, the id or '0', the revision that the row must
-- have, the most changes to keep, who writes, the row, its name, its path.
--
-- Returns 'put', the id and the revision; or why not: 'gone', 'changed', 'name'
-- or 'path'.
look()
local id, most, by, row, name, path = ARGV[2], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8]
local _, why, keep = expect(id, ARGV[3], most)
if why then return {why} end
local all = redis.call('HGETALL', rows)
for i = 1, #all, 2 do
  if all[i] ~= id and isID(all[i]) then
    local ok, other = pcall(cjson.decode, all[i + 1])
    if ok and type(other) == 'table' then
      if name ~= '' and other.name == name then return {'name'} end
      if path ~= '' and other.path == path then return {'path'} end
    end
  end
end
keep()
if id == '0' then
  redis.call('HINCRBY', state, 'last', 1)
  id = redis.call('HGET', state, 'last')
end
local version = tick()
note(version, id, version, row, by, '', most)
redis.call('HSET', rows, id, row)
remember(id, version, redis.sha1hex(row), by)
changed()
return {'put', id, version}
