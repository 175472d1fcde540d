// Package peers puts Stint, as the process that it is, beside servers that do the same
// and beside the least that a server could do. One generator loads all of them over
// loopback, in turn, and what they take is read from the system.
//
//	make -C bench peers
//
// measures for some minutes and writes docs/benchmarks.md and its chart. Without
// -write, as go test ./... has it, everything is measured once and shortly, which
// shows that the driver works and nothing else.
package peers
