package mongodb

import (
	"bytes"
	"context"
	"iter"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

// pageLen is how many documents are listed at a time.
const pageLen = 500

// List implements [limit.Lister]. It reads in pages, so the loop may call the
// store.
//
// MongoDB orders binary values by their length and then byte by byte. So keys
// with a prefix lie together only as far as they have one length, and List
// goes from each length that there is to the next.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[limit.Cell, error] {
	return func(yield func(limit.Cell, error) bool) {
		now, err := s.listClock(ctx)
		for from := []byte(prefix); from != nil && err == nil; {
			var page []document
			page, from, err = s.page(ctx, from, prefix)
			for _, d := range page {
				if d.alive(now) && !yield(limit.Cell{Key: d.key(), State: d.state(), TTL: algo.Ticks(d.Expire)*algo.Millisecond - now}, nil) {
					return
				}
			}
		}
		if err != nil {
			yield(limit.Cell{}, err)
		}
	}
}

func (s *Store) listClock(ctx context.Context) (algo.Ticks, error) {
	if err := s.enter(ctx, "list"); err != nil {
		return 0, err
	}
	defer s.inside.RUnlock()
	found, err := s.look(ctx, nil)
	if err != nil {
		return 0, fault("list", false, err)
	}
	return found.clock, nil
}

// page reads the documents with prefix from one on, among those whose keys are
// as long as it, and says where the next page begins: nil after the last.
func (s *Store) page(ctx context.Context, from []byte, prefix string) (page []document, next []byte, err error) {
	if err := s.enter(ctx, "list"); err != nil {
		return nil, nil, err
	}
	defer s.inside.RUnlock()
	last := fill(prefix, 0xff, len(from))
	page, err = s.find(ctx, bson.D{{Key: "$gte", Value: bson.Binary{Data: from}}, {Key: "$lte", Value: bson.Binary{Data: last}}}, pageLen)
	if err != nil {
		return nil, nil, fault("list", false, err)
	}
	if len(page) == pageLen {
		if next = following(page[pageLen-1].key()); next != nil {
			return page, next, nil
		}
	}
	longest := bson.Binary{Data: fill("", 0xff, len(from))}
	longer, err := s.find(ctx, bson.D{{Key: "$gt", Value: longest}}, 1)
	if err != nil {
		return nil, nil, fault("list", false, err)
	}
	if len(longer) > 0 {
		next = fill(prefix, 0, len(longer[0].key()))
	}
	return page, next, nil
}

func (s *Store) find(ctx context.Context, ids bson.D, most int64) (found []document, err error) {
	answer, err := s.states.Find(ctx, bson.D{{Key: "_id", Value: ids}}, options.Find().SetSort(bson.D{{Key: "_id", Value: 1}}).SetLimit(most))
	if err != nil {
		return nil, err
	}
	return found, answer.All(ctx, &found)
}

// fill returns prefix, filled up with b to a length.
func fill(prefix string, b byte, length int) []byte {
	return append([]byte(prefix), bytes.Repeat([]byte{b}, length-len(prefix))...)
}

// following returns the key of the same length that follows key, nil after the last.
func following(key string) []byte {
	next := []byte(key)
	for i := len(next) - 1; i >= 0; i-- {
		if next[i]++; next[i] != 0 {
			return next
		}
	}
	return nil
}
