package proxy

import "sync"

const bufferSize = 32 << 10

// buffers lends what bodies are copied through. The zero value is ready to use
// and safe for simultaneous use.
type buffers struct{ pool sync.Pool } // of *[bufferSize]byte

func (b *buffers) Get() []byte {
	if buf, ok := b.pool.Get().(*[bufferSize]byte); ok {
		return buf[:]
	}
	return make([]byte, bufferSize)
}

func (b *buffers) Put(buf []byte) { b.pool.Put((*[bufferSize]byte)(buf)) }
