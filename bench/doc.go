// Package bench compares Stint, in process, with other Go rate limiters and
// with the least that a limiter could do. It is a module of its own, so that
// nobody who uses Stint downloads its peers.
//
// All run in one program, one after the other, several times over: `make` here
// prints the medians and their ratios. Numbers of different runs, or machines,
// are not to be compared.
package bench
