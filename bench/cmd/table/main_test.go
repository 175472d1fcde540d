package main

import (
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	for _, test := range []struct{ name, in, want, err string }{
		{
			name: "medians and ratios",
			in: `goos: linux
BenchmarkKeys/stint     	 100	 100.0 ns/op	 0 B/op
BenchmarkKeys/go-limiter     	 100	 300 ns/op	 16 B/op
BenchmarkKeys/stint-2     	 100	 50 ns/op	 0 B/op
BenchmarkKeys/go-limiter-2   	 100	 200 ns/op	 16 B/op
BenchmarkHeap/stint     	 1	 99.5 heap-B/key
BenchmarkKeys/stint     	 100	 900 ns/op	 0 B/op
BenchmarkKeys/go-limiter     	 100	 100 ns/op	 16 B/op
BenchmarkKeys/stint     	 100	 120 ns/op	 0 B/op
PASS
`,
			want: `### Keys

| | ns/op, 1 cpu | ns/op, 2 cpus | B/op, 1 cpu | B/op, 2 cpus |
|---|---:|---:|---:|---:|
| stint | 120 | 50 | 0 | 0 |
| go-limiter | 200 (1.67x) | 200 (4.00x) | 16 | 16 |

### Heap

| | heap-B/key, 1 cpu |
|---|---:|
| stint | 99.5 |

`,
		},
		{name: "no benchmark", in: "PASS\n", err: "no benchmark in the input; lines such as BenchmarkGroup/subject 100 12 ns/op are expected"},
		{name: "no number", in: "BenchmarkKeys/stint 100 fast ns/op\n", err: `a number and a unit are expected in "BenchmarkKeys/stint 100 fast ns/op"`},
		{name: "no unit", in: "BenchmarkKeys/stint 100 12\n", err: `a number and a unit are expected in "BenchmarkKeys/stint 100 12"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out strings.Builder
			err := run(strings.NewReader(test.in), &out)
			if err != nil && err.Error() != test.err || err == nil && test.err != "" {
				t.Errorf("got error %v, want %q", err, test.err)
			}
			if out.String() != test.want {
				t.Errorf("got\n%s\nwant\n%s", out.String(), test.want)
			}
		})
	}
}
