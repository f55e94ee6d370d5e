#!/usr/bin/env bash
# Formats the C++ files of the tree, or with --check names those that are not formatted. One clang-format version, so
# that everybody gets the same text.
set -euo pipefail
cd "$(dirname "$0")/.."

tool=$(command -v clang-format-19 || true)
if [ -z "$tool" ]; then
  echo "format: clang-format-19 is missing; scripts/setup.sh installs it" >&2
  exit 1
fi
files() { git ls-files -z --cached --others --exclude-standard '*.h' '*.cpp' | while IFS= read -r -d '' file; do
  if [ -f "$file" ]; then printf '%s\0' "$file"; fi
done; }

if [ "${1:-}" = --check ]; then
  if ! files | xargs -0 -r -P "$(nproc)" -n 20 "$tool" --dry-run --Werror; then
    echo "format: run make format" >&2
    exit 1
  fi
  echo "format: ok"
else
  files | xargs -0 -r -P "$(nproc)" -n 20 "$tool" -i
fi
