"""Mistakes people make in their first hour: each is an error whose whole text is pinned, saying what, where and how to go on."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import lathe
from lathe import Tensor, TinyJit, nn

F = nn.functional
HERE = os.path.basename(__file__)


def x():
    return Tensor.ones(2, 3)


class NoForward(nn.Module):
    pass


def reads_inside_a_capture():
    step = TinyJit(lambda t: t * t.sum().item())
    for _ in range(3):
        step(x())


def changes_the_dtype_of_a_capture():
    step = TinyJit(lambda t: t + 1)
    for _ in range(3):
        step(Tensor([1.0]))
    step(Tensor([1]))


def loads_another_net():
    nn.Sequential(nn.Linear(2, 3)).load_state_dict(nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1)).state_dict())


def steps_without_a_gradient():
    nn.optim.SGD([Tensor([1.0], requires_grad=True)]).step()


# What is done wrong, and all that is said.
MISTAKES = [
    (lambda: nn.Linear(4, 2)(x()),
     "lathe: Linear: the input has shape (2, 3), its last size should be 4\n"
     "  help: the layer is Linear(4, 2); flatten(1) joins the axes after the first"),
    (lambda: x() + Tensor.ones(2, 4),
     "lathe: add: shapes (2, 3) and (2, 4) do not broadcast: 3 against 4\n"
     "  help: axes are matched from the last one; each pair must be equal or one of them 1"),
    (lambda: nn.Conv2d(3, 4, 3)(Tensor.ones(1, 8, 8, 3)),
     "lathe: conv2d: input (1, 8, 8, 3) has 8 channels, weight (4, 3, 3, 3) takes 3 in 1 groups\n"
     "  help: channels are axis 1 of the input: images with channels last need permute(0, 3, 1, 2)"),
    (lambda: nn.Conv2d(3, 4, 3)(Tensor.ones(8, 8)),
     "lathe: conv2d: input (8, 8) and weight (4, 3, 3, 3) have different numbers of axes\n"
     "  help: input is (batch, channels, spatial...), weight (out, in / groups, kernel...)"),
    (lambda: nn.Conv2d(1, 4, 5)(Tensor.ones(1, 1, 3, 3)),
     "lathe: windows: a window reaching over 5 elements does not fit an axis of 3\n  help: pad the input"),
    (lambda: x()[Tensor([0.5])], "lathe: getitem: an index of dtype float32\n  help: cast it to an integer dtype"),
    (lambda: nn.Embedding(4, 2)(Tensor([1.0])), "lathe: Embedding: rows are chosen by integers, not float32\n  help: cast them: x.long()"),
    (lambda: x()[5], "lathe: getitem: index 5 is out of bounds for axis 0 of size 2"),
    (lambda: 1 if x() > 0 else 0,
     "lathe: bool: a tensor of shape (2, 3) is neither true nor false\n  help: ask for one value: t.any(), t.all(), or an element"),
    (lambda: float(x()), "lathe: item: the tensor has shape (2, 3), which is not one element\n  help: index it, or use tolist() for all elements"),
    (lambda: x().to("cudaa"), 'lathe: device: no device "cudaa": this build knows CPU, CUDA, DISK, NULL, REF\n  help: did you mean CUDA?'),
    (lambda: (Tensor.ones(2, 3, requires_grad=True) * 2).backward(),
     "lathe: gradient: the tensor has shape (2, 3), not one element\n  help: reduce it (sum, mean), or give the gradient to start with"),
    (lambda: Tensor.ones(2, requires_grad=False).sum().backward(),
     "lathe: backward: () float32 on CPU does not depend on any tensor that requires a gradient\n"
     "  help: call requires_grad_() on the parameters"),
    (lambda: Tensor([1, 2], requires_grad=True), "lathe: requires_grad_: int32 has no gradients\n  help: cast to a float dtype"),
    (lambda: x().sum(dmi=1),
     "lathe: sum: cannot be called with (dmi=int)\n  note: it takes (axis, keepdim, dtype)\n"
     "  help: there is no argument dmi; did you mean dim?"),
    (lambda: F.cross_entropy(x(), Tensor([0, 1]), reduction="meen"), "lathe: loss: 'meen' is not a reduction\n  help: mean, sum or none"),
    (lambda: F.cross_entropy(x(), Tensor([0.0, 1.0])),
     "lathe: cross_entropy: targets are classes, which are integers, not float32\n"
     "  help: cast them: target.long(); probabilities have the shape of the input"),
    (lambda: F.cross_entropy(x(), Tensor([0, 1, 2])),
     "lathe: cross_entropy: the target has shape (3,), the input (2, 3) needs (2,)\n"
     "  help: the classes are axis 1 of the input; targets are class indices without that axis"),
    (lambda: F.mse_loss(x(), Tensor.ones(2, 4)),
     "lathe: mse_loss: the shapes differ: input (2, 3), target (2, 4)\n"
     "  help: reshape one of them; broadcasting a loss is mostly a mistake"),
    (loads_another_net,
     "lathe: load_state_dict: the names of Sequential and of the state dict differ\n  note: missing in the dict: none\n"
     "  note: unknown to the module: 1.weight, 1.bias\n  help: strict=False loads what fits"),
    (lambda: nn.Linear(2, 3).load_state_dict(nn.Linear(2, 4).state_dict()),
     "lathe: load_state_dict: weight has shape (4, 2), the model's (3, 2)"),
    (lambda: x().softmax(2), "lathe: softmax: axis 2 is outside a tensor of 2 axes\n  help: axes go from -2 to 1"),
    (lambda: lathe.cat([x(), Tensor.ones(3, 4)]),
     "lathe: cat: (2, 3) and (3, 4) cannot be joined along axis 0\n  help: all other axes must be equal"),
    (lambda: lathe.stack([x(), Tensor.ones(3, 4)]), "lathe: stack: shapes (2, 3) and (3, 4) differ"),
    (lambda: x().reshape(4, 2), "lathe: reshape: (2, 3) has 6 elements, which do not fill (4, 2)"),
    (lambda: x().reshape(-1, -1), "lathe: reshape: more than one size is -1"),
    (lambda: x().transpose(0, 5), "lathe: transpose: axis 5 is outside a tensor of 2 axes\n  help: axes go from -2 to 1"),
    (lambda: x().permute(0, 0), "lathe: permute: (0, 0) is not a permutation of the 2 axes of (2, 3)"),
    (lambda: x().expand(4, 3),
     "lathe: expand: shape (2, 3) does not broadcast to (4, 3)\n  help: axes are matched from the last one; each must be equal or 1"),
    (lambda: nn.optim.Adam([]), "lathe: optimizer: the list of parameters is empty"),
    (lambda: nn.optim.Adam([1.0]),
     "lathe: Adam: cannot be made from these arguments\n"
     "  help: it takes tensors, or a list of dicts with 'params', and lr, b1, b2, eps, weight_decay"),
    (steps_without_a_gradient,
     "lathe: optimizer: parameter 0 of shape (1,) has no gradient\n"
     "  help: call loss.backward() before step()"),
    (lambda: nn.optim.SGD([Tensor([1.0])], lr=-1), "lathe: optimizer: the learning rate is -1, which is negative"),
    (lambda: nn.Dropout(2), "lathe: Dropout: p is 2, which is not within 0 and 1"),
    (lambda: nn.LayerNorm(5)(x()), "lathe: LayerNorm: the input has shape (2, 3), its last sizes should be (5,)"),
    (lambda: nn.BatchNorm2d(4)(Tensor.ones(1, 3, 2, 2)), "lathe: BatchNorm: the input has shape (1, 3, 2, 2), axis 1 should have 4 channels"),
    (lambda: nn.MultiheadAttention(6, 4), "lathe: MultiheadAttention: 6 is not a multiple of 4 heads"),
    (lambda: nn.LSTM(4, 3)(Tensor.ones(2, 2, 3)),
     "lathe: LSTM: the input has shape (2, 2, 3), needed are 3 axes, the last of size 4\n"
     "  help: (time, batch, features); batch_first=True swaps the first two"),
    (lambda: NoForward()(x()),
     "lathe: NoForward: the class has no forward method\n  help: def forward(self, x): ... says what a call computes"),
    (lambda: nn.Sequential([nn.Linear(2, 2)]),
     "lathe: Sequential: layer 0 is a list, which cannot be called\n"
     "  help: layers are arguments of their own: nn.Sequential(*layers)"),
    (lambda: nn.ModuleList([nn.Linear(2, 2)])(x()),
     "lathe: ModuleList: a list is not called\n  help: call its modules in a loop, or use nn.Sequential"),
    (reads_inside_a_capture,
     "lathe: jit: the function reads a tensor's data while it is captured\n  help: return the tensor and read it after the call"),
    (changes_the_dtype_of_a_capture,
     "lathe: jit: argument 0 is (1,) int32 on CPU, captured with (1,) float32 on CPU\n"
     "  help: call reset() to capture again; a size that changes can be a Variable"),
    (lambda: Tensor([[1, 2], [3]]), "lathe: tensor: a list has 1 elements where 2 are expected\n  help: all lists at the same depth must have the same length"),
    (lambda: Tensor({"a": 1}),
     "lathe: tensor: cannot make a tensor of <class 'dict'>\n  help: a number, a nested list, bytes, a path or an array can be one"),
    (lambda: Tensor([1], dtype="flaot32"), 'lathe: dtype: "flaot32" names no dtype\n  help: did you mean float32?'),
    (lambda: x().topk(9), "lathe: topk: 9 of the 3 elements of axis 1"),
    (lambda: x().gather(1, Tensor([0, 1])),
     "lathe: gather: an index of shape (2,) does not fit (2, 3) along axis 1\n"
     "  help: as many axes, and none longer, except the one that is indexed"),
    (lambda: lathe.einsum("ij,jk->ik", x(), x()), "lathe: einsum: \"ij,jk->ik\": axis 'j' has size 3 and size 2"),
    (lambda: x().split([1, 1], dim=1), "lathe: split: sizes add up to 2, axis 1 of (2, 3) has 3"),
    (lambda: x().contiguous().assign(Tensor.ones(4)),
     "lathe: assign: shape (4,) does not broadcast to (2, 3)\n  help: axes are matched from the last one; each must be equal or 1"),
    (lambda: x().inverse(), "lathe: inv: needs a square matrix, not 2 by 3"),
    (lambda: (-Tensor.eye(2)).cholesky().tolist(),
     "lathe: cholesky: the matrix is not positive definite\n  help: add a small multiple of the unit matrix"),
    (lambda: lathe.load("/nope/file"), "lathe: safe_load: /nope/file cannot be opened: No such file or directory"),
    (lambda: lathe.autocast(lathe.float16),
     "lathe: autocast: the first argument names a device, not dtypes.float16\n  help: lathe.autocast(\"cpu\", dtype=...)"),
]  # fmt: skip


@pytest.mark.parametrize("mistake,text", MISTAKES, ids=[text.split(":")[1].strip() + f"-{i}" for i, (_, text) in enumerate(MISTAKES)])
def test_a_mistake_is_answered_in_words(mistake, text):
    with pytest.raises((ValueError, TypeError, IndexError, RuntimeError, OSError)) as error:
        mistake()
    assert str(error.value) == text


def test_a_product_of_shapes_that_do_not_fit_says_where_they_were_made():
    a = Tensor.ones(2, 3)
    with pytest.raises(ValueError) as error:
        a @ a
    line = a_line("a = Tensor.ones(2, 3)\n    with pytest")
    assert str(error.value) == (
        "lathe: matmul: inner sizes differ: lhs (2, 3) has 3, rhs (2, 3) has 2\n"
        f"  note: lhs made at {HERE}:{line}, rhs at {HERE}:{line}\n  help: rhs.transpose() has shape (3, 2)"
    )


def a_line(text):
    with open(__file__, encoding="utf-8") as file:
        return file.read().split(text)[0].count("\n") + 1


def test_a_file_beside_memory_is_told_to_move(tmp_path):
    path = pathlib.Path(tmp_path, "bytes")
    path.write_bytes(b"abcd")
    for pair in ((Tensor(path), Tensor.ones(4)), (Tensor.ones(4), Tensor(path))):
        with pytest.raises(ValueError, match=r'help: move one: to\("CPU"\)'):
            (pair[0] + pair[1]).tolist()


def test_a_class_that_is_not_there_is_named_when_it_is_computed():
    with pytest.raises(IndexError, match="index 7 is outside an axis of size 3"):
        F.cross_entropy(x(), Tensor([0, 7])).item()


@pytest.mark.parametrize("name,value,text", [
    ("LATHE_DEBUG", "loud", "LATHE_DEBUG"), ("LATHE_DEBGU", "1", "did you mean LATHE_DEBUG?"), ("LATHE_CHECK", "offf", "did you mean off?"),
])  # fmt: skip
def test_a_wrong_setting_is_answered_with_the_nearest(name, value, text):
    program = "from lathe import Tensor; print((Tensor([1.0]) + 1).tolist())"
    out = subprocess.run([sys.executable, "-c", program], env={**os.environ, name: value}, capture_output=True, text=True)
    assert text in out.stderr, out.stderr


def test_numpys_functions_take_tensors():
    np.testing.assert_allclose(float(np.mean(x())), 1.0)
