local passed = t % window
if at < t - passed then a = 0 end
n = often(quota - a)
a, b, reset = a + n * cost, 0, window - passed
