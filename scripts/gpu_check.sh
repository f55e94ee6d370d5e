#!/usr/bin/env bash
# Proves the CUDA device on a machine with an NVIDIA GPU, with one command: the device's own tests, then the op suite on
# CUDA against REF.
#   scripts/gpu_check.sh [FOLDER]   FOLDER is a build that holds bin/test_cuda and bin/test_ops, perhaps made elsewhere;
#                                   without it the tests are built here first (no LLVM needed), into build/gpu-check
# OPS_SAMPLE=n takes every n-th op case. The exit status is that of the worst part.
set -uo pipefail
cd "$(dirname "$0")/.."

folder=${1:-build/gpu-check}
if [ ! -x "$folder/bin/test_cuda" ] || [ $# = 0 ]; then
  generator=()
  if command -v ninja >/dev/null; then generator=(-G Ninja); fi
  cmake -S . -B "$folder" "${generator[@]}" -DCMAKE_BUILD_TYPE=Release -DLATHE_LLVM=OFF -DLATHE_WERROR=OFF || exit 2
  cmake --build "$folder" --parallel "$(nproc)" --target test_cuda test_ops || exit 2
fi

if command -v nvidia-smi >/dev/null; then nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader; fi
status=0
run() {
  echo "== $*"
  "$@" || status=1
}
run "$folder/bin/test_cuda" --gtest_brief=1
# Each shard is a process of its own, so that compiling and checking use all cores.
shards=$(($(nproc) < 8 ? $(nproc) : 8))
echo "== op suite on CUDA in $shards parts"
logs=$(mktemp -d)
for ((i = 0; i < shards; ++i)); do
  (LATHE_DEVICE=CUDA OPS_DEVICE=CUDA GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$i "$folder/bin/test_ops" --gtest_brief=1 \
    >"$logs/$i" 2>&1; echo $? >"$logs/$i.status") &
done
wait
for ((i = 0; i < shards; ++i)); do
  if [ "$(cat "$logs/$i.status")" != 0 ]; then
    status=1
    echo "-- part $i failed:"
    tail -60 "$logs/$i"
  else
    tail -2 "$logs/$i"
  fi
done
rm -rf "$logs"
if [ $status = 0 ]; then echo "gpu_check: all passed"; else echo "gpu_check: FAILED"; fi
exit $status
