package isolate_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/stint-dev/stint/isolate"
)

func Example() {
	seats, err := isolate.New(isolate.Config{
		Seats: 32,
		Plans: map[string]isolate.Plan{
			"default": {Weight: 1, MaxSeats: 16, Queue: 50, QueueTimeout: 5 * time.Second},
			"gold":    {Weight: 4, Queue: 200, QueueTimeout: 5 * time.Second},
		},
		Guarantee: 0.5,
	}, nil)
	if err != nil {
		panic(err)
	}
	report := func(w http.ResponseWriter, r *http.Request) {
		seat, err := seats.AcquireFor(r.Context(), isolate.Request{Tenant: "acme", Plan: "gold"})
		if rejection, ok := errors.AsType[*isolate.Rejection](err); ok {
			w.Header().Set("Retry-After", fmt.Sprint(1+int(rejection.RetryAfter.Seconds())))
			http.Error(w, rejection.Reason.String(), http.StatusServiceUnavailable)
			return
		} else if err != nil {
			return // the client has gone
		}
		defer seat.Release()
		fmt.Fprintln(w, "the report")
	}
	http.HandleFunc("/report", report)
}

// A tenant does one thing at a time; the third has no place to wait.
func ExampleIsolator_Acquire() {
	seats, _ := isolate.New(isolate.Config{Seats: 8, Plans: map[string]isolate.Plan{
		"default": {Weight: 1, MaxSeats: 1},
	}}, nil)
	first, _ := seats.Acquire(context.Background(), "acme", 1)
	_, err := seats.Acquire(context.Background(), "acme", 1)
	rejection, _ := errors.AsType[*isolate.Rejection](err)
	fmt.Println(rejection.Reason)
	other, err := seats.Acquire(context.Background(), "umbrella", 1)
	fmt.Println(err)
	fmt.Println(first.Release(), first.Release(), other.Release())
	// Output:
	// queue full
	// <nil>
	// true false true
}

// The caller is answered after 10 ms. The work goes on, and so does its seat.
func ExampleIsolator_Do() {
	seats, _ := isolate.New(isolate.Config{Seats: 8, Plans: map[string]isolate.Plan{
		"default": {Weight: 1, Timeout: 10 * time.Millisecond},
	}}, nil)
	work := make(chan struct{})
	err := seats.Do(context.Background(), isolate.Request{Tenant: "acme"}, func(ctx context.Context) error {
		<-work
		return nil
	})
	fmt.Println(err)
	fmt.Println(seats.Snapshot(0).Busy)
	close(work)
	fmt.Println(seats.Close(context.Background()), seats.Snapshot(0).Busy)
	// Output:
	// context deadline exceeded
	// 1
	// <nil> 0
}
