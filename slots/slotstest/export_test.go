package slotstest

import "time"

// Impatient has the suite wait no longer than 4s for what may never come.
func Impatient() { patience = 4 * time.Second }
