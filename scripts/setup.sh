#!/usr/bin/env bash
# Installs what the build needs on Debian and Ubuntu, and nothing when it is there already (a second run takes
# milliseconds).  setup.sh: packages;  setup.sh cuda: NVIDIA's compilers, into .venv-cuda;  setup.sh peers: the
# libraries benchmarks compare with, into .venv-peers;  setup.sh python: what builds and tests the Python package, into
# .venv-python, which sees the distribution's PyTorch and numpy;  setup.sh browser: Chromium, and playwright beside these.
# Missing optional things are a message, never a failure.
set -euo pipefail
cd "$(dirname "$0")/.."

# "a|b" means the first of them that the distribution has.
required=(cmake ninja-build g++ python3 libfmt-dev libgtest-dev)
optional=(ccache mold "llvm-19-dev|llvm-20-dev|llvm-18-dev" "clang-19|clang-20|clang-18"
  "clang-format-19|clang-format-20" "clang-tidy-19|clang-tidy-20" libz3-dev libcli11-dev nlohmann-json3-dev libutf8proc-dev libcpp-httplib-dev libsqlite3-dev zlib1g-dev libzstd-dev
  dataset-fashion-mnist libonnx-testdata python3-venv codespell)

cuda_packages=("nvidia-cuda-nvrtc==13.0.*" "nvidia-nvjitlink==13.0.*" "nvidia-cuda-nvcc==13.0.*"
  "nvidia-cuda-runtime==13.0.*")
# The oracles of the Python tests belong to the distribution's interpreter, so its environment is made from that.
python_system=(python3-dev python3-venv python3-numpy python3-torch python3-jinja2)
python_packages=("nanobind==3.1.*" "scikit-build-core==1.1.*" pytest hypothesis safetensors openai mypy pyright "gguf==0.19.*" "mcp==2.3.*")
# A browser looks at the page of an investigation (tests/investigations/page_test.py).
browser_packages=("playwright==1.65.*")
browser_system=(chromium)
peer_packages=("tinygrad==0.14.*" numpy scipy-openblas32 mkl onednn-cpu-iomp intel-cmplr-lib-rt torch onnxruntime)

say() { echo "setup: $*"; }

# Prints each entry of which no alternative is installed.
missing_of() {
  local entry
  for entry in "$@"; do
    local found=0 name
    for name in ${entry//|/ }; do
      if [[ "$installed" == *" $name "* ]]; then found=1; fi
    done
    if [ $found = 0 ]; then echo "$entry"; fi
  done
}

# Prints the first alternative that the package lists know.
available_of() {
  local name
  for name in ${1//|/ }; do
    if apt-cache show "$name" >/dev/null 2>&1; then
      echo "$name"
      return
    fi
  done
}

install_packages() {
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    say "not a Debian system: install ${required[*]} and, if you can, ${optional[*]}"
    return 0
  fi
  local all="${required[*]} ${optional[*]}"
  # shellcheck disable=SC2086
  installed=" $({ dpkg-query -W -f='${Package}:${db:Status-Status}\n' ${all//|/ } 2>/dev/null || true; } |
    sed -n 's/:installed$//p' | tr '\n' ' ') "

  local need want
  mapfile -t need < <(missing_of "${required[@]}")
  mapfile -t want < <(missing_of "${optional[@]}")
  # What the distribution does not have is remembered, so that later runs do not ask again.
  local known=build/setup-unavailable-$((${#optional[@]}))  # the list asked for is told by its length
  if [ ${#need[@]} = 0 ] && { [ ${#want[@]} = 0 ] || [ "${want[*]}" = "$(cat $known 2>/dev/null)" ]; }; then
    return 0
  fi

  local root=()
  if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null; then
      say "missing ${need[*]} ${want[*]}, and neither root nor sudo to install them"
      [ ${#need[@]} = 0 ]
      return
    fi
    root=(sudo)
  fi
  say "missing: ${need[*]} ${want[*]}"
  say "updating package lists"
  "${root[@]}" apt-get update -qq || say "package lists could not be updated; using the old ones"
  local names=() absent=() entry name
  for entry in "${need[@]}" "${want[@]}"; do
    name=$(available_of "$entry")
    if [ -n "$name" ]; then names+=("$name"); else absent+=("$entry"); fi
  done
  if [ ${#names[@]} != 0 ]; then
    say "installing ${names[*]}"
    if ! "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        "${names[@]}" >/tmp/lathe-setup.$$ 2>&1; then
      tail -20 /tmp/lathe-setup.$$
      rm -f /tmp/lathe-setup.$$
      say "installation failed"
      [ ${#need[@]} = 0 ]
      return
    fi
    rm -f /tmp/lathe-setup.$$
  fi
  if [ ${#absent[@]} != 0 ]; then
    say "not in this distribution: ${absent[*]}"
    mkdir -p build
    echo "${absent[*]}" >$known
  fi
  say "done"
}

# make_venv FOLDER WHAT PACKAGE...: a private Python environment, rebuilt only when the package list changes.
make_venv() {
  local folder=$1 what=$2 stamp
  shift 2
  stamp=$folder/lathe-installed
  if [ "$(cat "$stamp" 2>/dev/null)" = "$*" ]; then return 0; fi
  say "installing $what into $folder"
  local begin=$SECONDS
  # shellcheck disable=SC2086
  if ! ${venv_python:-python3} -m venv ${venv_options:-} "$folder" >/dev/null 2>&1; then
    say "python3 cannot make $folder (is python3-venv installed?); going on without $what"
    return 0
  fi
  if ! "$folder/bin/pip" install --quiet --disable-pip-version-check --retries 1 --timeout 20 "$@"; then
    say "could not fetch $what (no network?); going on without"
    return 0
  fi
  echo "$*" >"$stamp"
  say "$what ready after $((SECONDS - begin)) s"
}

case "${1:-packages}" in
  packages) install_packages ;;
  cuda) make_venv .venv-cuda "the CUDA compilers (0.6 GB)" "${cuda_packages[@]}" ;;
  python)
    required=()
    optional=("${python_system[@]}")
    install_packages
    if [ -x /usr/bin/python3 ]; then venv_python=/usr/bin/python3; fi
    venv_options=--system-site-packages
    make_venv .venv-python "what builds and tests the Python package" "${python_packages[@]}"
    ;;
  browser)
    required=()
    optional=("${browser_system[@]}")
    install_packages
    "$0" python
    .venv-python/bin/pip install --quiet --disable-pip-version-check "${browser_packages[@]}"
    ;;
  peers) make_venv .venv-peers "the peers benchmarks compare with (8 GB)" "${peer_packages[@]}" ;;
  *)
    echo "usage: setup.sh [packages|cuda|peers|python|browser]" >&2
    exit 2
    ;;
esac
