package redis

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/redis/rueidis"

	"github.com/stint-dev/stint/limit"
)

// Notify implements [limit.Notifier].
func (s *Store) Notify(ctx context.Context, message string) error {
	if err := s.enter(ctx, "notify", nil); err != nil {
		return err
	}
	defer s.inside.RUnlock()
	// As if the channel were a key: always through the same node of a cluster,
	// so that messages are heard in the order in which they were sent.
	publish := s.client.B().Arbitrary("PUBLISH").Keys(s.channel).Args(message).Build()
	if err := s.client.Do(ctx, publish).Error(); err != nil {
		return s.fault("notify", maySent(err), err)
	}
	return nil
}

// Listen implements [limit.Notifier]. It has a connection of its own.
func (s *Store) Listen(ctx context.Context, heard func(message string)) error {
	return s.listen(ctx, "listen", s.channel, heard)
}

func (s *Store) listen(ctx context.Context, op, channel string, heard func(message string)) error {
	if err := s.enter(ctx, op, nil); err != nil {
		return err
	}
	client, release := s.client.Dedicate()
	s.inside.RUnlock() // Close does not wait for those who listen
	defer release()

	messages, done := make(chan string), make(chan struct{})
	defer close(done)
	lost := client.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) {
		select {
		case messages <- m.Message:
		case <-done:
		}
	}})
	// In a cluster the first command says which node the connection is to. It is
	// the one that Notify goes through: another hears of a message later.
	err := client.Do(ctx, client.B().Mget().Key(channel).Build()).Error()
	if err == nil {
		err = client.Do(ctx, client.B().Subscribe().Channel(channel).Build()).Error()
	}
	if err != nil {
		return s.fault(op, false, err)
	}
	heard("")
	for {
		select {
		case message := <-messages:
			heard(message)
		case err := <-lost:
			return s.fault(op, false, fmt.Errorf("the connection was lost: %w", cmp.Or(err, io.EOF)))
		case <-s.ending:
			return s.fault(op, false, limit.ErrClosed)
		case <-ctx.Done():
			return s.fault(op, false, ctx.Err())
		}
	}
}
