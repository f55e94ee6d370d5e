#!/usr/bin/env bash
# Damaged model files, by the thousand: scripts/fuzz_files.sh asan 10000 [SEED] tries that many files of each family: ONNX models,
# language models, tokenizers, chat templates, and tensor files (safetensors, GGUF, torch, npz, tar). Each has to be read or refused. The
# build of the preset has to be there; a seed that fails is told with the command that repeats it.
set -euo pipefail
cd "$(dirname "$0")/.."

preset=${1:-asan}
files=${2:-10000}
seed=${3:-$((RANDOM * 32768 + RANDOM))}
build=build/$preset
[ "$preset" = release ] && build=build
# What a file's own numbers make the reader ask for has an end.
export ASAN_OPTIONS=intercept_tls_get_addr=0:max_allocation_size_mb=4096:hard_rss_limit_mb=8192:${ASAN_OPTIONS:-}
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1:${UBSAN_OPTIONS:-}

echo "fuzz: $files files of each family from seed $seed"
failed=0
while read -r program test kinds; do
  log=$build/fuzz-$test.log
  count=$(((files + kinds - 1) / kinds))
  if FUZZ_COUNT=$count FUZZ_SEED=$seed "$build/bin/$program" --gtest_filter="$test" >"$log" 2>&1 && ! grep -q "SKIPPED" "$log"; then
    echo "fuzz: $test: $(grep -E "read, .* refused" "$log")"
  else
    failed=1
    grep -v '^FUZZ_SEED=' "$log" | tail -40
    last=$(grep '^FUZZ_SEED=' "$log" | tail -1)
    echo "fuzz: failed: $last $build/bin/$program --gtest_filter=$test"
  fi
done <<'LIST'
test_onnx HostileFiles.MutatedModelsAreReadOrRefused 11
test_llm CheckpointFuzz.DamagedModelsAreReadOrRefused 7
test_llm CheckpointFuzz.DamagedTokenizersAreReadOrRefused 5
test_llm ChatTemplateFuzz.DamagedTemplatesAreRunOrRefused 6
test_formats Fuzz.DamagedFilesAreReadOrRefused 11
LIST
exit $failed
