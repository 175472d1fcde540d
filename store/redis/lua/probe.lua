-- Fails unless KEYS can be read and written. Nobody sees it: a script is alone.
clock('')
fetch(KEYS)
set(KEYS[1], ARGV[2], 0, 1)
redis.call('DEL', KEYS[1])
return 'ok'
