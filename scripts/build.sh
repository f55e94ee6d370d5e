#!/usr/bin/env bash
# build.sh PRESET [JOBS [TARGET...]]: configures once, then builds everything, or these targets. Ninja reconfigures by itself
# when CMake files or globs change, but does not see that what the Python package is built with was installed since.
set -euo pipefail
cd "$(dirname "$0")/.."

preset=${1:-dev}
jobs=${2:-$(nproc)}
shift $(($# < 2 ? $# : 2))
dir=build/$preset
if [ "$preset" = release ]; then dir=build; fi

if [ ! -f "$dir/build.ninja" ] || [ .venv-python/pyvenv.cfg -nt "$dir/build.ninja" ]; then
  log=$(mktemp)
  if ! cmake --preset "$preset" >"$log" 2>&1; then
    cat "$log"
    rm -f "$log"
    exit 1
  fi
  grep -E "^-- lathe:|[Ww]arning" "$log" || true
  rm -f "$log"
fi
cmake --build "$dir" -j "$jobs" ${@:+--target "$@"}
