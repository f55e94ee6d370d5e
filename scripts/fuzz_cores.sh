#!/usr/bin/env bash
# The fuzzer of tensor programs with a release wheel, on a machine that has Python, numpy and PyTorch and nothing else of ours:
# neither LLVM nor a compiler.
#   scripts/fuzz_cores.sh pack FOLDER WHEEL    unpacks the wheel to FOLDER/site and puts the libraries it needs beside it
#   scripts/fuzz_cores.sh --site FOLDER/site --out OUT [--jobs N] [--programs N] [--seconds S] [--first SEED] [--python PYTHON]
# The second runs in any copy of the tree: N processes take one seed after another from one list, and all write to
# OUT/fuzz.jsonl, from which a later call goes on. OUT/report.txt gets coverage and findings of all of them. After S seconds no
# program is started, and half a minute later the rest is given up. The exit status is 1 where something was found and 3 where
# seconds were too few for all programs.
set -euo pipefail

# libLLVM as small as it can be: the functions our module calls and what they need, for the processors a wheel is for.
pack_llvm() {
  local module=$1 to=$2 library version config
  library=$(readelf -d "$module" | grep -o 'libLLVM[^]]*') || return 0
  version=$(nm -D --undefined-only "$module" | grep -o '@LLVM_[0-9.]*' | sort -u | tr -d @)
  config=/usr/lib/llvm-${version//[!0-9.]/}
  config=${config%%.*}/bin/llvm-config
  nm -D --undefined-only "$module" | grep -o 'LLVM[A-Za-z0-9_]*@' | tr -d @ | sort -u >"$to/functions"
  { echo "$version { global:"; sed 's/$/;/' "$to/functions"; echo "local: *; };"; } >"$to/exports"
  # shellcheck disable=SC2046
  g++ -shared -fuse-ld=gold -o "$to/$library" -Wl,-soname,"$library",--version-script="$to/exports",--gc-sections,-s,--as-needed \
    $(sed 's/^/-Wl,-u,/' "$to/functions") -L"$("$config" --libdir)" -Wl,--start-group \
    $("$config" --link-static --libs x86 orcjit passes) -Wl,--end-group -lz -lzstd
  rm "$to/functions" "$to/exports"
}

pack() {
  local folder=$1 wheel=$2 file
  rm -rf "$folder"
  mkdir -p "$folder/site" "$folder/lib"
  python3 -m zipfile -e "$wheel" "$folder/site"
  chmod +x "$folder/site/lathe/lathe-worker"
  pack_llvm "$folder/site/lathe/liblathe_llvm.so" "$folder/lib"
  for file in "$folder"/site/lathe/*.so "$folder"/lib/*; do
    ldd "$file" | awk '/libz3|libfmt|libzstd|libz\./ {print $3}'
  done | sort -u | xargs -I{} cp -L {} "$folder/lib/"
  chmod u+w "$folder"/lib/*
  strip "$folder"/lib/* "$folder"/site/lathe/*.so "$folder/site/lathe/lathe-worker"
  XZ_OPT="-6 -T0" tar -C "$folder" -cJf "$folder/lib.tar.xz" lib  # a third of their size, where what travels is limited
  rm -r "$folder/lib"
  du -sh "$folder"
}

if [ "${1:-}" = pack ]; then
  cd "$(dirname "$0")/.."
  pack "$2" "$3"
  exit
fi

site='' out='' jobs=$(nproc) programs=1000 seconds=0 first=1 python=${PYTHON:-python3}
while [ $# -gt 1 ]; do
  case $1 in
    --site) site=$(realpath "$2") ;;
    --out) mkdir -p "$2" && out=$(realpath "$2") ;;
    --jobs) jobs=$2 ;;
    --programs) programs=$2 ;;
    --seconds) seconds=$2 ;;
    --first) first=$2 ;;
    --python) python=$2 ;;
    *) break ;;
  esac
  shift 2
done
if [ $# -gt 0 ] || [ -z "$site" ] || [ -z "$out" ]; then
  sed -n '/^[^#]/q; s/^# \?//p' "$0" >&2
  exit 2
fi

if [ -f "$site/../lib.tar.xz" ]; then
  lib=$(mktemp -d)
  trap 'rm -rf "$lib"' EXIT
  "$python" -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' "$site/../lib.tar.xz" "$lib"
  export LD_LIBRARY_PATH=$lib/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
fi
PYTHONPATH=$site:$(realpath "$(dirname "$0")/../tests/python")
export PYTHONPATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 LATHE_CACHE=off LATHE_DEVICE=CPU
# Each process has its core; two threads in Lathe, so that what they share is tried as well.
export LATHE_THREADS=${LATHE_THREADS:-2} OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1
"$python" -W ignore -c '
import ctypes, os, sys, numpy, torch, lathe
ctypes.CDLL(os.path.join(os.path.dirname(lathe.__file__), "liblathe_llvm.so"))  # else kernels are compiled in some other way
print("fuzz: Python", sys.version.split()[0], "numpy", numpy.__version__, "PyTorch", torch.__version__, "Lathe", lathe.__file__)'
status=0
"$python" -W ignore -m fuzz --jobs "$jobs" --programs "$programs" --first "$first" --log "$out/fuzz.jsonl" \
  --minutes "$("$python" -c "print($seconds / 60)")" 2>&1 | tee "$out/report.txt" || status=${PIPESTATUS[0]}
exit "$status"
