# A front door to Meson.  `make demo` and `make check` do all of their own set-up.

BUILD ?= build
FUZZ_SECONDS ?= 60
PREFIX ?= /usr/local
CLANG ?= clang-14
# The full set of measured recordings, where it is at hand; the tests' own set is in tests/data.
PLIMSOLL_TRUTH ?= $(abspath $(wildcard ../shared/data))
export PLIMSOLL_TRUTH
# make check UPDATE=1 writes what the CLI printed into the cases, to be read with git diff.
export PLIMSOLL_UPDATE := $(UPDATE)

# One folder for the program and its tests; DEV=1 has one of its own, with -Werror and checked invariants.
MAIN = $(BUILD)/$(if $(DEV),dev,release)
CONFIGURE = @tools/configure.sh $(MAIN) -Dwerror=$(if $(DEV),true,false)
NINJA = @tools/steady.py ninja -C

# `make tests` is for those that need them.
.PHONY: tests mutants wheel dist check-python help build demo docs check check-sanitizers check-tsan viewer check-viewer picture lint format fuzz bench install clean
.DEFAULT_GOAL := build

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo "  DEV=1 makes warnings errors, UPDATE=1 rewrites expected CLI output, VERBOSE=1 shows commands"

build: ## the program and the library, optimised, in build/release (this is the default)
	@tools/deps.sh build
	$(CONFIGURE)
	$(NINJA) $(MAIN) product
	@echo "built $(MAIN)/plimsoll"

demo: build ## explain two shipped recordings: a death and a leak
	@PLIMSOLL=$(MAIN)/plimsoll tools/demo.sh

tests: ## build the tests, beside the program
	@tools/deps.sh build check
	$(CONFIGURE) -Dtests=true
	$(NINJA) $(MAIN)

check: tests ## build and run all tests (TEST_OPTIONS='--suite unit' for some)
	@tools/run-tests.py $(MAIN) $(TEST_OPTIONS)

