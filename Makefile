# The commands of everyday work; each one is short on purpose, so that it can be read here and typed by hand.
# Variables: JOBS=n, PRESET=name (for make, test, test-fast, test-all), BASE=commit (for bench and replay),
# CUDA=0 (do not fetch the CUDA compilers), PYTHON=0 (nor what the Python tests need), SETUP=0 (install nothing).

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := build
MAKEFLAGS += --no-print-directory

JOBS ?= $(shell nproc)
PRESET ?= dev
BASE ?=
CUDA ?= 1
PYTHON ?= 1
SETUP ?= 1
FUZZ_SECONDS ?= 60
FUZZ_PROGRAMS ?= 1000
FUZZ_LISTS ?= 20
JUDGE_LISTS ?= 20000
CTEST = ctest --test-dir build/$(PRESET) --output-on-failure --no-tests=ignore -j $(JOBS)

.PHONY: build python wheel release setup setup-cuda setup-python demo test test-fast test-all bench peers format format-check lint faults asan tsan \
  clang19 fuzz golden replay replay-parent docs clean hooks help

setup:  ## installs the dependencies of the build (SETUP=0: nothing)
	@if [ "$(SETUP)" != 0 ]; then scripts/setup.sh; fi

setup-cuda: setup  ## installs NVIDIA's compilers in .venv-cuda
	@if [ "$(SETUP)" != 0 ] && [ "$(CUDA)" != 0 ]; then scripts/setup.sh cuda; fi

setup-python: setup  ## installs what builds and tests the Python package in .venv-python
	@if [ "$(SETUP)" != 0 ] && [ "$(PYTHON)" != 0 ]; then scripts/setup.sh python; fi

build: setup  ## configures and builds PRESET in build/PRESET (also plain `make`)
	@scripts/build.sh $(PRESET) $(JOBS)

# The Python package into the running environment.
python: setup-python  ## builds like `make`, and prints how to import the package
	@scripts/build.sh $(PRESET) $(JOBS)
	@echo "PYTHONPATH=$(CURDIR)/build/$(PRESET)/python .venv-python/bin/python -c 'import lathe'"

# A wheel for the environment's Python, tried in a clean one.
wheel: setup-python  ## builds wheels for the Pythons of this machine and tests each in a clean environment
	@scripts/wheel.sh

release: setup  ## builds preset release in build/
	@scripts/build.sh release $(JOBS)

demo: release  ## builds preset release and trains the demo net
	@build/bin/lathe demo

test: setup-cuda setup-python build  ## builds and runs every test this machine can run
	@$(CTEST) -LE matrix

test-fast: build  ## runs the fast tests, under a minute
	@$(CTEST) -L fast

test-all: setup-cuda setup-python build  ## runs the tests on the whole device matrix
	@$(CTEST)

bench: release  ## runs the benchmarks, and those of BASE if it is given
	@scripts/bench.py $(if $(BASE),--base $(BASE))

peers: setup  ## installs the libraries that benchmarks compare with
	@scripts/setup.sh peers

format:  ## formats the sources
	@scripts/format.sh

format-check:  ## lists the sources that are not formatted
	@scripts/format.sh --check

# clang-tidy looks at what differs from BASE (main); ALL=1 at everything.
lint:  ## checks the project's rules, the generated pages, and with clang-tidy what differs from BASE
	@scripts/lint.py
	@scripts/docs.py --check
	@scripts/tidy.sh $(BASE)

# GCC's runtime before version 14 takes some blocks of thread-local storage for ones with a header of old C libraries, and its
# leak checker then dies at exit, now and then: without its hook on such blocks it does not look at them.
asan: setup  ## runs the fast tests with the address sanitizer
	@scripts/build.sh asan $(JOBS) fast_tests
	@ASAN_OPTIONS=intercept_tls_get_addr=0:$${ASAN_OPTIONS:-} ctest --test-dir build/asan --output-on-failure --no-tests=ignore -j $(JOBS) -L fast

# Without address randomisation, which the thread sanitizer of older compilers does not survive on new kernels.
tsan: setup  ## runs the fast tests with the thread sanitizer
	@scripts/build.sh tsan $(JOBS) fast_tests
	@setarch -R ctest --test-dir build/tsan --output-on-failure --no-tests=ignore -j $(JOBS) -L fast

# Everything compiled by clang 19; where the distribution has none it says so and passes.
clang19: setup  ## compiles everything with clang 19
	@scripts/clang19.sh $(JOBS)

# Fuzzers are ordinary tests with a fixed seed; here they run for longer from a new seed, which they print. Then what judges
# kernels: JUDGE_LISTS lists of options, and every mistake at every length in every dtype. Then lists of options, FUZZ_LISTS of
# them for each of some thousand kernels. Then random programs, FUZZ_PROGRAMS of them: what was run with this build is in a
# log, from which a stopped run goes on.
fuzz: setup-python build  ## runs random programs, kernels and option lists for FUZZ_SECONDS from a new seed
	@FUZZ_SECONDS=$(FUZZ_SECONDS) FUZZ_SEED=$${FUZZ_SEED:-$$RANDOM} $(CTEST) -L fuzz --verbose
	@JUDGE_ALL=1 JUDGE_LISTS=$(JUDGE_LISTS) build/$(PRESET)/bin/test_verify --gtest_brief=1 --gtest_filter='Judge.*'
	@FUZZ_SEED=$${FUZZ_SEED:-$$RANDOM} scripts/fuzz_options.sh $(PRESET) $(FUZZ_LISTS)
	@scripts/fuzz.sh $(PRESET) --programs $(FUZZ_PROGRAMS)

# Tests with expectation files rewrite them when UPDATE_GOLDEN is set; review the diff.
golden: build  ## updates the expectation files; review the diff
	@UPDATE_GOLDEN=1 $(CTEST) -L golden
	@git --no-pager diff --stat -- tests

# Kernels before and after a change, as text: a refactoring shows no difference.
replay: build  ## compares the generated kernels with those of BASE, as text
	@scripts/replay.py --base $(or $(BASE),HEAD)

# The same against the parent commit, as CI asks: kernels may change where the changelog says so.
replay-parent: build  ## the same against the parent commit, as CI does
	@scripts/replay.py --base $(or $(BASE),HEAD~1) --changelog

faults:  ## makes a build with planted faults, and counts how many of them an investigation finds
	@scripts/build.sh faults
	@build/faults/bin/lathe faults

docs:  ## regenerates the pages that are made from tables
	@scripts/docs.py

hooks:  ## installs the pre-commit hook
	@ln -sf ../../scripts/pre-commit.sh .git/hooks/pre-commit && echo "pre-commit hook installed"

help:  ## prints this list

	@sed -n '/^[^#]/q; s/^# \?//p' Makefile; sed -n 's/^\([a-z0-9-]*\):.*## /\1 /p' Makefile | while read -r t w; do printf '  %-14s %s\n' "$$t" "$$w"; done

clean:  ## removes build/
	rm -rf build
