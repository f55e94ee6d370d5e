#!/usr/bin/env bash
# wheel.sh [PYTHON ...]: builds a wheel of the Python package with each interpreter and tries it in an environment of its own.
# Without arguments: with that of .venv-python, whose wheel also runs the whole test suite, and then with every other Python
# of the list below that this machine has (on the PATH, or of pyenv). The core is built once, in build/wheel; each Python adds
# its bindings. Wheels go to build/wheels.
set -euo pipefail
cd "$(dirname "$0")/.."
others=(3.10 3.12 3.13)

ten_ops='
import sys
from lathe import Tensor, TinyJit, nn
x = Tensor([[1.0, 2.0], [3.0, 4.0]])
assert (x + 1).tolist() == [[2.0, 3.0], [4.0, 5.0]] and (x * x).sum().item() == 30.0
assert (x @ x).tolist() == [[7.0, 10.0], [15.0, 22.0]] and x.T[0].tolist() == [1.0, 3.0]
assert x.max(axis=1).tolist() == [2.0, 4.0] and x.reshape(4).flip(0).tolist() == [4.0, 3.0, 2.0, 1.0]
assert x.relu().exp().log().allclose(x, rtol=1e-4) and x.softmax().sum().item() > 1.99
assert nn.Linear(2, 3)(x).shape == (2, 3) and Tensor.arange(5).cumsum().tolist() == [0, 1, 3, 6, 10]
x.square().sum().backward()
assert x.grad.tolist() == [[2.0, 4.0], [6.0, 8.0]]
double = TinyJit(lambda t: t * 2)
assert [double(Tensor([i])).item() for i in range(4)] == [0, 2, 4, 6]
print("wheel: ten ops are right on Python", sys.version.split()[0])
'

# Prints the interpreter of a version, or nothing.
find_python() {
  local found
  for found in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/python; do
    if "$found" -c 'import venv' 2>/dev/null; then  # pyenv puts names on the PATH that run nothing
      echo "$found"
      return
    fi
  done
}

pythons=("$@")
if [ ${#pythons[@]} = 0 ]; then
  if [ ! -x .venv-python/bin/python ]; then
    echo "wheel: no .venv-python (scripts/setup.sh python makes it): not tried"
    exit 0
  fi
  pythons=(.venv-python/bin/python)
  for version in "${others[@]}"; do
    found=$(find_python "$version" || true)
    if [ -n "$found" ]; then pythons+=("$found"); else echo "wheel: no Python $version here: not tried"; fi
  done
fi

pip_options=(--quiet --disable-pip-version-check)
# Else each interpreter brings the compiler it was built with, and the core would be built again for it.
export CC=${CC:-gcc} CXX=${CXX:-g++}
mkdir -p build/wheels
for python in "${pythons[@]}"; do
  # Always the same folder for a version: the compiler's cache then knows what it built for it before.
  folder=$PWD/build/wheel-envs/$("$python" -c 'import sys; print(sys.implementation.cache_tag)')
  rm -rf "$folder/wheels" "$folder/clean" "$folder/site" "$folder/cache"
  "$python" -m venv "$folder/build"
  if ! "$folder/build/bin/pip" install "${pip_options[@]}" "scikit-build-core==1.1.*" "nanobind==3.1.*"; then
    echo "wheel: what builds it cannot be fetched (no network?): not tried"
    exit 0
  fi
  "$folder/build/bin/pip" wheel "${pip_options[@]}" --no-deps --no-build-isolation -w "$folder/wheels" .
  cp "$folder"/wheels/*.whl build/wheels/
  "$python" -m venv "$folder/clean"
  "$folder/clean/bin/pip" install "${pip_options[@]}" "$folder"/wheels/*.whl
  (cd "$folder" && env -u PYTHONPATH "$folder/clean/bin/python" -c "$ten_ops")
  if [ "$python" = .venv-python/bin/python ]; then  # the oracles are there: all tests, with the package of the wheel
    "$folder/build/bin/pip" install "${pip_options[@]}" --no-deps --target "$folder/site" "$folder"/wheels/*.whl
    PYTHONPATH=$folder/site LATHE_CACHE=$folder/cache "$python" -m pytest -q -p no:cacheprovider tests/python
  fi
  echo "wheel: $(basename "$folder"/wheels/*.whl) works"
done
