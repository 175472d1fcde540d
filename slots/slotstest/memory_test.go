package slotstest_test

import (
	"testing"

	"github.com/stint-dev/stint/slots/slotstest"
)

func TestMemory(t *testing.T) { slotstest.Run(t, new(server).harness()) }
