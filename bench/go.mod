module github.com/stint-dev/stint/bench

go 1.26.0

replace github.com/stint-dev/stint => ../

require (
	github.com/sethvargo/go-limiter v0.7.1
	github.com/stint-dev/stint v0.0.0-00010101000000-000000000000
	github.com/throttled/throttled/v2 v2.15.0
	golang.org/x/sync v0.24.0
	golang.org/x/time v0.16.0
)

require github.com/hashicorp/golang-lru v0.5.4 // indirect
