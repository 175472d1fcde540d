package memory

import (
	"hash/maphash"

	"github.com/stint-dev/stint/limit"
)

// storeKey is a store key in its parts: what [limit.StoreKey] joins. Take looks
// keys up by their parts and so need not join them.
type storeKey struct {
	algorithm byte // its ID
	bare      bool // rest is the whole key: it is not one that StoreKey makes
	policy    string
	rest      string
}

// split takes a joined key apart, so that it hashes like its parts.
func split(joined string) storeKey {
	if len(joined) < 2 || len(joined) < 2+int(joined[1]) {
		return storeKey{bare: true, rest: joined}
	}
	end := 2 + int(joined[1])
	return storeKey{algorithm: joined[0], policy: joined[2:end], rest: joined[end:]}
}

// hash returns a hash whose bits are all of use.
func (k *storeKey) hash(seed maphash.Seed) uint64 {
	const odd = 0x9e3779b97f4a7c15 // 2^64 divided by the golden ratio
	h := maphash.String(seed, k.policy) + uint64(k.algorithm)
	return h*odd + maphash.String(seed, k.rest)
}

func (k *storeKey) len() int {
	if k.bare {
		return len(k.rest)
	}
	return 2 + len(k.policy) + len(k.rest)
}

// is reports whether k joined is joined.
func (k *storeKey) is(joined string) bool {
	end := len(joined) - len(k.rest)
	if end < 0 || joined[end:] != k.rest {
		return false
	}
	if k.bare {
		return end == 0
	}
	return end == 2+len(k.policy) && joined[0] == k.algorithm &&
		int(joined[1]) == len(k.policy) && joined[2:end] == k.policy
}

// join returns the joined key in memory of its own.
func (k *storeKey) join() string {
	b := make([]byte, 0, limit.MaxKeyLen) // stays on the stack
	if !k.bare {
		b = append(b, k.algorithm, byte(len(k.policy)))
		b = append(b, k.policy...)
	}
	return string(append(b, k.rest...))
}
