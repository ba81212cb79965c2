# Every habit of this project, one word each. `make help` lists them.

SHELL := /bin/bash
.DEFAULT_GOAL := help

SOCKET ?= .build/run/countdownd.sock
RELEASE := .build/release

.PHONY: help
help: ## List what make can do
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

.PHONY: packages
packages: ## Install the Debian packages that building needs
	@scripts/install-packages.sh libsystemd-dev libsqlite3-dev libyaml-dev libssl-dev

.PHONY: check-packages
check-packages: packages
	@scripts/install-packages.sh redis-server redis-tools python3 python3-venv gcc libc6-dev procps

.PHONY: test-packages
test-packages: check-packages ## Install the Debian packages that testing needs
	@scripts/install-packages.sh chromium-driver nodejs node-redis node-express node-typescript golang-go \
	  golang-github-gomodule-redigo-dev tmux prometheus prometheus-node-exporter systemd groff-base binutils

# SwiftPM compiles everything again when a flag changes, and it colours diagnostics on a terminal
# only. So they are never coloured: a build in a terminal and one in a pipe share their results.
SWIFT_FLAGS := --no-color-diagnostics

# All release products are built with these flags, so that nothing is compiled twice.
# The Swift runtime goes into the binaries, so that they run on machines without it.
# Debug builds, which all tests run, check exclusive access to memory. Here each command would pay
# for that as much as for a look-up.
# lld leaves out what nothing calls and no longer exports symbols; the default linker also warns of a
# function that nothing of ours calls.
RELEASE_FLAGS := $(SWIFT_FLAGS) -c release --static-swift-stdlib -Xswiftc -enforce-exclusivity=unchecked \
  -Xswiftc -use-ld=lld -Xlinker --no-export-dynamic

.PHONY: commit
commit:
	@scripts/commit.sh

.PHONY: build
build: packages commit ## Build the release binaries: .build/release/countdownd and countdownctl
	@swift build $(RELEASE_FLAGS) --product countdownd
	@swift build $(RELEASE_FLAGS) --product countdownctl

# $(call build-tool,NAME): one of the tests' tools, .build/release/NAME.
define build-tool
@swift build $(RELEASE_FLAGS) --product $(1)
endef

