-- Returns what is known of the row of id ARGV[2], and the row; nothing without one.
look()
local entry = redis.call('HGET', known, ARGV[2])
if not entry then return {} end
return {entry, redis.call('HGET', rows, ARGV[2])}
