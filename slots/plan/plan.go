// Package plan decides when: it finds for each event the earliest free slot, so
// that no interval of one window's length, wherever it begins, holds more than
// Max of them. It is pure: it keeps nothing, reads no clock, starts no goroutine
// and takes no lock. It does no I/O, except that a [Calendar]'s zone is looked up
// when a [Timeline] is made.
//
// # Slots
//
// Time is cut into windows that lie end to end, and a window into Max phases:
// offsets that are the same in every window. A [Slot] is a pair of a window and a
// phase, and holds one event. Any interval of one window's length meets each
// phase exactly once, so it holds at most Max events, however they came there:
// while a config stays as it is, a primary key is all the proof that is needed.
// And all Max slots of every window can be used.
//
// The earliest free slot is linear probing. Which slots are taken in the end, and
// the sum of the delays, do not depend on the order of arrival.
//
// # Changes
//
// A config is a list of [Version]s. As long as they leave the slots where they
// are and change nothing but Max, they are of one era: a slot of it is the same
// slot under all of them. Another Window, Mode, Seed or Calendar, or another Max
// under Spread, begins a new era, whose slots are numbered anew. What is booked
// stays where it is, whatever changes, and what is booked afterwards makes room
// for it:
//
//   - a version holds from its From on, Max from the window on that From lies in;
//   - once a slot is taken, every interval of its era's Window that it lies in
//     and that ends before the next era begins holds at most Max slots, of
//     whichever era: the greatest Max under which any slot of the era in the two
//     windows that it touches was booked. So where Max is lowered, windows with
//     fewer slots may begin right behind those with more;
//   - so an interval that holds more than that has not been added to since the
//     change, and one that reaches over a change keeps the promise of the new
//     era. For that, what is booked before the change has come is booked a Window
//     after it at the earliest.
//
// # The seam to a ledger
//
// A ledger keeps, for each config,
//
//	version(config, number, from, max, window, mode, seed, calendar)
//	slot(config, era, window, phase, at, event)   primary key (config, era, window, phase)
//	                                              unique (config, event), index (config, era, at)
//	window(config, era, window, taken)            taken is Bits
//	full(config, era, from, to)                   runs of windows without a free slot
//
// and books in one transaction: lock the config and read its versions (the
// Timeline can be kept for as long as they are the same), look up the events that
// are known, and call [Timeline.Book] with an [Occupancy] that reads window and
// full as it is asked. Then insert the slots granted, write [Booking.Windows], and
// put each run of [Booking.Full] in place of those that it overlaps.
//
// To give a slot back, delete it, clear its bit, and cut the windows that
// [Timeline.Reopened] names out of full. To add a version, check it with [New],
// insert it, and empty full: its rows say what was full under the versions
// before, and the next booking finds out anew. full is never more than a cache,
// and window repeats what slot says, so both can be made again.
package plan
