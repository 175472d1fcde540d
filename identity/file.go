package identity

import (
	"errors"
	"fmt"
	"io"
	"os"
)

const (
	maxKeyData  = 1 << 20  // bytes, of a key set, a key or a secret
	maxKeysFile = 16 << 20 // bytes, of a file of API keys
)

// readFile returns what is in a file of at most maxBytes. Its errors don't
// name the file.
func readFile(name string, maxBytes int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		if e, ok := errors.AsType[*os.PathError](err); ok {
			err = e.Err
		}
		return nil, err
	}
	defer f.Close()
	return readAll(f, maxBytes)
}

// readAll returns all of r, which may have at most maxBytes.
func readAll(r io.Reader, maxBytes int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxBytes+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > maxBytes {
		return nil, fmt.Errorf("has more than %d MiB", maxBytes>>20)
	}
	return data, nil
}
