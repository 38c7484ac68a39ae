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

DEV_OPTIONS := $(if $(DEV),--werror)
RELEASE = -Doptimization=3 -Db_lto=true $(DEV_OPTIONS)
CHECK = -Dcli=shared -Dtests=true $(DEV_OPTIONS)
# On a terminal ninja shows in one line how far it is.
NINJA = ninja -C $(BUILD)/$(1) $(if $(VERBOSE),,$(shell [ -t 2 ] || echo --quiet))
TEST = tools/meson test -C $(BUILD)/$(1) --no-rebuild --print-errorlogs --timeout-multiplier 4 $(TEST_OPTIONS)

.PHONY: mutants wheel check-python help build demo docs check check-sanitizers check-tsan viewer check-viewer picture lint format fuzz bench install clean
.DEFAULT_GOAL := build

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo "  DEV=1 makes warnings errors, UPDATE=1 rewrites expected CLI output, VERBOSE=1 shows commands"

build: ## the program and the library, optimised, in build/release (this is the default)
	@[ -x $(BUILD)/release/plimsoll ] || echo "building plimsoll in $(BUILD)/release, once: a few minutes on two cores"
	@tools/deps build
	@tools/configure $(BUILD)/release $(RELEASE)
	@$(call NINJA,release)
	@echo "built $(BUILD)/release/plimsoll"

demo: build ## explain two shipped recordings: a death and a leak
	@PLIMSOLL=$(BUILD)/release/plimsoll tools/demo

check: ## build and run all tests (TEST_OPTIONS='--suite unit' for some)
	@tools/deps build check
	@tools/configure $(BUILD)/check $(CHECK)
	@$(call NINJA,check)
	@$(call TEST,check)

docs: ## rewrite what is generated and committed: docs/json.md, output in README and docs, types of Python and of the viewer, tests/abi.txt
	@tools/deps build check
	@tools/configure $(BUILD)/check $(CHECK)
	@$(call NINJA,check)
	@python3 tools/results docs >$(BUILD)/json.md && mv $(BUILD)/json.md docs/json.md
	@tools/readme $(BUILD)/check/plimsoll >$(BUILD)/README.md && mv $(BUILD)/README.md README.md
	@for page in diff why here; do tools/readme $(BUILD)/check/plimsoll docs/$$page.md >$(BUILD)/$$page.md && \
		mv $(BUILD)/$$page.md docs/$$page.md || exit 1; done
	@for module in abi results; do python3 tools/results python-$$module >$(BUILD)/$$module.py && \
		mv $(BUILD)/$$module.py python/plimsoll/_$$module.py || exit 1; done
	@python3 -B tools/python-api >$(BUILD)/python_api.txt && mv $(BUILD)/python_api.txt tests/python_api.txt
	@tools/lint-page >$(BUILD)/lint.md && mv $(BUILD)/lint.md docs/lint.md
	@python3 tools/results typescript >$(BUILD)/results.ts && mv $(BUILD)/results.ts ui/src/results.ts
	@tools/abi $(BUILD)/check/libplimsoll.so >$(BUILD)/abi.txt && mv $(BUILD)/abi.txt tests/abi.txt

check-sanitizers: ## the tests of foreign bytes and of memory, under AddressSanitizer and UndefinedBehaviorSanitizer
	@tools/deps build check
	@tools/configure $(BUILD)/sanitizers $(CHECK) -Db_sanitize=address,undefined
	@$(call NINJA,sanitizers)
	@$$(tools/same-addresses) $(call TEST,sanitizers) --suite memory

mutants: ## break the code in known ways; the tests named in tests/mutants must fail
	@tools/deps build check
	@tests/mutants $(BUILD)/mutants

check-tsan: ## the tests that use threads, under ThreadSanitizer
	@tools/deps build check
	@tools/configure $(BUILD)/tsan $(CHECK) -Db_sanitize=thread
	@$(call NINJA,tsan)
	@$$(tools/same-addresses) $(call TEST,tsan) --suite threads

viewer: ## build ui/dist from ui/src; only who changes the viewer needs it, and Node 18
	@npm ci --prefix ui --no-audit --no-fund
	@node ui/build.mjs