# that show runs of the program
TASKS = $(filter-out %/in-python.md,$(wildcard docs/tasks/*.md))
docs: tests ## rewrite what is generated and committed: docs/json.md, output in README and docs, tests/abi.txt
	@python3 tools/results docs >$(BUILD)/json.md && mv $(BUILD)/json.md docs/json.md
	@tools/readme.py $(MAIN)/plimsoll >$(BUILD)/README.md && mv $(BUILD)/README.md README.md
	@for page in diff why here $(TASKS:docs/%.md=%); do tools/readme.py $(MAIN)/plimsoll docs/$$page.md >$(BUILD)/page.md && \
		mv $(BUILD)/page.md docs/$$page.md || exit 1; done
	@for module in _version lint/_version; do python3 tools/results python-version >$(BUILD)/made.py && \
		mv $(BUILD)/made.py python/plimsoll/$$module.py || exit 1; done
	@python3 -B tools/python-api.py >$(BUILD)/python_api.txt && mv $(BUILD)/python_api.txt tests/python_api.txt
	@tools/lint-page.py >$(BUILD)/lint.md && mv $(BUILD)/lint.md docs/lint.md
	@tools/abi.py $(MAIN)/libplimsoll.so >$(BUILD)/abi.txt && mv $(BUILD)/abi.txt tests/abi.txt

check-sanitizers: ## the tests of foreign bytes and of memory, under clang's AddressSanitizer and UndefinedBehaviorSanitizer
	@tools/deps.sh build check sanitizers
	@CC=$(CLANG) tools/configure.sh $(BUILD)/sanitizers -Dtests=true -Dwerror=true -Db_sanitize=address,undefined -Doptimization=1
	$(NINJA) $(BUILD)/sanitizers
	@$$(tools/same-addresses.sh) tools/run-tests.py $(BUILD)/sanitizers --suite memory

check-tsan: ## the tests that use threads, under ThreadSanitizer
	@tools/deps.sh build check
	@tools/configure.sh $(BUILD)/tsan -Dtests=true -Db_sanitize=thread -Doptimization=1
	$(NINJA) $(BUILD)/tsan threaded
	@$$(tools/same-addresses.sh) tools/run-tests.py $(BUILD)/tsan --suite threads

mutants: tests ## break the code in known ways; the tests named in tests/mutants.py must fail
	@tests/mutants.py $(MAIN)

viewer: ## build ui/dist from ui/src; only who changes the viewer needs it, and Node 18
	@npm ci --prefix ui --no-audit --no-fund
	@node ui/build.mjs

check-viewer: build ## the viewer in a real browser, and that ui/dist is what ui/src makes (skips where Node, npm or chromium cannot be had)
	@tests/ui/run.sh $(MAIN)/plimsoll || [ $$? = 77 ]

picture: build ## docs/page.png, the picture in the README; needs what check-viewer needs
	@node tools/picture.mjs $(MAIN)/plimsoll docs/page.png

check-python: tests ## the Python package with a real PyTorch, in an environment that it sets up (skips if it cannot be had)
	$(NINJA) $(MAIN) make_snapshot
	@tools/check-python.sh $(MAIN)

lint: ## formatting, clang-tidy on what changed lately and a tenth of the rest (ALL=1: on all), floors, banned functions
	@tools/deps.sh build check sanitizers lint
	@CC=$(CLANG) tools/configure.sh $(BUILD)/sanitizers -Dtests=true -Dwerror=true -Db_sanitize=address,undefined -Doptimization=1
	$(NINJA) $(BUILD)/sanitizers result_tables.h option_rows.h
	@ALL=$(ALL) tools/lint.sh $(BUILD)/sanitizers

format: ## lay out all C files as .clang-format says, and the viewer as Prettier does
	@tools/deps.sh lint page
	@tools/c-files.sh | xargs clang-format-14 -i
	@[ -d ui/node_modules ] || npm ci --prefix ui --no-audit --no-fund
	@npm run --prefix ui --silent format

fuzz: ## each fuzz target for FUZZ_SECONDS (60), on its corpus
	@tools/deps.sh build sanitizers
	@CC=$(CLANG) tools/configure.sh $(BUILD)/fuzz -Dfuzz=true -Db_sanitize=address,undefined
	$(NINJA) $(BUILD)/fuzz
	@FUZZ_SECONDS=$(FUZZ_SECONDS) tools/fuzz.sh $(BUILD)/fuzz

bench: build ## measure beside the peers (SNAPSHOTS='a.pickle ...' for these too)
	$(NINJA) $(MAIN) benches
	@for program in plimsoll make_snapshot allocator_curve make_events plan_rate sum_read; do \
		export $$(echo $$program | tr a-z A-Z)="$(abspath $(MAIN))/$$program"; done; \
	for bench in "report.py $(SNAPSHOTS)" "page.py $(SNAPSHOTS)" "packed.py $(SNAPSHOTS)" "viewer.sh $(SNAPSHOTS)" checkpoints.py why.py commands.py plan.py curves.py; do \
		bench/$$bench || exit; done

wheel: ## a wheel of the Python package for every glibc from 2.28 on, in build/wheels (tools/wheel.sh aarch64 for another machine)
	@tools/steady.py tools/wheel.sh

dist: ## what a release needs, in build/dist: wheels, sdist, tar.gz, .deb, checksums, SBOM (tools/dist-check.sh runs each in an empty root)
	@tools/steady.py tools/dist.sh

install: ## what `make build` made (now, if it was not), into PREFIX (/usr/local), below DESTDIR
	@[ -x $(MAIN)/plimsoll ] || $(MAKE) --no-print-directory build
	$(CONFIGURE) --prefix=$(abspath $(PREFIX))
	@tools/meson.sh install -C $(MAIN) --no-rebuild --quiet --strip
	@echo "installed in $(DESTDIR)$(abspath $(PREFIX))"

clean: ## remove all that was built
	rm -rf $(BUILD)
