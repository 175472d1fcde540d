-- Returns the version, and how much was looked at. ARGV[2]: 'look' or not.
local size = 0
if ARGV[2] == 'look' then size = look() end
return {redis.call('HGET', state, 'version') or '0', size}