check-viewer: build ## the viewer in a real browser, and that ui/dist is what ui/src makes (skips where Node, npm or chromium cannot be had)
	@tests/ui/run $(BUILD)/release/plimsoll || [ $$? = 77 ]

picture: build ## docs/page.png, the picture in the README; needs what check-viewer needs
	@node tools/picture.mjs $(BUILD)/release/plimsoll docs/page.png

check-python: ## the Python package with a real PyTorch, in an environment that it sets up (skips where it cannot be had)
	@tools/deps build check
	@tools/configure $(BUILD)/check $(CHECK)
	@$(call NINJA,check)
	@tools/check-python $(BUILD)/check

lint: ## formatting, clang's warnings, clang-tidy, floors, banned functions; nothing may be found
	@tools/deps build check lint
	@CC=$(CLANG) tools/configure $(BUILD)/lint -Dcli=shared -Dtests=true --werror
	@$(call NINJA,lint)
	@tools/lint $(BUILD)/lint

format: ## lay out all C files as .clang-format says, and the viewer as Prettier does
	@tools/deps lint page
	@tools/c-files | xargs clang-format-14 -i
	@[ -d ui/node_modules ] || npm ci --prefix ui --no-audit --no-fund
	@npm run --prefix ui --silent format

fuzz: ## each fuzz target for FUZZ_SECONDS (60), on its corpus
	@tools/deps build fuzz
	@CC=$(CLANG) tools/configure $(BUILD)/fuzz -Dfuzz=true -Db_sanitize=address,undefined
	@$(call NINJA,fuzz)
	@FUZZ_SECONDS=$(FUZZ_SECONDS) tools/fuzz $(BUILD)/fuzz

bench: build ## measure beside the peers (SNAPSHOTS='a.pickle ...' for these too)
	@PLIMSOLL=$(abspath $(BUILD)/release/plimsoll) MAKE_SNAPSHOT=$(abspath $(BUILD)/release/make_snapshot) \
		ALLOCATOR_CURVE=$(abspath $(BUILD)/release/allocator_curve) bench/run $(SNAPSHOTS)
	@PLIMSOLL=$(abspath $(BUILD)/release/plimsoll) MAKE_SNAPSHOT=$(abspath $(BUILD)/release/make_snapshot) bench/page $(SNAPSHOTS)
	@PLIMSOLL=$(abspath $(BUILD)/release/plimsoll) MAKE_SNAPSHOT=$(abspath $(BUILD)/release/make_snapshot) bench/packed $(SNAPSHOTS)
	@PLIMSOLL=$(abspath $(BUILD)/release/plimsoll) bench/viewer $(SNAPSHOTS)
	@PLIMSOLL=$(abspath $(BUILD)/release/plimsoll) SUM_READ=$(abspath $(BUILD)/release/sum_read) bench/checkpoints
	@PLIMSOLL=$(abspath $(BUILD)/release/plimsoll) bench/why
	@PLIMSOLL=$(abspath $(BUILD)/release/plimsoll) MAKE_SNAPSHOT=$(abspath $(BUILD)/release/make_snapshot) bench/verbs
	@PLIMSOLL=$(abspath $(BUILD)/release/plimsoll) PLAN_RATE=$(abspath $(BUILD)/release/plan_rate) bench/plan
	@PLIMSOLL=$(abspath $(BUILD)/release/plimsoll) MAKE_EVENTS=$(abspath $(BUILD)/release/make_events) bench/curves

wheel: ## a wheel of the Python package for every glibc from 2.28 on, in build/wheels (tools/wheel aarch64 for another machine)
	@tools/wheel

install: ## what `make build` built (built now if it was not), into PREFIX (/usr/local), below DESTDIR
	@[ -x $(BUILD)/release/plimsoll ] || $(MAKE) --no-print-directory build
	@tools/meson configure $(BUILD)/release --prefix=$(abspath $(PREFIX))
	@$(call NINJA,release)
	@tools/meson install -C $(BUILD)/release --no-rebuild --quiet

clean: ## remove all that was built
	rm -rf $(BUILD)
