package rls

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// request and response are messages as they are on the wire. The service reads and
// writes them by itself, without reflection.
type (
	request  struct{ message string }
	response struct{ data mem.BufferSlice }
)

// codec passes on the messages of the rate limit service as they are, and has those
// of health and reflection encoded as ever.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if r, ok := v.(*response); ok {
		return r.data, nil
	}
	return c.CodecV2.Marshal(v)
}

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	r, ok := v.(*request)
	switch {
	case !ok:
		return c.CodecV2.Unmarshal(data, v)
	case len(data) == 1:
		r.message = string(data[0].ReadOnlyData())
	default:
		r.message = string(data.Materialize())
	}
	return nil
}

// copied returns a copy of an encoded message, for gRPC to send and to let go of.
func copied(message []byte) mem.BufferSlice {
	return mem.BufferSlice{mem.Copy(message, mem.DefaultBufferPool())}
}
