// Command table reads the output of Go benchmarks, run once or many times, and
// prints the medians as Markdown. Each group, BenchmarkGroup/subject, is a
// table; its first subject is what the others are compared with.
package main

import (
	"fmt"
	"io"
	"os"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "table:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	groups, err := read(in)
	if err != nil {
		return err
	}
	for _, g := range groups {
		if err := g.write(out); err != nil {
			return err
		}
	}
	return nil
}
