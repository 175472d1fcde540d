package rest

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"time"
)

const (
	// answerLife is how long an answer is remembered.
	answerLife = 10 * time.Minute
	// maxAnswerBytes bounds what all remembered answers take together.
	maxAnswerBytes = 64 << 20
	// maxKey is the most bytes of an Idempotency-Key.
	maxKey = 255
)

// errKeyReused: an idempotency key came again with another body.
var errKeyReused = errors.New("the key was used with another body")

// replays remembers the answers to requests that carry an idempotency key, so
// that a request which is sent again is not charged again. It is safe for
// simultaneous use.
type replays struct {
	max int // answers

	mu       sync.Mutex
	attempts map[string]*attempt
	answered []*attempt // those with an answer, oldest first
	bytes    int        // in the bodies of answered
}

// attempt is the first request with its key. An attempt that fails is
// forgotten, so that the next request with the key is a first one again.
type attempt struct {
	key  string
	body [sha256.Size]byte

	done    chan struct{} // closed at the end; what follows is then fixed
	ok      bool
	answer  answer
	expires time.Time
}

func newReplays(most int) *replays {
	return &replays{max: most, attempts: make(map[string]*attempt)}
}

// do returns decide's answer to the first request with key that succeeds, and
// whether that was another one than this. A request that comes while an
// earlier one is being decided waits for it, as long as ctx allows.
//
// The error is errKeyReused, ctx's or decide's.
func (p *replays) do(ctx context.Context, key string, body [sha256.Size]byte, decide func() (answer, error)) (a answer, replayed bool, err error) {
	for {
		t, first := p.claim(key, body)
		switch {
		case t.body != body:
			return answer{}, false, errKeyReused
		case first:
			a, err := p.try(t, decide)
			return a, false, err
		}
		select {
		case <-t.done:
		case <-ctx.Done():
			return answer{}, false, ctx.Err()
		}
		if t.ok {
			return t.answer, true, nil
		}
	}
}

// claim returns the attempt of key, and whether the caller is to make it.
func (p *replays) claim(key string, body [sha256.Size]byte) (t *attempt, first bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for len(p.answered) > 0 && !now.Before(p.answered[0].expires) {
		p.forgetOldest()
	}
	if t := p.attempts[key]; t != nil {
		return t, false
	}
	t = &attempt{key: key, body: body, done: make(chan struct{})}
	p.attempts[key] = t
	return t, true
}

// try makes attempt t, and ends it even if decide panics.
func (p *replays) try(t *attempt, decide func() (answer, error)) (a answer, err error) {
	ok := false
	defer func() { p.end(t, a, ok) }()
	a, err = decide()
	ok = err == nil
	return a, err
}

func (p *replays) end(t *attempt, a answer, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ok {
		t.ok, t.answer, t.expires = true, a, time.Now().Add(answerLife)
		p.answered = append(p.answered, t)
		p.bytes += len(a.body)
		for len(p.answered) > p.max || p.bytes > maxAnswerBytes {
			p.forgetOldest()
		}
	} else {
		delete(p.attempts, t.key)
	}
	close(t.done)
}

// forgetOldest requires that p.mu is held and that there is an answer.
func (p *replays) forgetOldest() {
	t := p.answered[0]
	p.answered[0] = nil
	p.answered = p.answered[1:]
	p.bytes -= len(t.answer.body)
	delete(p.attempts, t.key)
}
