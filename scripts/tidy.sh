#!/usr/bin/env bash
# tidy.sh [BASE]: clang-tidy, with the list in .clang-tidy, over the sources that differ from BASE (main if not given, or the
# last commit when on it); ALL=1 takes every source. Needs a configured build/dev; says so and passes where something is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

tidy=
for name in clang-tidy-19 clang-tidy-20 clang-tidy; do
  if command -v "$name" >/dev/null; then
    tidy=$name
    break
  fi
done
if [ -z "$tidy" ]; then
  echo "tidy: clang-tidy is not installed; skipped"
  exit 0
fi
if [ ! -f build/dev/compile_commands.json ]; then
  echo "tidy: build/dev is not configured; skipped"
  exit 0
fi
if [ "${ALL:-0}" = 1 ]; then
  mapfile -t files < <(git ls-files 'src/*.cpp' 'nn/*.cpp' 'models/*.cpp' 'formats/*.cpp' 'tools/*.cpp')
else
  base=${1:-main}
  if ! git rev-parse -q --verify "$base" >/dev/null || [ "$(git rev-parse "$base")" = "$(git rev-parse HEAD)" ]; then base=HEAD~1; fi
  mapfile -t files < <({ git diff --name-only --diff-filter=ACM "$base" -- 'src/*.cpp' 'nn/*.cpp' 'models/*.cpp' 'formats/*.cpp' \
    'tools/*.cpp'; } 2>/dev/null)
fi
if [ ${#files[@]} = 0 ]; then
  echo "tidy: nothing changed"
  exit 0
fi
printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$(nproc)" "$tidy" --quiet -p build/dev --extra-arg=-Wno-unknown-warning-option \
  --extra-arg=-Wno-ignored-gch --extra-arg=-Wno-deprecated-declarations 2>/dev/null
echo "tidy: ok (${#files[@]} files)"
