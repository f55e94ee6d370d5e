#!/usr/bin/env bash
# The fuzzer of tensor programs (tests/python/fuzz) with the build of a preset: scripts/fuzz.sh dev --programs 1000.
set -euo pipefail
cd "$(dirname "$0")/.."

preset=$1
shift
build=build/$preset
[ "$preset" = release ] && build=build
if [ ! -x .venv-python/bin/python ]; then
  echo "fuzz: there is no Python environment; scripts/setup.sh python makes one" >&2
  exit 1
fi
export PYTHONPATH=$PWD/$build/python:$PWD/tests/python LATHE_CACHE=off
exec .venv-python/bin/python -W ignore -m fuzz --log "$build/fuzz.jsonl" "$@"
