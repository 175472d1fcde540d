-- The rules table. KEYS, which lie together:
--   rows     a hash of id -> row; people may change it by hand
--   known    a hash of id -> revision, SHA-1 and author of the row that was seen last
--   state    a hash: version, the greatest that has been; last, the greatest id
--            that has been; print, of the rows as they were seen last
--   history  a stream of changes, whose ids are versions
-- ARGV[1] is the channel on which changes are told.
local rows, known, state, history = KEYS[1], KEYS[2], KEYS[3], KEYS[4]

-- Ids are texts: a number of Lua has 53 bits.
local function less(a, b)
  if #a ~= #b then return #a < #b end
  return a < b
end

local function isID(text) return text:find('^[1-9]%d*$') and not less('9223372036854775807', text) end

-- tick returns a new version: microseconds, so that none comes back when Redis
-- has lost what it knew.
local function tick()
  local version = string.format('%d', math.max(clock(''), (tonumber(redis.call('HGET', state, 'version')) or 0) + 1))
  redis.call('HSET', state, 'version', version)
  return version
end

-- remember notes the row of id as seen.
local function remember(id, version, sum, by)
  redis.call('HSET', known, id, version .. ' ' .. sum .. ' ' .. by)
  if less(redis.call('HGET', state, 'last') or '0', id) then redis.call('HSET', state, 'last', id) end
end

-- recall undoes remember: version, sum, by; nothing for a row that is not there.
local function recall(entry) return (entry or ''):match('^(%d+) (%x+) (.*)$') end

-- print returns a checksum of the rows, and the length of what it is of.
local function print()
  local dump = redis.call('DUMP', rows)
  if not dump then return '', 0 end
  return dump:sub(-8), #dump
end

local function tell() redis.call('PUBLISH', ARGV[1], '') end

-- look takes up what was changed by hand since it looked last: such rows get a
-- new revision, and nobody has changed them. It returns how much it has looked at.
local function look()
  local now, size = print()
  if now == (redis.call('HGET', state, 'print') or '') then return size end
  local found, seen, version = redis.call('HGETALL', rows), {}, nil
  for i = 1, #found, 2 do
    local id, sum = found[i], redis.sha1hex(found[i + 1])
    if isID(id) then
      seen[id] = true
      local _, before = recall(redis.call('HGET', known, id))
      if before ~= sum then
        version = version or tick()
        remember(id, version, sum, '')
      end
    end
  end
  for _, id in ipairs(redis.call('HKEYS', known)) do
    if not seen[id] then
      version = version or tick()
      redis.call('HDEL', known, id)
    end
  end
  redis.call('HSET', state, 'print', now)
  if version then tell() end
  return size
end

-- changed is called after a change of the rows.
local function changed()
  redis.call('HSET', state, 'print', (print()))
  tell()
end

-- note adds a change to the history, which keeps the newest ones, at most most.
local function note(version, id, revision, row, by, deleted, most)
  redis.call('XADD', history, 'MAXLEN', most, version .. '-0', 'id', id, 'revision', revision, 'row', row, 'by', by, 'deleted', deleted)
end

-- expect returns the row of id, or why it has not this revision, '0' for none.
-- What somebody has changed by hand goes into the history.
local function expect(id, revision, most)
  local version, _, by = recall(redis.call('HGET', known, id))
  if revision ~= '0' and not version then return nil, 'gone' end
  if revision ~= (version or '0') then return nil, 'changed' end
  local row = version and redis.call('HGET', rows, id)
  return row, nil, function()
    if by == '' then note(tick(), id, version, row, '', '', most) end
  end
end
