package server

// For tests.
var Slowest = slowest
