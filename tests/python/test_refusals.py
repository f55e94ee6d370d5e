"""What calls from Python are refused with: `scripts/refusals.py` lists refusals that no test mentions."""

import pytest

import lathe
from lathe import Tensor, linalg, nn

F = nn.functional


def x():
    return Tensor.ones(2, 3)


def w():
    return Tensor([1.0, 2.0], requires_grad=True)


def optimizer_of(**options):
    return nn.optim.SGD([w()], **options)


def late():
    a, b = w(), w()
    optimizer = nn.optim.Adam([a, b])
    a.sum().backward()
    optimizer.step()
    b.sum().backward()
    optimizer.step()


def unscaled_twice():
    scaler, optimizer, p = lathe.amp.GradScaler(), None, w()
    optimizer = nn.optim.SGD([p])
    scaler.scale(p.sum()).backward()
    scaler.unscale_(optimizer)
    scaler.unscale_(optimizer)


REFUSALS = [
    # optimizers
    (lambda: optimizer_of(nesterov=True), "nesterov needs a momentum"),
    (lambda: optimizer_of(nesterov=True, momentum=0.9, dampening=0.1), "nesterov goes without dampening"),
    (late, "has its first gradient after others made steps, which are counted for all parameters together"),
    (lambda: nn.optim.OptimizerGroup(), "the group has no optimizer"),
    (lambda: optimizer_of().param_groups[0].__setitem__("momentum", 0.5), "stays what it was when the optimizer was made; only lr can be set"),
    (lambda: nn.optim.LBFGS([{"params": [w()]}]), "lathe: LBFGS: it has no groups of parameters"),
    (lambda: nn.optim.LBFGS([w()], line_search_fn="x"), "lathe: LBFGS: there is no line search"),
    (lambda: nn.optim.LBFGS([w()]).step(), "lathe: LBFGS: step needs a function that computes the loss again"),
    (unscaled_twice, "the gradients of this optimizer were unscaled already"),
    # gradients
    (lambda: lathe.autograd.grad(w() * 2, w()), "lathe: grad: an output of shape"),
    (lambda: (w() * 2).sum().backward(create_graph=True), "lathe: backward: gradients that backward() leaves in .grad cannot be differentiated again"),
    (lambda: w().replace(Tensor([1, 2])), "this requires a gradient, and the other is"),
    # indexing and movement
    (lambda: x()[::0], "a slice has step 0"),
    (lambda: x()[..., ...], "an index can have a single ellipsis"),
    (lambda: x()[Tensor([True, False, True])], "does not fit axis"),
    (lambda: x().__setitem__(Tensor([True, False]), Tensor.zeros(1, 1, 1, 3)), "a value of shape"),
    (lambda: lathe.cat([]), "lathe: cat: there are no tensors to join"),
    (lambda: lathe.stack([]), "lathe: stack: there are no tensors to join"),
    (lambda: lathe.broadcast_shapes((2,), (3,)), "lathe: broadcast_shapes: sizes"),
    (lambda: x().diagonal(0, 1, 1), "needs two different axes"),
    (lambda: x().roll((1, 2)), "several shifts need several axes"),
    (lambda: x().movedim((0, 1), (0, 0)), "lathe: movedim: axes"),
    (lambda: Tensor.ones(1, 2, 3).t(), "lathe: t: needs at most 2 axes, not"),
    (lambda: x().tensor_split(0), "lathe: tensor_split: needs at least 1 part, not"),
    (lambda: x().diag_embed(0, 1, 1), "lathe: diag_embed: the axes are both"),
    (lambda: x().rearrange("a b -> a"), "do not name the same axes"),
    (lambda: x().select_scatter(Tensor.ones(3), 0, 5), "lathe: select_scatter: there is no position"),
    (lambda: Tensor([1.0]).fill_diagonal(1), "lathe: fill_diagonal: needs at least 2 axes, and wrap is not there"),
    (lambda: x().max(dim=(0, 1)), "lathe: max: dim is one axis, not"),
    (lambda: x().repeat_interleave(Tensor([1, 2, 3]), 0), "lathe: repeat_interleave"),
    # numbers
    (lambda: x().clamp(), "neither a lower nor an upper bound was given"),
    (lambda: x().normalize(p=float("nan")), "the order of the norm is NaN"),
    (lambda: x().gelu("third"), "approximation"),
    (lambda: Tensor.linspace(0, 1, 3, dtype="bool"), "bool has no numbers between two others"),
    (lambda: Tensor.zeros(0).median(), "lathe: median: there are no elements"),
    (lambda: Tensor([1]).quantile(0.5), "lathe: quantile: needs floats, not"),
    (lambda: Tensor.zeros(0).quantile(0.5), "lathe: quantile: there are no elements"),
    (lambda: lathe.polygamma(2, x()), "lathe: polygamma: n is 0 or 1, not"),
    (lambda: x().bincount(), "lathe: bincount: needs integers on one axis, not"),
    (lambda: x().is_nonzero(), "lathe: is_nonzero: needs one element, not shape"),
    (lambda: x().multinomial(5), "samples without replacement from"),
    # products and equations
    (lambda: lathe.einsum(x(), [0, 1], x()), "lathe: einsum: each tensor is followed by the list of its axes"),
    (lambda: lathe.einsum(x(), [0, "b"]), "is no list of axes"),
    (lambda: Tensor.ones(1, 2, 2).bmm(Tensor.ones(3, 2, 2)), "lathe: bmm: the batches have"),
    (lambda: x().tensordot(x(), 1), "lathe: tensordot: axes"),
    (lambda: linalg.inv(Tensor([1.0])), "needs a matrix (at least 2 axes), not shape"),
    (lambda: linalg.solve(Tensor.eye(2), Tensor.ones(3, 1)), "lathe: solve: A is"),
    (lambda: linalg.lstsq(x(), Tensor.ones(3, 1)), "lathe: lstsq: A is"),
    (lambda: linalg.matrix_power(x(), 2), "lathe: matrix_power: needs a square matrix, not shape"),
    (lambda: linalg.norm(Tensor([1.0]), "nuc", 0), "lathe: norm: 'nuc' is of matrices: dim needs two axes"),
    (lambda: linalg.norm(x(), 3), "is not a norm of matrices"),
    (lambda: linalg.cross(x(), x()[:, :2]), "lathe: cross: the vectors have"),
    (lambda: lathe.svd(x(), compute_uv=False), "lathe: svd: compute_uv=False gives matrices of zeros"),
    # layers
    (lambda: nn.Conv2d(1, 1, 3, padding_mode="mirror"), "there is no padding_mode"),
    (lambda: nn.Conv3d(1, 1, 3, stride=2, padding="same")(Tensor.ones(1, 1, 4, 4, 4)), "lathe: conv: padding 'same' needs stride 1"),
    (lambda: F.embedding_bag(Tensor([1, 2]), x()), "lathe: embedding_bag: the index needs 2 axes, a row per bag, or 1 axis and offsets"),
    (lambda: F.embedding_bag(Tensor([[1]]), x(), mode="most"), "lathe: embedding_bag: the mode is"),
    (lambda: F.embedding_bag(Tensor([[1]]), x(), max_norm=1.0), "lathe: embedding_bag: max_norm and scale_grad_by_freq are not there"),
    (lambda: nn.EmbeddingBag(2, 3, max_norm=1.0), "lathe: EmbeddingBag: max_norm and scale_grad_by_freq are not there"),
    (lambda: F.batch_norm(x(), None, None), "lathe: batch_norm: outside of training running_mean and running_var are needed"),
    (lambda: F.layer_norm(x(), (2,)), "lathe: layer_norm: the last axes are"),
    (lambda: F.group_norm(x(), 2), "channels are no multiple of"),
    (lambda: F.adaptive_avg_pool2d(Tensor([1.0]), 1), "lathe: adaptive_"),
    (lambda: F.interpolate(Tensor.ones(1, 1, 4)), "lathe: interpolate: needs either size or scale_factor"),
    (lambda: nn.init.kaiming_uniform_(Tensor([1.0])), "has no fan-in: it needs at least 2 axes"),
    (lambda: nn.optim.lr_scheduler.OneCycleLR(optimizer_of(), 0.1, 5, anneal_strategy="step"), "lathe: OneCycleLR: anneal_strategy is"),
    (lambda: nn.LayerNorm(()), "there is no axis to normalize over"),
]


@pytest.mark.parametrize("call,text", REFUSALS, ids=[f"{i}-{text[:40]}" for i, (_, text) in enumerate(REFUSALS)])
def test_a_wrong_call_says_what_is_wrong(call, text):
    with pytest.raises((TypeError, ValueError, IndexError, NotImplementedError, AssertionError)) as error:
        call()
    assert text in str(error.value)
