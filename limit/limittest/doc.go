// Package limittest is the definition of what a [limit.Store] must do, and of
// what a decision is at every height above it.
//
// [Run] holds a store against sixteen properties and one recorded history. A
// store's own tests call it once and need to test nothing of the contract
// themselves:
//
//	func TestStore(t *testing.T) {
//		limittest.Run(t, limittest.Harness{Open: open})
//	}
//
// A [Script] is a short text of spends and what becomes of them, at instants
// that it names. [Scripts] are run against the pure algorithms, against every
// store, and against whatever else implements [Subject].
package limittest
