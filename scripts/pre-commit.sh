#!/usr/bin/env bash
# The checks of a commit that take seconds; `make hooks` installs this. The same commands as CI.
set -euo pipefail
cd "$(git rev-parse --show-toplevel)"
scripts/lint.py
git diff --cached --name-only -z --diff-filter=ACM -- '*.h' '*.cpp' | xargs -0 -r clang-format-19 --dry-run --Werror
