#!/usr/bin/env bash
# clang19.sh [JOBS]: compiles everything with clang 19. Passes, with a message, where the distribution has no such compiler; a
# compiler that could be installed and is not is an error, because then scripts/setup.sh has failed.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v clang++-19 >/dev/null; then
  if command -v apt-cache >/dev/null && apt-cache show clang-19 >/dev/null 2>&1; then
    echo "clang19: the distribution has clang-19 and it is not installed: apt-get install clang-19" >&2
    exit 1
  fi
  echo "clang19: the distribution has no clang-19; skipped"
  exit 0
fi
exec scripts/build.sh clang19 "${1:-$(nproc)}"
