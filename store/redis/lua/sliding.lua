local passed = t % window
local start = t - passed
if at < start then
  a, b = at >= start - window and b or 0, 0
end
-- A product above 2^52 is rounded, and then more than quota is left of a anyway.
n = often(quota - b - floor(a * (window - passed) / window))
b, reset = b + n * cost, 2 * window - passed
