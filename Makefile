# Everything that needs a tool builds it first, at the version that internal/tools/go.mod pins: Go, git, make and a C
# compiler (for the race detector) are all that must be there. The emitter's tests need Python too; without it they say that
# they are not run.

COLLECTOR := dist/otelcol-rawoutput
PEERS     := test/bench/dist/otelcol-peers
TOOLS     := .tools
OCB       := $(TOOLS)/ocb
MDATAGEN  := $(TOOLS)/mdatagen
LINT      := $(TOOLS)/staticcheck

# What the Collector and the tools are made of, so that make knows when to build them again.
SOURCES := $(shell git ls-files --cached --others --exclude-standard -- '*.go' ':!test' ':!*_test.go')

.PHONY: help
help: ## Say what there is to make
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

.PHONY: run
run: build ## Build the Collector, send it a short recorded stream, show the files and the counters
	@go run ./scripts/demo

.PHONY: build
build: $(COLLECTOR) $(TOOLS)/rawoutput ## Build the Collector (dist/otelcol-rawoutput) and the tool (.tools/rawoutput)

$(COLLECTOR): builder-config.yaml go.mod $(SOURCES) | $(OCB)
	$(OCB) --config builder-config.yaml

$(TOOLS)/rawoutput: go.mod $(SOURCES)
	go build -o $@ ./cmd/rawoutput

.PHONY: test
test: build ## Run every test: unit, race, conformance, end to end with the built Collector
	@go test -race ./...
	@go test ./internal/heapsize # it measures the heap, which the race detector changes
	@cd test/bench && go test ./...
	@scripts/python.sh pytest
	@RAWOUTPUT_COLLECTOR=$(CURDIR)/$(COLLECTOR) RAWOUTPUT_TOOL=$(CURDIR)/$(TOOLS)/rawoutput \
		RAWOUTPUT_PYTHON=$$(scripts/python.sh path) go test -count=1 ./test/...

.PHONY: soak
soak: build ## Run the long tests: 200 kills, a million records
	@RAWOUTPUT_SOAK=1 RAWOUTPUT_COLLECTOR=$(CURDIR)/$(COLLECTOR) RAWOUTPUT_TOOL=$(CURDIR)/$(TOOLS)/rawoutput \
		go test -count=1 -timeout=60m -v -run='Kill|Many' ./test/e2e

.PHONY: fuzz
fuzz: ## Run each fuzz target for FUZZTIME (30s)
	scripts/fuzz.sh $(or $(FUZZTIME),30s)

.PHONY: bench
bench: ## Run the benchmarks
	go test -run='^$$' -bench=. -benchmem ./...
	cd test/bench && go test -bench=. ./...

.PHONY: bench-e2e
bench-e2e: build $(PEERS) ## Compare what recording costs a Collector with receiving alone and with others (half an hour)
	cd test/bench && go run . -collector ../../$(COLLECTOR) -peers ../../$(PEERS) -rounds $(or $(ROUNDS),3)

$(PEERS): test/bench/peers.yaml | $(OCB)
	cd test/bench && $(CURDIR)/$(OCB) --config peers.yaml

.PHONY: bench-emitter
bench-emitter: ## Compare what the emitter's hook costs a server with what others cost it
	scripts/python.sh pip install --quiet --disable-pip-version-check --requirement benchmark/requirements.txt
	scripts/python.sh benchmark.hooks --rounds $(or $(ROUNDS),5)

.PHONY: lint
lint: $(LINT) ## Check formatting, vet, staticcheck, tidiness, Python's types, and that it compiles for darwin and windows
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); echo "these files need gofmt"; exit 1; }
	go vet ./...
	$(LINT) ./...
	go mod tidy -diff
	cd internal/tools && go mod tidy -diff
	cd test/bench && go mod tidy -diff && go vet ./...
	scripts/python.sh mypy
	GOOS=darwin go vet ./...
	GOOS=windows go vet ./...

.PHONY: generate
generate: $(MDATAGEN) ## Generate code and documentation from each metadata.yaml
	PATH="$(CURDIR)/$(TOOLS):$$PATH" go generate ./...

.PHONY: clean
clean: ## Remove what was built
	rm -rf dist test/bench/dist $(TOOLS)

$(OCB): internal/tools/go.mod internal/tools/go.sum
	cd internal/tools && go build -o $(CURDIR)/$@ go.opentelemetry.io/collector/cmd/builder

$(MDATAGEN): internal/tools/go.mod internal/tools/go.sum
	cd internal/tools && go build -o $(CURDIR)/$@ go.opentelemetry.io/collector/cmd/mdatagen

$(LINT): internal/tools/go.mod internal/tools/go.sum
	cd internal/tools && go build -o $(CURDIR)/$@ honnef.co/go/tools/cmd/staticcheck
