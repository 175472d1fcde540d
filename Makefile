# make help says what there is. Everything is built into bin/; nothing is installed elsewhere.
.DEFAULT_GOAL := help
GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
CONFIG  ?= examples/quickstart/stint.yaml

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build bin/stint and the demo service
	$(GO) build -trimpath -ldflags "-X main.version=$(VERSION)" -o bin/stint ./cmd/stint
	$(GO) build -trimpath -o bin/demo ./examples/quickstart/demo

.PHONY: run
run: build ## Run Stint on :8000 in front of the demo service (API on :8080)
	@echo "try, in another terminal: curl -i localhost:8000/items/alex"; echo "and edit $(CONFIG) meanwhile; Ctrl-C ends it"
	@bin/demo -listen 127.0.0.1:9000 & demo=$$!; trap 'kill $$demo 2>/dev/null' EXIT INT TERM; \
	bin/stint serve --config $(CONFIG)

.PHONY: servers
servers: ## Install the servers that the tests start (Debian or Ubuntu, as root)
	internal/servertest/install.sh

# What continuous integration lacks it installs; elsewhere nothing is installed unasked.
ifeq ($(CI),true)
test: servers
endif

.PHONY: test
test: lint ## Check and test everything, with the race detector
	$(GO) test -race -timeout 20m ./...
	$(GO) test -run Alloc ./... # the race detector allocates
	$(MAKE) scenarios SCENARIOS=TestScenarios
	cd bench && $(GO) vet ./... && $(GO) test -timeout 10m ./...

# Those for slots run at full size here; make test has them smaller.
SCENARIOS ?= TestScenarios|TestSlotScenarios
.PHONY: scenarios
scenarios: ## Put loads on Stint and PostgreSQL, and kill them; about ten minutes
	STINT_SCENARIOS=1 $(GO) test -count=1 -timeout 40m -run '$(SCENARIOS)' ./cmd/stint

.PHONY: lint
lint: ## Check formatting, vet and staticcheck
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); \
	if [ -n "$$unformatted" ]; then echo "not formatted, run gofmt -w on:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) tool -modfile=tools/go.mod staticcheck ./...

.PHONY: fuzz
fuzz: ## Fuzz every parser for FUZZTIME each (default 20s)
	@for package in $$($(GO) list ./...); do \
		for target in $$($(GO) test -list '^Fuzz' $$package | grep '^Fuzz'); do \
			echo "$$package $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $${FUZZTIME:-20s} $$package || exit 1; \
		done; \
	done

.PHONY: bench
bench: ## Measure, and compare with peers (bench/); takes some minutes
	$(GO) test -run '^$$' -bench . -benchmem ./...
	$(MAKE) -C bench
