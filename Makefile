# Headgate. `make help` lists the targets. Needs Go, git, make and Node.

GO ?= go
TESTFLAGS ?=
BENCHFLAGS ?=

GOLANGCI_VERSION      := v2.15.0
WORKFLOWCHECK_VERSION := v0.6.0

# Of playwright-core; the same as in activities/playwright/install.go, which a test compares.
PLAYWRIGHT_VERSION := 1.64.1
AXE_VERSION := 4.14.1
DRIVER := $(or $(PLAYWRIGHT_DRIVER_PATH),$(HOME)/.cache/ms-playwright-go/$(PLAYWRIGHT_VERSION))

SERVER        := bin/headgate-server
GOLANGCI      := bin/golangci-lint-$(GOLANGCI_VERSION)
WORKFLOWCHECK := bin/workflowcheck-$(WORKFLOWCHECK_VERSION)

# Tests start these as real processes.
export HEADGATE_BIN        := $(CURDIR)/bin/headgate
export HEADGATE_SERVER_BIN := $(CURDIR)/$(SERVER)

# A checkout that git does not own (a container, root) builds all the same.
export GOFLAGS := $(filter-out -buildvcs=%,$(GOFLAGS)) -buildvcs=false

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# progress runs $(1), a `go build -v` or the like, and shows a counter in place of the names it prints: one line that
# moves on a terminal, a line per hundred otherwise. Everything else it prints is passed on, and its exit status kept.
define progress
{ $(1) 2>&1; echo "exit $$?"; } | { \
	modules=0; packages=0; status=1; moved=; \
	show() { \
		if [ -t 1 ]; then printf '\r  %s' "$$1"; moved=yes; \
		elif [ $$(($$2 % 100)) -eq 0 ]; then echo "  $$1"; fi; }; \
	newline() { if [ -n "$$moved" ]; then echo; moved=; fi; }; \
	while IFS= read -r line; do case $$line in \
		"exit "*) status=$${line#exit } ;; \
		"go: downloading "*) modules=$$((modules + 1)); show "$$modules modules downloaded" $$modules ;; \
		""|*[!A-Za-z0-9._~/+-]*) newline; printf '%s\n' "$$line" ;; \
		*) if [ $$packages -eq 0 ]; then newline; fi; \
			packages=$$((packages + 1)); show "$$packages packages compiled" $$packages ;; \
	esac; done; \
	newline; exit $$status; }
endef

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

.PHONY: build
build: $(SERVER) ## build bin/headgate and bin/headgate-server
	@[ -e bin/headgate ] || echo "building bin/headgate; the first time takes about 2 minutes"
	@$(call progress,$(GO) build -v -o bin/headgate ./starter)

