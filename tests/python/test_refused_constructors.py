"""A constructor that raises leaves nothing behind: what comes after it works as if it had never been called."""

import os
import pickle
import subprocess
import sys
import textwrap

import pytest

from lathe import Tensor, nn


def run(program):
    """Runs a program with freed memory written over, so that whoever still uses it crashes."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env={**os.environ, "PYTHONMALLOC": "debug"},
        capture_output=True,
        text=True,
    )


def test_a_refused_tensor_is_not_among_those_that_get_gradients():
    done = run("""
        import gc
        from lathe import Tensor, UserError
        for dtype in ("int32", "bool", "uint8"):
            for _ in range(20):
                try:
                    Tensor([1, 2, 3], dtype=dtype, requires_grad=True)
                except UserError:
                    pass
                else:
                    raise AssertionError(dtype)
        gc.collect()
        others = [Tensor([float(i)]) for i in range(50)]
        x = Tensor([1.0, 2.0], requires_grad=True)
        (x * x).sum().backward()
        assert x.grad.tolist() == [2.0, 4.0]
        """)
    assert done.returncode == 0, done.stderr[-2000:]


REFUSED = [
    "Tensor([1, 2], requires_grad=True)",
    "Tensor([[1], [2, 3]])",
    "Tensor(object())",
    "Tensor(3, dtype='no such dtype')",
    "Tensor(3, device=7)",
    "Tensor.ones(2, dtype='int32', requires_grad=True)",
    "Tensor.full((2,), 3, requires_grad=True)",
    "nn.Linear(-1, 2)",
    "nn.Conv2d(2, 2, (1, 2, 3))",
    "nn.optim.SGD([Tensor([1.0])], lr=0.1, nonsense=1)",
    "nn.optim.Adam(3)",
]


def test_what_follows_refused_calls_works():
    done = run(f"""
        import gc
        from lathe import Tensor, nn
        for call in {REFUSED}:
            try:
                eval(call)
            except Exception:
                continue
            raise AssertionError(call + " was taken")
        gc.collect()
        w = Tensor([[3.0]])
        optimizer = nn.optim.SGD([w], lr=0.5)
        Tensor.training = True
        (w * 2).sum().backward()
        optimizer.step()
        assert w.tolist() == [[2.0]]
        """)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.filterwarnings("ignore:nanobind")
def test_a_tensor_is_made_once():
    x = Tensor([1.0, 2.0])
    with pytest.raises(TypeError):
        x.__init__([3.0])
    assert x.tolist() == [1.0, 2.0]


def test_a_layer_is_not_made_from_half_of_its_state():
    layer = nn.Linear(2, 2)
    values, attributes = layer.__getstate__()
    del values["bias"]
    done = pickle.loads(pickle.dumps(layer))
    assert done.weight.tolist() == layer.weight.tolist()
    blank = nn.Linear.__new__(nn.Linear)
    with pytest.raises(KeyError):
        blank.__setstate__((values, attributes))
    del blank
    assert nn.Linear(2, 2)(Tensor([[1.0, 2.0]])).shape == (1, 2)
