#!/usr/bin/env bash
# run.sh BUILD_FOLDER COMPILER VERSION SANITIZE_FLAG: what a user of an installed Lathe does, from install to run.
set -euo pipefail
build=$1 compiler=$2 version=$3 sanitize=$4
if [ "$sanitize" = "-fsanitize=" ]; then sanitize=""; fi
consumer=$(cd "$(dirname "$0")/consumer" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

cmake --install "$build" --prefix "$scratch/prefix" >"$scratch/log" || { cat "$scratch/log"; exit 1; }
cmake -S "$consumer" -B "$scratch/build" -G Ninja -DCMAKE_PREFIX_PATH="$scratch/prefix" -DCMAKE_CXX_COMPILER="$compiler" \
  -DCMAKE_CXX_FLAGS="$sanitize" -DLATHE_VERSION="$version" >"$scratch/log" || { cat "$scratch/log"; exit 1; }
cmake --build "$scratch/build" >"$scratch/log" || { cat "$scratch/log"; exit 1; }
"$scratch/build/consumer"