# Make decides by date here, because even a build with nothing to do loads 1,800 packages.
$(SERVER): $(filter-out %_test.go,$(wildcard devserver/*.go)) devserver/go.mod devserver/go.sum
	@echo "building the embedded Temporal server; the first time takes about 6 minutes (1,800 packages on two cores)"
	@cd devserver && $(call progress,$(GO) build -v -ldflags='-s -w' -o ../$(SERVER) .)
	@touch $(SERVER)

.PHONY: browser
browser: $(DRIVER)/package/cli.js ## install what browser operations need, if it is not there
	@for name in "$(HEADGATE_CHROMIUM)" chromium google-chrome google-chrome-stable chrome; do \
		if [ -n "$$name" ] && command -v "$$name" >/dev/null; then exit 0; fi; done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && ! grep -qs '^ID=ubuntu' /etc/os-release; then \
		echo "installing Chromium (125 MB)"; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium fonts-liberation >/dev/null; \
	else \
		echo "there is no Chromium or Chrome on the PATH: installing Playwright's own"; \
		$(DRIVER)/node $(DRIVER)/package/cli.js install --only-shell chromium; \
	fi

$(DRIVER)/package/cli.js:
	@echo "installing the browser driver (playwright-core $(PLAYWRIGHT_VERSION), 3 MB)"
	@dir=$$(mktemp -d) && mkdir -p $(DRIVER) && (cd $$dir && npm pack --silent playwright-core@$(PLAYWRIGHT_VERSION) >/dev/null) && \
		tar -xzf $$dir/playwright-core-$(PLAYWRIGHT_VERSION).tgz -C $(DRIVER) && ln -sfn "$$(command -v node)" $(DRIVER)/node && rm -r $$dir
	@touch $@

# Checks the console for accessibility, in tests only.
$(DRIVER)/axe-$(AXE_VERSION).min.js: $(DRIVER)/package/cli.js
	@dir=$$(mktemp -d) && (cd $$dir && npm pack --silent axe-core@$(AXE_VERSION) >/dev/null) && \
		tar -xzf $$dir/axe-core-$(AXE_VERSION).tgz -C $$dir && mv $$dir/package/axe.min.js $@ && rm -r $$dir
	@touch $@

# The rules in deploy/prometheus are tested by it; where it cannot be had, only by our own evaluator.
.PHONY: promtool
promtool:
	@if command -v promtool >/dev/null || [ -x bin/promtool ]; then exit 0; fi; \
	if command -v apt-get >/dev/null && command -v dpkg >/dev/null; then \
		echo "fetching promtool (19 MB)"; mkdir -p bin; dir=$$(mktemp -d); \
		(cd $$dir && { apt-get download -qq prometheus >/dev/null 2>&1 || { apt-get update -qq && apt-get download -qq prometheus >/dev/null; }; } && \
			dpkg -x prometheus_*.deb .) && cp $$dir/usr/bin/promtool bin/promtool || echo "there is no promtool: its test is skipped"; \
		rm -rf $$dir; \
	else echo "there is no promtool: its test is skipped"; fi

.PHONY: run
run: build ## run everything on this machine
	@$(MAKE) --no-print-directory browser || echo "without a browser, tasks of type browser fail; all else runs"
	@exec bin/headgate dev --config headgate.yaml

.PHONY: drill
drill: build ## rehearse the failures on this machine
	@bin/headgate drill

SEED ?= 1
TASKS ?= 1000

.PHONY: chaos
chaos: build ## random kills, stops and faults over many tasks (SEED=1 TASKS=1000)
	@bin/headgate chaos --seed $(SEED) --tasks $(TASKS)

.PHONY: mutants
mutants: build ## break Headgate in known ways; the drill must notice each
	$(GO) test ./testsuite -count=1 -timeout 30m -run 'TestMutants' -mutants all -v

.PHONY: bench
bench: build ## measure the core, then everything beside a bare workflow, 20 minutes (BENCHFLAGS='--quick')
	$(GO) test ./admission -run xxx -bench . -benchtime 0.5s
	@bin/headgate bench $(BENCHFLAGS)

.PHONY: test
test: build browser promtool $(DRIVER)/axe-$(AXE_VERSION).min.js ## run all tests against the built programs (TESTFLAGS='-run X -v')
	$(GO) test -vet=off -count=1 -timeout 30m $(TESTFLAGS) $$($(GO) list ./... | grep -v /testsuite)
	# One package at a time: each starts a Temporal server and workers of its own.
	$(GO) test -p 1 -vet=off -count=1 -timeout 40m $(TESTFLAGS) $$($(GO) list ./testsuite/... | grep -v /bench)
	# A bench of a minute, to see that it works: its ratios are shown and not judged.
	$(GO) test -vet=off -count=1 -timeout 30m $(TESTFLAGS) -v ./testsuite/bench
	@echo "linking the tests of devserver; the first time takes about 2 minutes"
	cd devserver && $(GO) test -vet=off -count=1 -timeout 30m $(TESTFLAGS) ./...

.PHONY: check
check: $(GOLANGCI) $(WORKFLOWCHECK) ## gofmt, vet, golangci-lint, workflowcheck, tidy
	@echo "gofmt"; unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "not formatted:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	cd devserver && $(GO) vet ./...
	$(GOLANGCI) run ./...
	cd devserver && ../$(GOLANGCI) run --disable=govet ./... # done above; again over the server's packages it costs minutes
	$(WORKFLOWCHECK) ./workflows/... ./admission/...
	$(GO) mod tidy -diff
	cd devserver && $(GO) mod tidy -diff

$(GOLANGCI):
	@echo "building golangci-lint $(GOLANGCI_VERSION); once, 3 to 5 minutes"
	@$(call progress,GOBIN="$(CURDIR)/bin" $(GO) install -v github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION))
	@mv bin/golangci-lint $@

$(WORKFLOWCHECK):
	@echo "building workflowcheck $(WORKFLOWCHECK_VERSION)"
	@$(call progress,GOBIN="$(CURDIR)/bin" $(GO) install -v go.temporal.io/sdk/contrib/tools/workflowcheck@$(WORKFLOWCHECK_VERSION))
	@mv bin/workflowcheck $@

.PHONY: record
record: build ## record new workflow histories for the replay tests
	$(GO) test ./testsuite -count=1 -run TestRecordHistories -record

.PHONY: golden
golden: ## rewrite the golden files; read the diff before you commit it
	$(GO) test ./contract ./admission -count=1 -rewrite
	$(GO) test ./starter/gateway -count=1 -run 'TestDocument$$' -rewrite # openapi.json

.PHONY: clean
clean: ## remove what was built; the data of local runs in .headgate stays
	rm -rf bin
