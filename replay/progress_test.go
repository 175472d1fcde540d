package replay

import "testing"

func TestPart(t *testing.T) {
	for _, tt := range []struct {
		p    Progress
		want float64
	}{
		{Progress{Bytes: 40, Total: 100}, 0.4},
		{Progress{Bytes: 120, Total: 100}, 1},
		{Progress{Bytes: 40}, 0},
	} {
		if got := tt.p.Part(); got != tt.want {
			t.Errorf("%+v: %v; want %v", tt.p, got, tt.want)
		}
	}
}
