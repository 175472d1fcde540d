package rls

import (
	"encoding/binary"
	"errors"
)

// The types of protobuf's wire format that are read here. Groups, which proto3
// does not have, are refused.
const (
	wireVarint = 0
	wire64     = 1
	wireBytes  = 2
	wire32     = 5
)

var errWire = errors.New("not a message of protobuf")

// fields reads the fields of one message, whose bytes are those of a string so
// that what is read out of it needs no copy.
type fields struct{ rest string }

// next reads the beginning of a field. ok is false at the end of the message.
func (f *fields) next() (number int, kind byte, ok bool, err error) {
	if f.rest == "" {
		return 0, 0, false, nil
	}
	tag, err := f.varint()
	if err == nil && (tag>>3 == 0 || tag>>3 > 1<<29-1) {
		err = errWire
	}
	return int(tag >> 3), byte(tag & 7), true, err
}

func (f *fields) varint() (uint64, error) {
	var n uint64
	for i := 0; i < len(f.rest) && i < binary.MaxVarintLen64; i++ {
		b := f.rest[i]
		if i == binary.MaxVarintLen64-1 && b > 1 {
			break
		}
		n |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			f.rest = f.rest[i+1:]
			return n, nil
		}
	}
	return 0, errWire
}

func (f *fields) bytes() (string, error) {
	n, err := f.varint()
	if err != nil || n > uint64(len(f.rest)) {
		return "", errWire
	}
	return f.cut(int(n)), nil
}

func (f *fields) cut(n int) string {
	head := f.rest[:n]
	f.rest = f.rest[n:]
	return head
}

// skip passes over the value of a field that nobody asks for.
func (f *fields) skip(kind byte) (err error) {
	switch kind {
	case wireVarint:
		_, err = f.varint()
		return err
	case wireBytes:
		_, err = f.bytes()
		return err
	}
	n := map[byte]int{wire64: 8, wire32: 4}[kind]
	if n == 0 || n > len(f.rest) {
		return errWire
	}
	f.cut(n)
	return nil
}

func appendTag(b []byte, number int, kind byte) []byte {
	return binary.AppendUvarint(b, uint64(number)<<3|uint64(kind))
}

// appendVarint appends a number, unless it is 0, which proto3 leaves out.
func appendVarint(b []byte, number int, n uint64) []byte {
	if n == 0 {
		return b
	}
	return binary.AppendUvarint(appendTag(b, number, wireVarint), n)
}

// appendBytes appends a text or an encoded message.
func appendBytes[T string | []byte](b []byte, number int, value T) []byte {
	b = binary.AppendUvarint(appendTag(b, number, wireBytes), uint64(len(value)))
	return append(b, value...)
}
