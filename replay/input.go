package replay

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

// maxLine is the most bytes of a line that are read.
const maxLine = 64 << 10

const errLong = malformed("the line is longer than 64 KiB")

// input is the logs, one behind the other.
type input struct {
	logs  []string
	stdin io.Reader
	total int64 // bytes of all logs as they are stored; 0 if not known
	read  int64 // of them
}

// newInput looks at all logs, so that a name that is wrong is known at once.
func newInput(logs []string, stdin io.Reader) (*input, error) {
	if len(logs) == 0 {
		return nil, errors.New("replay: no log is given; name those to read, or - for standard input")
	}
	in := &input{logs: logs, stdin: stdin}
	known := true
	for _, path := range logs {
		if path == "-" {
			if stdin == nil {
				return nil, errors.New(`replay: log "-" is standard input, and there is none; set Stdin`)
			}
			known = false
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("replay: log %w", err)
		}
		if info.IsDir() {
			return nil, fmt.Errorf("replay: %s is a folder; name the logs in it", path)
		}
		known = known && info.Mode().IsRegular()
		in.total += info.Size()
	}
	if !known {
		in.total = 0
	}
	return in, nil
}

// reader is told what is in the logs.
type reader interface {
	// begin: what follows is in another log.
	begin(log string)
	// line is the n-th line of the log, without its end. It is long, and not
	// there, if it has more than maxLine bytes.
	line(n int64, line []byte, long bool) error
}

// each reads out every line of every log that is not empty.
func (in *input) each(ctx context.Context, to reader) error {
	for _, log := range in.logs {
		to.begin(log)
		if err := in.file(ctx, log, to); err != nil {
			return err
		}
	}
	return nil
}

func (in *input) file(ctx context.Context, log string, to reader) error {
	file := in.stdin
	if log != "-" {
		f, err := os.Open(log)
		if err != nil {
			return fmt.Errorf("replay: %w", err)
		}
		defer f.Close()
		file = f
	}
	text, err := unpack(&source{ctx: ctx, file: file, count: &in.read})
	if err != nil {
		return fmt.Errorf("replay: %s: %w", log, err)
	}
	for n := int64(1); ; n++ {
		line, long, err := readLine(text)
		if err != nil && err != io.EOF {
			return fmt.Errorf("replay: %s:%d: %w", log, n, err)
		}
		if line = trimEnd(line); long || len(line) > 0 {
			if err := to.line(n, line, long); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
	}
}

// unpack returns a reader of what is in r, which may be compressed by gzip,
// whatever its name is.
func unpack(r io.Reader) (*bufio.Reader, error) {
	packed := bufio.NewReaderSize(r, maxLine)
	magic, err := packed.Peek(2)
	if !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return packed, err
	}
	unpacked, err := gzip.NewReader(packed)
	if err != nil {
		return nil, err
	}
	return bufio.NewReaderSize(unpacked, maxLine), nil
}

// readLine returns the next line, which is valid until the next call. Of one
// that is too long it returns nothing.
func readLine(r *bufio.Reader) (line []byte, long bool, err error) {
	line, err = r.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, false, err
	}
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = r.ReadSlice('\n')
	}
	return nil, true, err
}

func trimEnd(line []byte) []byte {
	line = bytes.TrimSuffix(line, []byte("\n"))
	return bytes.TrimSuffix(line, []byte("\r"))
}

// source reads a log and counts its bytes. It gives up as soon as ctx is done,
// even if the log is a pipe that nobody writes to: the read under way is left
// behind and ends with the pipe.
type source struct {
	ctx    context.Context
	file   io.Reader
	count  *int64
	buffer []byte
	err    error
}

func (s *source) Read(p []byte) (int, error) {
	if s.err == nil {
		s.err = s.ctx.Err()
	}
	if s.err != nil {
		return 0, s.err
	}
	if s.buffer == nil {
		s.buffer = make([]byte, maxLine)
	}
	var err error
	room := s.buffer[:min(len(p), len(s.buffer))]
	done := make(chan int, 1)
	go func() {
		var n int
		n, err = s.file.Read(room)
		done <- n
	}()
	select {
	case <-s.ctx.Done():
		s.err = s.ctx.Err()
		return 0, s.err
	case n := <-done:
		s.err = err
		*s.count += int64(n)
		return copy(p, room[:n]), err
	}
}
