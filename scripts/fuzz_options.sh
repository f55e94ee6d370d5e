#!/usr/bin/env bash
# Random lists of options on the kernels of the op suite, of nets and of programs that the fuzzer draws, run on the device and
# judged by REF (tests/option_lists): scripts/fuzz_options.sh dev 20 [programs] tries 20 lists of each kernel.
set -euo pipefail
cd "$(dirname "$0")/.."

preset=$1
lists=${2:-20}
programs=${3:-60}
build=build/$preset
[ "$preset" = release ] && build=build
kernels=$build/fuzz-kernels
rm -rf "$kernels" "$kernels.jsonl"
mkdir -p "$kernels"
LATHE_SAVE=$PWD/$kernels scripts/fuzz.sh "$preset" --programs "$programs" --first "${FUZZ_SEED:-1}" --log "$kernels.jsonl" >/dev/null
echo "fuzz: $lists lists of options for each kernel, $(find "$kernels" -name '*.txt' | wc -l) of them from random programs"
OPTION_LISTS=$lists OPTION_KERNELS=$kernels exec "$build/bin/test_option_lists" --gtest_brief=1
