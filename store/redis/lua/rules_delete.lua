-- Deletes a row. ARGV: the channel, the id, the revision that the row must have,
-- the most changes to keep, who deletes.
--
-- Returns 'deleted'; or why not: 'gone' or 'changed'.
look()
local id, revision, most, by = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local row, why, keep = expect(id, revision, most)
if why then return {why} end
if not row then return {'gone'} end
keep()
note(tick(), id, revision, row, by, 'deleted', most)
redis.call('HDEL', rows, id)
redis.call('HDEL', known, id)
changed()
return {'deleted'}
