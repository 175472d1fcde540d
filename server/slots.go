package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stint-dev/stint/config"
	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/deliver"
	"github.com/stint-dev/stint/telemetry"
)

// openSlots makes what books in a ledger and, if the configuration has a secret, what
// delivers. stop ends both; what delivers begins to end with ctx.
func openSlots(ctx context.Context, ledger slots.Ledger, sender func(f *config.File) (deliver.Sender, error), p *Process) (stop func(), err error) {
	metrics := p.Metrics.Slots()
	bell := new(deliver.Bell)
	p.Ledger = ledger
	p.Slots = slots.New(ledger, &slots.Options{Timeout: time.Duration(p.File.Slots.Timeout), Observer: slotObservers{metrics, bell}})
	stop = func() { p.Slots.Close() }
	f := p.File.Slots.Delivery
	if f.Secret == "" {
		return stop, nil
	}
	outbox, can := ledger.(slots.Outbox)
	if !can || sender == nil {
		return nil, errors.New("slots.delivery: this Stint, or the store of slots, delivers nothing; leave it out")
	}
	s, err := sender(p.File)
	if err != nil {
		return nil, fmt.Errorf("slots.delivery: %w", err)
	}
	d := deliver.New(p.Slots, outbox, s, &deliver.Options{
		Timeout: time.Duration(f.Timeout), Attempts: f.Attempts, Grace: time.Duration(f.Grace),
		Bell: bell, Observer: metrics.Delivery(), Logger: p.Logger,
	})
	p.Delivers = true
	running, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.Run(running)
	}()
	return func() {
		cancel()
		<-done
		p.Slots.Close()
	}, nil
}

// slotObservers are told what a Scheduler does: to count it, and to deliver at once
// what is due at once.
type slotObservers struct {
	metrics *telemetry.SlotMetrics
	bell    *deliver.Bell
}

func (o slotObservers) Grouped(g *slots.Group) {
	o.metrics.Grouped(g)
	o.bell.Grouped(g)
}
