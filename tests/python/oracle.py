"""Comparing a function of tensors with PyTorch's, forward and backward."""

import numpy as np
import torch

from lathe import Tensor


def as_numpy(x):
    """A tensor of either library, or nested lists of them, as numpy arrays."""
    if isinstance(x, torch.Tensor):
        return x.detach().numpy()
    if isinstance(x, Tensor):
        return x.numpy()
    if isinstance(x, (tuple, list)):
        return [as_numpy(v) for v in x]
    return np.asarray(x)


def assert_same(mine, theirs, rtol=1e-4, atol=1e-5):
    """Equal shapes and nearly equal values."""
    if isinstance(theirs, (tuple, list)):
        assert len(mine) == len(theirs)
        for m, t in zip(mine, theirs):
            assert_same(m, t, rtol, atol)
        return
    mine, theirs = as_numpy(mine), as_numpy(theirs)
    assert mine.shape == theirs.shape
    # PyTorch's integers default to 64 bits, Lathe's to 32.
    assert mine.dtype == theirs.dtype or (theirs.dtype == np.int64 and mine.dtype == np.int32), (mine.dtype, theirs.dtype)
    np.testing.assert_allclose(mine.astype(theirs.dtype), theirs, rtol=rtol, atol=atol)


def inputs_of(shapes, low=-2.0, high=2.0, dtype=np.float32):
    """Random arrays; a shape may be an array already."""
    arrays = []
    for shape in shapes:
        if isinstance(shape, np.ndarray):
            arrays.append(shape)
        else:
            arrays.append(np.asarray(np.random.uniform(low, high, size=shape), dtype=dtype))
    return arrays


def check(shapes, theirs, mine=None, grad=True, low=-2.0, high=2.0, rtol=1e-4, atol=1e-5):
    """mine(*tensors) against theirs(*tensors), and the gradients of their weighted sum."""
    mine = mine or theirs
    arrays = inputs_of(shapes, low, high)
    ours = [Tensor(a, requires_grad=True) if a.dtype == np.float32 else Tensor(a) for a in arrays]
    refs = [torch.tensor(a, requires_grad=bool(grad and a.dtype == np.float32)) for a in arrays]
    out, ref = mine(*ours), theirs(*refs)
    assert_same(out, ref, rtol, atol)
    if not grad:
        return
    first, ref = (out[0], ref[0]) if isinstance(ref, (tuple, list)) else (out, ref)
    weight = np.asarray(np.random.uniform(0.5, 1.5, size=tuple(ref.shape)), dtype=np.float32)
    (first * Tensor(weight)).sum().backward()
    (ref * torch.tensor(weight)).sum().backward()
    for x, r in zip(ours, refs):
        if r.grad is None:
            continue
        if x.grad is None:  # a tensor that does not take part has none, where PyTorch may give zeros
            assert not r.grad.any()
        else:
            assert_same(x.grad, r.grad, rtol, atol)
