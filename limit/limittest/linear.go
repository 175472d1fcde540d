package limittest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/stint-dev/stint/limit/algo"
)

const linearQuota = 20

// answer is what a take under the fixed window is told, as far as it does not
// depend on the time.
type answer struct {
	OK        bool
	Remaining int64
}

// counter is a window that does not end, as one caller after the other sees
// it: the state is what has been spent, the input a cost.
var counter = porcupine.Model{
	Init: func() any { return int64(0) },
	Step: func(state, input, output any) (bool, any) {
		spent, cost := state.(int64), input.(int64)
		want := answer{OK: spent+cost <= linearQuota}
		if want.OK {
			spent = max(0, spent+cost)
		}
		want.Remaining = linearQuota - spent
		return output == want, spent
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("take %d: %+v", input, output) },
}

// linearizability records takes and refunds of one key by several callers and
// looks for an order, consistent with when each began and ended, in which one
// caller would have been told the same.
func linearizability(t *testing.T, h Harness) {
	clients, p := h.clients(t), year(algo.Fixed, linearQuota)
	ctx, began := timeout(t), time.Now()
	var mu sync.Mutex
	var history []porcupine.Operation
	var wg sync.WaitGroup
	for g := range 6 {
		wg.Go(func() {
			for i := range 20 {
				cost := []int64{1, 3, -2, 2, 0, -1, 5}[(g+i)%7]
				call := time.Since(began)
				v, err := spendAnyWay(ctx, clients[g%2], p, cost, i)
				back := time.Since(began)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				history = append(history, porcupine.Operation{ClientId: g, Input: cost, Call: int64(call), Output: answer{v.OK, v.Remaining}, Return: int64(back)})
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if result := porcupine.CheckOperationsTimeout(counter, history, patience); result != porcupine.Ok {
		t.Errorf("%d takes by 6 callers: the check says %v, want an order in which one caller would have been told the same", len(history), result)
		for _, op := range history {
			t.Logf("caller %d from %v to %v: %s", op.ClientId, time.Duration(op.Call), time.Duration(op.Return), counter.DescribeOperation(op.Input, op.Output))
		}
	}
}
