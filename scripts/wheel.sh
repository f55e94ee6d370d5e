#!/usr/bin/env bash
# wheel.sh [PYTHON ...]: builds a wheel of the Python package with each interpreter (default: the one of .venv-python) and
# tries it in an environment of its own. The core is built once, in build/wheel; each Python adds its bindings.
set -euo pipefail
cd "$(dirname "$0")/.."

ten_ops='
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
print("ten ops: right")
'

pythons=("$@")
if [ ${#pythons[@]} = 0 ]; then pythons=(.venv-python/bin/python); fi
for python in "${pythons[@]}"; do
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  "$python" -m venv "$folder/build"
  "$folder/build/bin/pip" install --quiet --disable-pip-version-check "scikit-build-core==1.1.*" "nanobind==3.1.*"
  "$folder/build/bin/pip" wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation -w "$folder/wheels" .
  mkdir -p build/wheels
  cp "$folder"/wheels/*.whl build/wheels/
  "$python" -m venv "$folder/clean"
  "$folder/clean/bin/pip" install --quiet --disable-pip-version-check "$folder"/wheels/*.whl
  (cd "$folder" && env -u PYTHONPATH "$folder/clean/bin/python" -c "$ten_ops")
  echo "wheel: $(basename "$folder"/wheels/*.whl) works"
  rm -rf "$folder"
done
