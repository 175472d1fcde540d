// Package fair decides how much at once: which request of which tenant starts when a
// seat is free, and which is refused. It is pure and driven by events: it does no
// I/O, reads no clock, starts no goroutine and takes no lock. A [Room] is told what
// happens and when, and says what follows.
//
// # Definitions
//
// A room has C seats. A request of cost c holds c of them from its start to its
// finish, and nothing takes them away from it: what runs is never stopped. A tenant t
// has a weight w(t), a cap on the seats that it holds at once, and a queue. It is
// active while it holds seats or waits for some.
//
// The seat-time of a request is c times how long it ran, x(t) is the sum of it over
// all requests of t. It is kept divided by the weight, as the tenant's virtual time
//
//	v(t) = x(t) / w(t)
//
// so that tenants who have had what is their due have equal v. The room itself has a
// virtual time V, at which a tenant begins who has no history.
//
// # Who starts next
//
// A request is stamped with V when it arrives. The key of a tenant that waits is
//
//	k(t) = max(v(t), stamp of its first request)
//
// and of all tenants that may start, the one with the least key does; of equal ones,
// the one that holds fewest seats for its weight; then the one whose request came
// first. When it starts, V becomes max(V, k) and
//
//	v(t) = k(t) + c·E(t)/w(t)
//
// where E(t) estimates how long t's requests run, a moving average of those that have
// finished. When the request has run for S, v(t) is put right by c·(S-E)/w(t). So v
// counts all that a tenant ever had, not only what it has in flight: a tenant whose
// request has just finished stands behind those that have had less.
//
// # Anti-windup
//
// Credit. Because of the stamp, no request starts at a key below V at its arrival: who
// was idle, or asked for less than its share, has saved up nothing for later.
//
// Debt. v(t) is above V by no more than what was in flight when t last started at a
// key of at most V. V itself moves on with the clock, at C while nobody waits for a
// seat and at half the average rate of the active tenants, busy/(2W), while somebody
// does, W being their weight; it stops at the greatest v. So a debt ends soon when
// there are seats for all, and ends even if an endless row of new tenants comes in
// at V. In fair order a tenant that waits, below its cap, gets the average at least; half
// of that leaves room for estimates that are wrong, so that stamps do not overtake what
// tenants were charged, which would make the order that of arrival.
//
// A tenant that is idle, with v <= V and no demand to speak of, has the order of one that
// was never seen, so it is forgotten; what is lost is how long its requests ran. Others
// are remembered until that holds, at most 4096 of them. So who leaves and comes back has
// won nothing.
//
// # How far from ideal
//
// Let L be the longest that any request runs or was estimated to. Take two tenants a
// and b that both wait, may start and fit whenever a seat is free, during an interval
// in which neither is lifted by a stamp. a starts only while k(a) <= k(b). After that
// v(a) grows by what is charged for that start, and by what earlier ones are put right
// by: together at most C·L/w(a), as at most C seats are in flight. v(b) falls only by
// what is put right, at most C·L/w(b). Hence
//
//	v(a) - v(b) <= C·L·(1/w(a) + 1/w(b))
//
// at any time, and as v differs from the seat-time really had by no more than what is
// in flight, the latter differ by at most twice that. It does not grow with time. This
// is the bound of start-time fair queuing, with C requests in the place of one packet.
//
// # Work conservation, and when a seat is held idle
//
// No seat is idle while a request waits, except for three reasons.
//
// The request's tenant is at its cap.
//
// Width. The tenant with the least key wants more seats than are free. Others that fit
// pass it, until it has stood first for Patience. From then on seats that come free are
// kept for it. So it starts, at the latest, Patience + L after it became first, and it
// costs the others at most (c-1)·L of seat-time. When the least key does not fit, those
// that may pass are looked for among the first 31 of the heap; beyond 31 tenants that
// wait for want of width, one may be overlooked until the next event.
//
// Guarantees. With long requests, fair order alone does not protect: whoever fills the
// room while the others happen to be quiet makes them wait until one of its requests is
// over. So some seats may be held for what the others lately needed.
//
// The demand d(t) is the number of seats that t holds and waits for, at most its cap.
// What waits counts no further than it came within the last E(t), each request
// forgotten with age at that rate: t would hold that much if it were alone, and
// what else has piled up behind others says nothing of what t needs. m(t) and s(t)
// are the mean and the standard deviation of d(t) over the recent past (Memory,
// exponentially forgotten).
//
// The level is the share of the tenants that want most, for each unit of weight, of what
// the others leave who are content with less. In order of (m(t) + max(z, 0)·s(t)) / w(t),
// greatest first, tenants are counted among those that want most until
//
//	level = (C - sum m - z·sqrt(sum s²), both over the others) / weight of these
//
// is enough for each of the others alone. The sum of many is steadier than each of them,
// so it is the others together that are given room: 19 tenants that hold half a seat
// each need no more of it than one that holds as many seats as all of them.
//
// z is the normal quantile of Guarantee, the dial, which at 0 means no guarantees: z is 0
// at 0.5, 1.28 at 0.9, 2.33 at 0.99. The share of t is level·w(t) in whole seats, at least one.
// A tenant may start, if seats are free,
//
//   - up to its share, always;
//
//   - beyond it, if the seats left over cover what the others need and do not have:
//
//     free - c >= sum over others of (m' - u') + z·sqrt(sum over others of s'²)
//
// where m' is m up to the share, s' is s as far as m + z·s stays within it, and u' is
// what the tenant holds, as far as m' + max(z, 3)·s', which is what it may be expected to
// hold at times, while others happen to hold less. So a tenant is blocked by guarantees only
// while it holds its share; nobody starves. When a tenant becomes idle, m and s decay;
// after twice Memory they count as 0, and the seats that were held for it are free. With one tenant alone there
// are no others, and nothing is held.
//
// # The queue of a tenant
//
// First come, first served within each of three priorities. Priorities order the
// requests of one tenant only; between tenants, weight is what there is, as a strict
// order would let the one starve the other. A queue is bounded; when it is full, a
// request is refused, or one that ranks below it. A request that has waited for its
// timeout is refused and never starts.
//
// If a plan has a Target, a tenant's queue is kept short by CoDel: when the least delay
// seen during 100 ms was above Target, those that have waited for more than twice
// Target are refused instead of started, but for the last one waiting.
//
// # Overflow
//
// Virtual time is counted in whole nanoseconds of a seat at weight 1. A room has at most
// 2^16 seats, and of one request at most 4 hours are charged, so what is in flight is
// below 2^60. When V passes 2^61, it is subtracted from every virtual time there is,
// which changes no order.
//
// # Cost
//
// An event costs O(log n) of n active tenants. A sweep over all tenants that are known
// works out the level, the needs and who waited behind whom; it happens every 100 ms
// and 20 µs for each of them.
package fair