.PHONY: man
man: build ## Write the man pages to .build/man
	@scripts/install-packages.sh python3
	@scripts/man-pages.py $(RELEASE) .build/man
	@ls .build/man/*.[158]

# $(call write-completions,FOLDER,PROGRAM...): those of FOLDER/release, to FOLDER/completions.
define write-completions
@mkdir -p $(1)/completions
@for t in $(2); do for s in bash zsh fish; do \
  $(1)/release/$$t --generate-completion-script $$s | sed '1{/^#!/d}' > $(1)/completions/$$t.$$s && \
    test -s $(1)/completions/$$t.$$s || exit 1; \
done; done
@ls $(1)/completions/*
endef

.PHONY: completions
completions: build ## Write shell completions to .build/completions, and .build/schema.json
	$(call write-completions,.build,countdownd countdownctl)
	@$(RELEASE)/countdownctl schema > .build/schema.json

.PHONY: run
run: build ## Build everything and start a daemon at .build/run/countdownd.sock (CONFIG=)
	@mkdir -p $(dir $(SOCKET))
	@exec $(RELEASE)/countdownd --socket $(SOCKET) --state-directory $(dir $(SOCKET))state $(if $(CONFIG),--config $(CONFIG))

PACE ?= 400ms
.PHONY: demo
demo: build ## Play a tour of all kinds in the terminal, a line at a time (PACE=400ms)
	@$(RELEASE)/countdownctl play --pace $(PACE) $(addprefix Examples/flows/,$(addsuffix .flow, \
	  countdown-button verification-code limits login-gate hud-overlapping-requests page-first-load \
	  swipe-back-cancelled responder-chain restart))

.PHONY: fleet
fleet: build ## Start a Redis server and three daemons that share it, to try fleets
	@scripts/install-packages.sh redis-server
	@scripts/fleet.sh $(RELEASE)

.PHONY: screenshots
screenshots: test-packages build gateway ## Make docs/images: terminals, the login example, the gateway's pages, the showcase
	@scripts/screenshots.py $(RELEASE) docs/images
	@scripts/integration-test.sh --version >/dev/null
	@COUNTDOWND=$(CURDIR)/$(RELEASE)/countdownd \
	  .build/venv/bin/python scripts/screenshots-login.py docs/images
	@COUNTDOWND=$(CURDIR)/$(RELEASE)/countdownd \
	  COUNTDOWN_GATEWAY=$(CURDIR)/Gateway/$(RELEASE)/countdown-gateway \
	  .build/venv/bin/python scripts/screenshots-gateway.py docs/images
	@scripts/install-packages.sh pngquant
	@cd Gateway && swift build $(SWIFT_FLAGS) --product showcase
	@COUNTDOWND=$(CURDIR)/$(RELEASE)/countdownd \
	  .build/venv/bin/python scripts/screenshots-showcase.py docs/images

# DESTDIR=, PREFIX=/usr/local and SYSCONFDIR=/etc say where to.
export DESTDIR PREFIX SYSCONFDIR
.PHONY: install
install: ## Install what `make build man completions` has built (DESTDIR=, PREFIX=/usr/local)
	@scripts/install.sh install
	@[ -n "$(DESTDIR)" ] || printf '%s\n' 'Installed. To start it, now and at each boot:' \
	  '    systemd-sysusers && systemctl daemon-reload' \
	  '    systemctl enable --now countdownd.socket countdownd.service'

.PHONY: install-gateway
install-gateway: ## Install what `make gateway` has built (DESTDIR=, PREFIX=/usr/local)
	@scripts/install.sh install countdown-gateway
	@[ -n "$(DESTDIR)" ] || printf '%s\n' 'Installed. To make a key and start it, now and at each boot:' \
	  '    mkdir -p $(or $(SYSCONFDIR),/etc)/countdown-gateway' \
	  '    (umask 077; echo "app $$(openssl rand -base64 32)" > $(or $(SYSCONFDIR),/etc)/countdown-gateway/ticket-keys)' \
	  '    systemctl daemon-reload' \
	  '    systemctl enable --now countdown-gateway.socket countdown-gateway-admin.socket countdown-gateway.service'

.PHONY: uninstall
uninstall: ## Remove what `make install` and `make install-gateway` have put there, but for changed configuration
	@scripts/install.sh uninstall
	@scripts/install.sh uninstall countdown-gateway

.PHONY: deb
deb: man completions ## Build a Debian package: .build/countdownd_VERSION_ARCHITECTURE.deb
	@scripts/install-packages.sh dpkg-dev binutils
	@scripts/build-deb.sh countdownd

.PHONY: deb-gateway
deb-gateway: gateway ## Build that of the gateway: .build/countdown-gateway_VERSION_ARCHITECTURE.deb
	@scripts/install-packages.sh dpkg-dev binutils
	@scripts/build-deb.sh countdown-gateway

.PHONY: tarball
tarball: man completions ## Build .build/countdownd-VERSION-linux-ARCHITECTURE.tar.gz, for any Linux with glibc 2.36
	@scripts/install-packages.sh binutils pkg-config
	@RELEASE_FLAGS='$(RELEASE_FLAGS)' scripts/build-tarball.sh

# The newest ones.
debs = $$(ls -t .build/countdownd_*.deb | head -1) $$(ls -t .build/countdown-gateway_*.deb | head -1)

.PHONY: check-deb
check-deb: test-packages deb deb-gateway ## Build both Debian packages and look through them; try `make install`
	@scripts/install-packages.sh lintian
	@lintian --allow-root --fail-on error,warning $(debs)
	@COUNTDOWND=$(CURDIR)/$(RELEASE)/countdownd \
	  scripts/integration-test.sh Tests/Integration/test_install.py

.PHONY: test-deb
test-deb: check-deb ## Install, run and purge the Debian packages in a clean system (root only)
	@scripts/install-packages.sh debootstrap systemd
	@COUNTDOWND_DEBS="$(debs)" COUNTDOWND=$(CURDIR)/$(RELEASE)/countdownd \
	  scripts/integration-test.sh Tests/Integration/test_deb.py

.PHONY: check-tarball
check-tarball: test-packages tarball ## Build the tarball; unpack and try it
	@COUNTDOWND_TARBALL=$$(ls -t $(CURDIR)/.build/countdownd-*.tar.gz | head -1) \
	  scripts/integration-test.sh -q Tests/Integration/test_tarball.py

# The newest one.
tarball_file = $$(ls -t .build/countdownd-*.tar.gz | head -1)

.PHONY: wheel
wheel: tarball ## Build a wheel with the Python client and both programs: .build/dist/countdownd-….whl
	@scripts/build-packages.py wheel "$(tarball_file)"

.PHONY: npm-package
npm-package: tarball ## Build packages for npm: the client, and both programs: .build/dist/countdownd-….tgz
	@scripts/install-packages.sh node-typescript
	@scripts/build-packages.py npm "$(tarball_file)"

.PHONY: apt-repository
apt-repository: deb deb-gateway ## Make a repository for apt with the Debian packages: .build/dist/apt
	@scripts/install-packages.sh dpkg-dev
	@scripts/build-packages.py apt $(debs)

# Most integration tests wait rather than compute: three for each core, and not more than 12.
WORKERS ?= $(shell n=$$((3 * $$(nproc))); echo $$((n < 12 ? n : 12)))

INTEGRATION := COUNTDOWND=$(CURDIR)/.build/debug/countdownd scripts/integration-test.sh -q
SWIFT_TEST := COUNTDOWND=$(CURDIR)/.build/debug/countdownd swift test $(SWIFT_FLAGS) --skip-build --no-parallel

.PHONY: test
test: test-packages ## Run all tests: machines and modules, then the real daemon (T=Tests/…, WORKERS=)
	@swift build $(SWIFT_FLAGS) --build-tests
ifdef T
	@$(if $(filter %.py,$(firstword $(subst ::, ,$(T)))),$(INTEGRATION) $(T),$(SWIFT_TEST) --filter $(basename $(notdir $(T))))
else
	@WORKERS=$(WORKERS) scripts/test.sh
endif

.PHONY: check
check: check-packages ## Run lint and the tests for a small change, in 90 seconds once it is built
	@swift build $(SWIFT_FLAGS) --build-tests
	@WORKERS=$(WORKERS) scripts/test.sh check

.PHONY: test-release
test-release: test-packages build ## Run the tests of the daemon on the release build, which is what ships
	@# Programs of users are compiled against the debug build.
	@swift build $(SWIFT_FLAGS)
	@WORKERS=$(WORKERS) COUNTDOWND=$(CURDIR)/$(RELEASE)/countdownd scripts/test.sh integration

.PHONY: gateway
gateway: packages ## Build Gateway/.build/release/countdown-gateway, its man page and completions (takes minutes)
	@scripts/install-packages.sh zlib1g-dev
	@cd Gateway && swift build $(RELEASE_FLAGS) --product countdown-gateway
	@scripts/install-packages.sh python3
	@scripts/man-pages.py Gateway/.build/release Gateway/.build/man
	$(call write-completions,Gateway/.build,countdown-gateway)

# The debug build is ready sooner, and the one that `make test-screen` tests.
PORT ?= 8788
.PHONY: showcase
showcase: build ## Serve a page that shows every kind, with a daemon of its own: http://127.0.0.1:8788 (PORT=)
	@scripts/install-packages.sh zlib1g-dev
	@cd Gateway && swift build $(SWIFT_FLAGS) --product showcase
	@exec Gateway/.build/debug/showcase $(RELEASE)/countdownd --port $(PORT)

# The first build of Hummingbird takes minutes, so this is part of `make nightly`.
BROWSER ?= chromium
# What needs no browser is not tested again with the other one.
SCREEN_TESTS = Tests/Screen Tests/Integration/test_metrics.py
ifeq ($(BROWSER),firefox)
SCREEN_TESTS = $(shell grep -l needs_browser Tests/Screen/test_*.py Tests/Integration/test_*.py)
endif
.PHONY: test-screen
# Browsers are busy where other tests wait.
test-screen: WORKERS = $(shell echo $$(($$(nproc) + 1)))
test-screen: test-packages ## Test countdown-gateway with a browser, curl and promtool (WORKERS=, BROWSER=firefox)
	@scripts/install-packages.sh $(patsubst firefox,firefox-esr,$(BROWSER)) curl nodejs node-typescript node-react \
	  node-react-dom esbuild nginx openssl zlib1g-dev
	@[ -d .build/schemathesis ] || { python3 -m venv .build/schemathesis \
	  && .build/schemathesis/bin/pip install --quiet 'schemathesis >=4,<5'; }
	@scripts/integration-test.sh --version >/dev/null
	@[ -d .build/axe ] || .build/venv/bin/pip install --quiet --disable-pip-version-check --no-deps \
	  --target .build/axe axe-playwright-python==0.1.8
	@# A package of Python that brings Vue 3.
	@[ -d .build/vue ] || .build/venv/bin/pip install --quiet --disable-pip-version-check --no-deps \
	  --target .build/vue nicegui==3.18.0
	@# And one that brings a stable React 18; Debian's has parts of 19.
	@[ -d .build/react ] || .build/venv/bin/pip install --quiet --disable-pip-version-check --no-deps \
	  --target .build/react dash==4.4.1
	@swift build $(SWIFT_FLAGS)
	@cd Gateway && swift build $(SWIFT_FLAGS) --build-tests && swift test $(SWIFT_FLAGS) --skip-build
	@BROWSER=$(BROWSER) COUNTDOWND=$(CURDIR)/.build/debug/countdownd \
	  scripts/integration-test.sh -q -n $(WORKERS) $(SCREEN_TESTS) --durations=10

# `make nightly` has longer ones. LOSSES=200 FAULTS=200 PAUSE_S=20 take hours.
.PHONY: test-fleet
test-fleet: test-packages ## Test fleets with real Redis servers, Sentinel and Cluster (root only; LOSSES=3, FAULTS=7, …)
	@scripts/install-packages.sh redis-server redis-sentinel iproute2 nftables
	@swift build $(SWIFT_FLAGS)
	@COUNTDOWND=$${COUNTDOWND:-$(CURDIR)/.build/debug/countdownd} \
	  scripts/integration-test.sh -q -n 2 Tests/Fleet --durations=10 $(PYTEST)

SECONDS_OF_FUZZ ?= 40
SEED ?= 0
.PHONY: fuzz
fuzz: packages ## Random and damaged input: FUZZ="wheel requests configuration state transfer" (SECONDS_OF_FUZZ=40, SEED=0)
	$(call build-tool,fuzz)
	@$(RELEASE)/fuzz $(SECONDS_OF_FUZZ) $(SEED) $(FUZZ)

ROUNDS ?= 200
.PHONY: torture
torture: test-packages build ## Kill the loaded daemon again and again, and look for what is lost (SEED=0, ROUNDS=200, DURABILITY=)
	@ROUNDS=$(ROUNDS) SEED=$(SEED) DURABILITY=$(DURABILITY) COUNTDOWND=$(CURDIR)/$(RELEASE)/countdownd \
	  scripts/integration-test.sh Tests/Integration/test_torture.py -q

EVERY ?= 1
.PHONY: every-call
every-call: test-packages build ## Fail or end the daemon at every call that changes a file (EVERY=1: each; 7: each seventh)
	@EVERY=$(EVERY) COUNTDOWND=$(CURDIR)/$(RELEASE)/countdownd \
	  scripts/integration-test.sh Tests/Integration/test_every_call.py -q

SECONDS_OF_DAMAGE ?= 60
.PHONY: damage
damage: test-packages build ## Damage stored state at random places and start the daemon on it (SEED=0, SECONDS_OF_DAMAGE=60)
	@SECONDS=$(SECONDS_OF_DAMAGE) SEED=$(SEED) COUNTDOWND=$(CURDIR)/$(RELEASE)/countdownd \
	  scripts/integration-test.sh Tests/Integration/test_damaged_state.py -q

STEPS ?= 1000000
.PHONY: simulate
simulate: packages ## Play random histories of the whole engine against naive models (SEED=0, STEPS=1000000)
	$(call build-tool,simulate)
	@$(RELEASE)/simulate $(SEED) $(STEPS)

.PHONY: simulate-fleet
simulate-fleet: packages ## Play random histories of daemons that share servers, with all that can go wrong (SEED=0, STEPS=1000000)
	$(call build-tool,simulate)
	@$(RELEASE)/simulate $(SEED) $(STEPS) fleet

.PHONY: simulate-replay
simulate-replay: packages ## Play random decisions, and compare journals and shadows with the same rules (SEED=0, STEPS=1000000)
	$(call build-tool,simulate)
	@$(RELEASE)/simulate $(SEED) $(STEPS) replay

.PHONY: torture-timers
torture-timers: packages ## Cancel, move and release a million timers from eight threads while they fire (TIMERS=1000000)
	@TIMERS=$(or $(TIMERS),1000000) swift test $(SWIFT_FLAGS) --filter BadLuckTests

.PHONY: sanitize
sanitize: packages ## Timers and client under the sanitizers, all of `make fuzz` under that for addresses
	@swift build $(SWIFT_FLAGS) --product countdownd
	@for s in thread address; do \
	  echo "== $$s"; \
	  COUNTDOWND=$(CURDIR)/.build/debug/countdownd ASAN_OPTIONS=detect_leaks=0 \
	    TSAN_OPTIONS=suppressions=$(CURDIR)/Tests/Tools/thread-sanitizer.txt \
	    swift test --sanitize=$$s --scratch-path .build-$$s --no-parallel \
	    --filter "DispatchTimersTests|CountdownClientTests" || exit 1; done
	@swift build -c release --sanitize=address --scratch-path .build-address --product fuzz
	@ASAN_OPTIONS=detect_leaks=0:abort_on_error=1 \
	  .build-address/release/fuzz $(SECONDS_OF_FUZZ) $(SEED) $(FUZZ)

.PHONY: walk
walk: test-packages ## Follow README and tutorials in a fresh clone, as a newcomer does
	@rm -rf .build/walk && git clone --quiet . .build/walk
	@CLONE=$(CURDIR)/.build/walk COUNTDOWND=$(CURDIR)/.build/walk/$(RELEASE)/countdownd \
	  scripts/integration-test.sh Tests/Integration/test_pages.py -q -k reader

.PHONY: lines
lines: ## Count the lines of hand-written code by folder, without blank lines and comments
	@scripts/lines.py

.PHONY: nightly
nightly: ## Everything that takes long, about two hours: run it before a large change (SEED=today's date)
	@scripts/nightly.sh $(if $(filter command line environment,$(origin SEED)),$(SEED),$$(date +%y%m%d)0000)

.PHONY: examples
examples: test-packages build ## Build and test the examples in Swift, and run that of timers
	@cd Examples && swift build $(SWIFT_FLAGS) --product login-service && swift run $(SWIFT_FLAGS) weak-timers
	@cd Examples && swift build $(SWIFT_FLAGS) --sanitize=address --scratch-path .build-address \
	  --product view-controllers
	@COUNTDOWND=$(CURDIR)/$(RELEASE)/countdownd \
	  scripts/integration-test.sh -q Tests/Integration/test_examples.py

.PHONY: bench
bench: build ## Measure the daemon beside Redis and a bare loop; writes docs/benchmarks.md (BENCH_OPTIONS=)
	@scripts/install-packages.sh python3 redis-tools
	@for p in bare-loop cancelled-calls; do \
	  swift build -c release --package-path Benchmarks --product $$p || exit 1; done
	@Benchmarks/daemon/bench.py $(BENCH_OPTIONS)

.PHONY: bench-fleet
bench-fleet: build ## Measure daemons that share a Redis server
	@scripts/install-packages.sh python3 redis-server
	@Benchmarks/fleet/bench.py $(BENCH_OPTIONS)
	@Benchmarks/fleet/overhead.py
	@Benchmarks/fleet/memory.py

.PHONY: bench-gateway
bench-gateway: build gateway ## Measure many pages of countdown-gateway, beside nchan if it is installed
	@COUNTDOWND=$(RELEASE)/countdownd COUNTDOWN_GATEWAY=Gateway/$(RELEASE)/countdown-gateway \
	  Benchmarks/gateway/many.py $(BENCH_OPTIONS)

.PHONY: bench-largest
bench-largest: build ## Time single commands with their largest inputs, beside a client that pings
	@scripts/integration-test.sh --version >/dev/null
	@COUNTDOWND=$(RELEASE)/countdownd .build/venv/bin/python Benchmarks/daemon/largest.py

.PHONY: bench-scale
bench-scale: build ## Measure how the daemon's costs grow; writes docs/dev/benchmarks-scale.md
	@scripts/install-packages.sh python3
	@Benchmarks/daemon/scale.py $(BENCH_OPTIONS)

SECONDS_OF_SOAK ?= 600
.PHONY: soak
soak: build ## Load the daemon with good and bad clients for long (SECONDS_OF_SOAK=600)
	@scripts/install-packages.sh python3
	@Benchmarks/daemon/soak.py --seconds $(SECONDS_OF_SOAK) --seed $(SEED)

.PHONY: benchmarks
benchmarks: ## Build the programs of the benchmarks
	@swift build $(SWIFT_FLAGS) -c release --package-path Benchmarks

.PHONY: bench-wheel
bench-wheel: ## Measure the timer wheel beside other timers; writes docs/dev/benchmarks-wheel.md
	@scripts/install-packages.sh gcc python3 libuv1-dev libev-dev
	@Benchmarks/run.py $(BENCH_OPTIONS)

.PHONY: bench-store
bench-store: packages ## Measure commits, folds and loading of the store
	$(call build-tool,store-bench)
	@d=$$(mktemp -d -p .build) && trap "rm -rf $$d" EXIT && $(RELEASE)/store-bench $$d

.PHONY: callgrind
callgrind: build ## Count the daemon's instructions for each command; writes docs/dev/instructions.md
	@scripts/install-packages.sh valgrind binutils python3
	@Benchmarks/daemon/instructions.py --write

.PHONY: check-instructions
check-instructions: build ## Count them again, and fail if a command costs 3 % more than the page says
	@scripts/install-packages.sh valgrind binutils python3
	@Benchmarks/daemon/instructions.py --check

.PHONY: bench-loading
bench-loading: build ## Measure the load of 1,000,000 countdowns as a ratio; fail if it has grown
	@Benchmarks/daemon/loading.py --check

.PHONY: callgrind-wheel
callgrind-wheel: ## Count the instructions of the timer wheel's operations
	@scripts/install-packages.sh valgrind binutils
	@Benchmarks/callgrind.sh

SWIFT_FILES := Package.swift Sources Tests Benchmarks Examples \
  Gateway/Package.swift Gateway/Sources Gateway/Tests

.PHONY: lint
lint: docs-lint ## Check format and style, and docs
	@swift format lint --strict --recursive $(SWIFT_FILES)
	@scripts/lines.py --functions
	@scripts/kinds-lint.py
	@scripts/arrows-lint.py

.PHONY: docs
docs: build ## Write the generated tables of docs/reference
	@COUNTDOWND=$(RELEASE)/countdownd scripts/reference.py

.PHONY: components
components: ## Write what follows from the web components: types, tables, and what the gateway serves
	@scripts/install-packages.sh python3 esbuild
	@scripts/components.py

.PHONY: clients
clients: build ## Write what the clients are generated from the schema
	@COUNTDOWND=$(RELEASE)/countdownd scripts/clients.py

.PHONY: docs-lint
docs-lint: ## Check width, links and words of docs, comments and messages
	@scripts/install-packages.sh python3
	@scripts/docs-lint.py

.PHONY: hooks
hooks: ## Format and lint before each commit: sets git's core.hooksPath to .githooks
	@git config core.hooksPath .githooks

.PHONY: format
format: ## Format all Swift code
	@swift format --in-place --recursive $(SWIFT_FILES)

.PHONY: clean
clean: ## Remove everything that was built, and what `make run` has kept
	@swift package clean
	@rm -rf .build/run .build/venv .build/man .build/completions .build/deb .build/tarball .build/static \
	  Gateway/.build .build/*.deb .build/*.tar.gz .build/*.sha256 .build/clean-root
