#!/usr/bin/env bash
# Checks and times the CUDA device beside PyTorch on a machine with an NVIDIA GPU, with programs that were built
# elsewhere: nothing is compiled there but kernels.
#   scripts/gpu_bench.sh pack FOLDER BUILD      puts what a visit needs into FOLDER (programs of BUILD, their libraries, this script)
#   scripts/gpu_bench.sh run OUT [SECTION...]   in such a folder: device tests, then the sections of `lathe bench cuda`
# OUT gets results.jsonl (a line for every row; put the file there again and a later visit goes on where this one
# stopped), the sources of all kernels with what the compiler said of them, and logs. SECONDS_LEFT (480) bounds a visit.
# TESTS=0 leaves the device tests out, OPS=1 also runs the op suite on CUDA against REF, SEARCH="ROW..." also measures
# these rows after a search of SEARCH_SECONDS (30) a kernel. The exit status is that of the worst part.
set -uo pipefail

pack() {
  folder=$1 build=$2
  mkdir -p "$folder/bin" "$folder/lib" "$folder/bench/peers" "$folder/scripts"
  for program in lathe lathe-worker test_cuda test_ops; do
    cp "$build/bin/$program" "$folder/bin/$program" || exit 2
    strip "$folder/bin/$program"
    ldd "$build/bin/$program" | awk '$3 ~ "^/" && $1 !~ "^lib(c|m|stdc[+][+]|gcc_s)[.]" {print $3}' | xargs -r -I{} cp -L {} "$folder/lib/"
  done
  chmod u+w "$folder"/lib/*
  strip "$folder"/lib/* 2>/dev/null
  cp bench/peers/torch_rows.py "$folder/bench/peers/"
  cp scripts/gpu_bench.sh "$folder/scripts/"
  XZ_OPT="-3 -T0" tar -C "$folder" -cJf "$folder/programs.tar.xz" bin lib  # a third of their size, where what travels is limited
  rm -r "$folder/bin" "$folder/lib"
  du -sh "$folder"
}

# The op suite in as many processes as there are cores.
ops() {
  local failed=0 shards
  shards=$(nproc)
  for ((i = 0; i < shards; ++i)); do
    (LATHE_DEVICE=CUDA OPS_DEVICE=CUDA LATHE_CACHE=off GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$i \
      timeout "${OPS_SECONDS:-200}" bin/test_ops --gtest_brief=1 >"$out/kernels/ops.$i" 2>&1; echo $? >"$out/kernels/ops.$i.status") &
  done
  wait
  for ((i = 0; i < shards; ++i)); do
    if [ "$(cat "$out/kernels/ops.$i.status")" != 0 ]; then
      failed=1
      echo "-- part $i of the op suite: status $(cat "$out/kernels/ops.$i.status")"
      grep -E "FAILED" "$out/kernels/ops.$i" | sort | uniq | head -12
    fi
  done
  grep -hE "PASSED|tests ran" "$out"/kernels/ops.*[0-9] | awk '{n += $4} END {print "op suite: " NR " lines, tests passed " n}'
  echo "== op suite: status $failed after $(($(date +%s) - begin)) s"
  return $failed
}

run() {
  out=$1
  shift
  cd "$(dirname "$0")/.." || exit 2
  if [ ! -d bin ]; then python3 -c 'import tarfile; tarfile.open("programs.tar.xz").extractall()' || exit 2; fi
  mkdir -p "$out/kernels"
  export LD_LIBRARY_PATH="$PWD/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  begin=$(date +%s)
  limit=${SECONDS_LEFT:-480}
  status=0
  if ! command -v nvidia-smi >/dev/null || ! nvidia-smi -L; then
    echo "gpu_bench: there is no NVIDIA GPU here" >&2
    exit 2
  fi
  nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm,clocks.mem --format=csv,noheader
  bin/lathe devices | head -40
  if [ "${TESTS:-1}" = 1 ]; then
    timeout 150 bin/test_cuda --gtest_brief=1 >"$out/test_cuda.log" 2>&1 || status=1
    tail -25 "$out/test_cuda.log"
    echo "== device tests: status $status after $(($(date +%s) - begin)) s"
  fi
  if [ "${OPS:-0}" = 1 ]; then ops || status=1; fi
  for section in "${@:-}"; do
    left=$((limit - ($(date +%s) - begin)))
    if [ "$left" -lt 15 ]; then
      echo "== ${section:-all}: no time left"
      continue
    fi
    echo "== section ${section:-all}, $left s left"
    timeout $((left + 60)) bin/lathe bench cuda ${section:+--section "$section"} --results "$out/results.jsonl" --save "$out/kernels" \
      --seconds "$left" 2>>"$out/bench.log" || status=1
  done
  for row in ${SEARCH:-}; do
    left=$((limit - ($(date +%s) - begin)))
    if [ "$left" -lt 60 ]; then
      echo "== search of $row: no time left"
      continue
    fi
    echo "== search of $row, $left s left"
    timeout "$left" bin/lathe bench cuda --filter "$row" --search "${SEARCH_SECONDS:-30}" --results "$out/searched.jsonl" \
      --save "$out/kernels" --seconds 1 2>>"$out/bench.log" || status=1
  done
  tar -C "$out" -czf "$out/kernels.tar.gz" kernels && rm -rf "$out/kernels"
  grep -v '^{' "$out/bench.log" 2>/dev/null | tail -20
  echo "gpu_bench: status $status after $(($(date +%s) - begin)) s"
  return $status
}

case "${1:-}" in
  pack) pack "$2" "$3" ;;
  run) shift && run "$@" ;;
  *) sed -n '2,11p' "$0" >&2 && exit 2 ;;
esac
