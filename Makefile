# The commands of everyday work; each one is short on purpose, so that it can be read here and typed by hand.
#   make            set up, configure and build (preset dev, into build/dev)
#   make demo       set up, build (preset release, into build/), train the demo net
#   make test       everything this machine can run; test-fast: under a minute; test-all: the whole matrix
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

.PHONY: build python wheel release setup setup-cuda setup-python demo test test-fast test-all bench peers format format-check lint asan tsan \
  clang19 fuzz golden replay docs clean hooks help

setup:
	@if [ "$(SETUP)" != 0 ]; then scripts/setup.sh; fi

setup-cuda: setup
	@if [ "$(SETUP)" != 0 ] && [ "$(CUDA)" != 0 ]; then scripts/setup.sh cuda; fi

setup-python: setup
	@if [ "$(SETUP)" != 0 ] && [ "$(PYTHON)" != 0 ]; then scripts/setup.sh python; fi

build: setup
	@scripts/build.sh $(PRESET) $(JOBS)

# The Python package into the running environment.
python: setup-python
	@scripts/build.sh $(PRESET) $(JOBS)
	@echo "PYTHONPATH=$(CURDIR)/build/$(PRESET)/python .venv-python/bin/python -c 'import lathe'"

# A wheel for the environment's Python, tried in a clean one.
wheel: setup-python
	@scripts/wheel.sh

release: setup
	@scripts/build.sh release $(JOBS)

demo: release
	@build/bin/lathe demo

test: setup-cuda setup-python build
	@$(CTEST) -LE matrix

test-fast: build
	@$(CTEST) -L fast

test-all: setup-cuda setup-python build
	@$(CTEST)

bench: release
	@scripts/bench.py $(if $(BASE),--base $(BASE))

peers: setup
	@scripts/setup.sh peers

format:
	@scripts/format.sh

format-check:
	@scripts/format.sh --check

# clang-tidy looks at what differs from BASE (main); ALL=1 at everything.
lint:
	@scripts/lint.py
	@scripts/docs.py --check
	@scripts/tidy.sh $(BASE)

# GCC's runtime before version 14 takes some blocks of thread-local storage for ones with a header of old C libraries, and its
# leak checker then dies at exit, now and then: without its hook on such blocks it does not look at them.
asan: setup
	@scripts/build.sh asan $(JOBS)
	@ASAN_OPTIONS=intercept_tls_get_addr=0:$${ASAN_OPTIONS:-} ctest --test-dir build/asan --output-on-failure --no-tests=ignore -j $(JOBS) -L fast

# Without address randomisation, which the thread sanitizer of older compilers does not survive on new kernels.
tsan: setup
	@scripts/build.sh tsan $(JOBS)
	@setarch -R ctest --test-dir build/tsan --output-on-failure --no-tests=ignore -j $(JOBS) -L fast

clang19: setup
	@scripts/build.sh clang19 $(JOBS)

# Fuzzers are ordinary tests with a fixed seed; here they run for longer from a new seed, which they print. Then what judges
# kernels: JUDGE_LISTS lists of options, and every mistake at every length in every dtype. Then lists of options, FUZZ_LISTS of
# them for each of some thousand kernels. Then random programs, FUZZ_PROGRAMS of them: what was run with this build is in a
# log, from which a stopped run goes on.
fuzz: setup-python build
	@FUZZ_SECONDS=$(FUZZ_SECONDS) FUZZ_SEED=$${FUZZ_SEED:-$$RANDOM} $(CTEST) -L fuzz --verbose
	@JUDGE_ALL=1 JUDGE_LISTS=$(JUDGE_LISTS) build/$(PRESET)/bin/test_verify --gtest_brief=1 --gtest_filter='Judge.*'
	@FUZZ_SEED=$${FUZZ_SEED:-$$RANDOM} scripts/fuzz_options.sh $(PRESET) $(FUZZ_LISTS)
	@scripts/fuzz.sh $(PRESET) --programs $(FUZZ_PROGRAMS)

# Tests with expectation files rewrite them when UPDATE_GOLDEN is set; review the diff.
golden: build
	@UPDATE_GOLDEN=1 $(CTEST) -L golden
	@git --no-pager diff --stat -- tests

# Kernels before and after a change, as text: a refactoring shows no difference.
replay: build
	@scripts/replay.py --base $(or $(BASE),HEAD)

docs:
	@scripts/docs.py

hooks:
	@ln -sf ../../scripts/pre-commit.sh .git/hooks/pre-commit && echo "pre-commit hook installed"

help:
	@sed -n '/^[^#]/q; s/^# \?//p' Makefile; echo "Targets: $$(sed -n 's/^\([a-z0-9-]*\):.*/\1/p' Makefile | tr '\n' ' ')"

clean:
	rm -rf build
