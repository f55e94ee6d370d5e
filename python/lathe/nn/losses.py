"""Losses under PyTorch's names, with its arguments and defaults."""

import functools
import math

from lathe._core import Tensor
from lathe.errors import TypeError as WrongType
from lathe.errors import UserError


def _reduced(loss, reduction):
    if reduction == "mean":
        return loss.mean()
    if reduction == "sum":
        return loss.sum()
    if reduction == "none":
        return loss
    raise UserError(f"lathe: loss: {reduction!r} is not a reduction\n  help: mean, sum or none")


def _legacy(function):
    """`size_average` and `reduce`, which came before `reduction` and still mean what they meant."""

    @functools.wraps(function)
    def loss(*args, size_average=None, reduce=None, **kwargs):
        if size_average is not None or reduce is not None:
            kwargs["reduction"] = "none" if reduce is False else "sum" if size_average is False else "mean"
        return function(*args, **kwargs)

    return loss


def _same_shape(name, input, target):
    if tuple(input.shape) != tuple(target.shape):
        raise UserError(
            f"lathe: {name}: the shapes differ: input {tuple(input.shape)}, target {tuple(target.shape)}\n"
            "  help: reshape one of them; broadcasting a loss is mostly a mistake"
        )


@_legacy
def l1_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """|x - y|."""
    _same_shape("l1_loss", input, target)
    return _reduced((input - target).abs(), reduction)


@_legacy
def mse_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """(x - y)^2."""
    _same_shape("mse_loss", input, target)
    return _reduced((input - target).square(), reduction)


@_legacy
def smooth_l1_loss(input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    """A square where |x - y| < beta, and straight beyond."""
    _same_shape("smooth_l1_loss", input, target)
    if beta == 0:
        return l1_loss(input, target, reduction=reduction)
    away = (input - target).abs()
    return _reduced((away < beta).where(away.square() * (0.5 / beta), away - 0.5 * beta), reduction)


def huber_loss(input, target, reduction="mean", delta=1.0):
    """A square where |x - y| < delta, and straight beyond; the slope of the straight part is delta."""
    _same_shape("huber_loss", input, target)
    away = (input - target).abs()
    return _reduced((away < delta).where(away.square() * 0.5, (away - 0.5 * delta) * delta), reduction)


@_legacy
def binary_cross_entropy(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    """-(y log(x) + (1 - y) log(1 - x)) of probabilities x; the logarithms are not below -100."""
    _same_shape("binary_cross_entropy", input, target)
    loss = input.binary_crossentropy(target, reduction="none")
    return _reduced(loss if weight is None else loss * weight, reduction)


@_legacy
def binary_cross_entropy_with_logits(input, target, weight=None, size_average=None, reduce=None, reduction="mean", pos_weight=None):
    """binary_cross_entropy of sigmoid(x), without its overflow."""
    _same_shape("binary_cross_entropy_with_logits", input, target)
    rest = (-input.abs()).exp().log1p() + (-input).relu()  # -log(sigmoid(x))
    factor = 1 if pos_weight is None else (pos_weight - 1) * target + 1
    loss = (1 - target) * input + factor * rest
    return _reduced(loss if weight is None else loss * weight, reduction)


def _class_loss(name, logs, target, weight, ignore_index, reduction, smoothing=0.0):
    """Of log probabilities (N, C, ...) and class indices (N, ...)."""
    axis = 1 if logs.ndim > 1 else 0
    expected = tuple(n for i, n in enumerate(logs.shape) if i != axis)
    if tuple(target.shape) != expected:
        raise UserError(
            f"lathe: {name}: the target has shape {tuple(target.shape)}, the input {tuple(logs.shape)} needs {expected}\n"
            "  help: the classes are axis 1 of the input; targets are class indices without that axis"
        )
    if target.is_floating_point():
        raise WrongType(
            f"lathe: {name}: targets are classes, which are integers, not {target.dtype.name}\n"
            "  help: cast them: target.long(); probabilities have the shape of the input"
        )
    used = target != ignore_index
    index = used.where(target, 0).cast("int32")
    picked = -logs.gather(axis, index.unsqueeze(axis)).squeeze(axis)
    factor = used.cast(logs.dtype) if weight is None else used.where(weight.cast(logs.dtype)[index], 0)
    loss = used.where(picked * factor, 0)
    if smoothing:
        shape = [1] * logs.ndim
        shape[axis] = logs.shape[axis]
        even = -(logs if weight is None else logs * weight.reshape(*shape)).sum(axis)
        loss = loss * (1 - smoothing) + used.where(even, 0) * (smoothing / logs.shape[axis])
    if reduction == "mean":
        return loss.sum() / factor.sum()
    return _reduced(loss, reduction)


@_legacy
def nll_loss(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"):
    """Minus the log probability of the class."""
    return _class_loss("nll_loss", input, target, weight, ignore_index, reduction)


@_legacy
def cross_entropy(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean", label_smoothing=0.0):
    """Minus the log of softmax(x) of the class; the target holds class indices, or probabilities of the shape of the input."""
    axis = 1 if input.ndim > 1 else 0
    logs = input.log_softmax(axis)
    if tuple(target.shape) != tuple(input.shape) or not target.is_floating_point():
        return _class_loss("cross_entropy", logs, target, weight, ignore_index, reduction, label_smoothing)
    shape = [1] * input.ndim
    shape[axis] = input.shape[axis]
    likely = target * (1 - label_smoothing) + label_smoothing / input.shape[axis]
    loss = -(logs * likely if weight is None else logs * likely * weight.reshape(*shape)).sum(axis)
    if reduction == "mean":
        return loss.sum() / (math.prod(loss.shape) if loss.shape else 1)
    return _reduced(loss, reduction)


@_legacy
def kl_div(input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    """y (log y - x), of log probabilities x."""
    if log_target:
        loss = target.exp() * (target - input)
    else:
        loss = (target > 0).where(target * (target.maximum(1e-38).log() - input), target * -input * 0)
    if reduction == "batchmean":
        return loss.sum() / (input.shape[0] if input.ndim else 1)
    return _reduced(loss, reduction)


@_legacy
def poisson_nll_loss(input, target, log_input=True, full=False, size_average=None, eps=1e-8, reduce=None, reduction="mean"):
    """Of counts: exp(x) - y x."""
    loss = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        safe = target.maximum(1.0)
        stirling = target * safe.log() - target + 0.5 * (2 * math.pi * safe).log()
        loss = loss + (target > 1).where(stirling, 0)
    return _reduced(loss, reduction)


def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    """Of a normal distribution with mean x and variance var."""
    if tuple(var.shape) != tuple(input.shape) and var.ndim == input.ndim - 1:
        var = var.unsqueeze(-1)
    held = var + (var.maximum(eps) - var).detach()
    loss = 0.5 * (held.log() + (input - target).square() / held)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return _reduced(loss, reduction)


@_legacy
def hinge_embedding_loss(input, target, margin=1.0, size_average=None, reduce=None, reduction="mean"):
    """x where y is 1, max(0, margin - x) where it is -1."""
    near = (target != -1).where(input, 0)
    far = (target != 1).where((margin - input).relu(), 0)
    return _reduced(near + far, reduction)


@_legacy
def soft_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """log(1 + exp(-y x))."""
    return _reduced(_log1p_exp(-target * input), reduction)


def _log1p_exp(x):
    return x.relu() + (-x.abs()).exp().log1p()


@_legacy
def multilabel_soft_margin_loss(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    """The binary losses of all classes, averaged over them."""
    loss = -(target * input.logsigmoid() + (1 - target) * (-input).logsigmoid())
    return _reduced((loss if weight is None else loss * weight).mean(-1), reduction)


@_legacy
def multilabel_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """max(0, 1 - (x of a target class - x of another)), over classes; the target lists classes up to the first -1."""
    if input.ndim == 1:
        loss = multilabel_margin_loss(input.unsqueeze(0), target.unsqueeze(0), reduction="none").squeeze(0)
        return loss if reduction == "none" else _reduced(loss, reduction)
    listed = ((target < 0).cast("int32").cumsum(1) == 0)
    index = listed.where(target, 0).cast("int32")
    classes = Tensor.arange(input.shape[1], dtype="int32", device=input.device)
    is_target = ((index.unsqueeze(2) == classes) & listed.unsqueeze(2)).any(1)
    picked = input.gather(1, index)
    away = (1 - (picked.unsqueeze(2) - input.unsqueeze(1))).relu()
    counted = listed.unsqueeze(2) & is_target.logical_not().unsqueeze(1)
    return _reduced(counted.where(away, 0).sum((1, 2)) / input.shape[1], reduction)


@_legacy
def multi_margin_loss(input, target, p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction="mean"):
    """max(0, margin - (x of the class - x of another))^p, over classes."""
    if input.ndim == 1:
        return multi_margin_loss(input.unsqueeze(0), target.reshape(1), p, margin, weight, reduction="sum" if reduction != "none" else "none")
    index = target.cast("int32")
    away = (margin - input.gather(1, index.unsqueeze(1)) + input).relu()
    away = away if p == 1 else away.pow(p)
    if weight is not None:
        away = away * weight[index].unsqueeze(1)
    classes = Tensor.arange(input.shape[1], dtype="int32", device=input.device)
    return _reduced((index.unsqueeze(1) == classes).where(0, away).sum(1) / input.shape[1], reduction)


@_legacy
def cosine_embedding_loss(input1, input2, target, margin=0.0, size_average=None, reduce=None, reduction="mean"):
    """1 - cos where y is 1, max(0, cos - margin) where it is -1."""
    eps = 1e-12
    norm = ((input1.square().sum(-1) + eps) * (input2.square().sum(-1) + eps)).sqrt()
    cos = (input1 * input2).sum(-1) / norm
    loss = (target == 1).where(1 - cos, 0) + (target == -1).where((cos - margin).relu(), 0)
    return _reduced(loss, reduction)


@_legacy
def margin_ranking_loss(input1, input2, target, margin=0.0, size_average=None, reduce=None, reduction="mean"):
    """max(0, -y (x1 - x2) + margin)."""
    return _reduced((-target * (input1 - input2) + margin).relu(), reduction)


def triplet_margin_with_distance_loss(anchor, positive, negative, *, distance_function=None, margin=1.0, swap=False, reduction="mean"):
    """max(0, d(anchor, positive) - d(anchor, negative) + margin)."""
    if distance_function is None:
        from lathe.nn.functional import pairwise_distance as distance_function
    near, far = distance_function(anchor, positive), distance_function(anchor, negative)
    if swap:
        far = far.minimum(distance_function(positive, negative))
    return _reduced((near - far + margin).relu(), reduction)


@_legacy
def triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2, eps=1e-6, swap=False, size_average=None, reduce=None, reduction="mean"):
    """max(0, |a - p| - |a - n| + margin)."""
    from lathe.nn.functional import pairwise_distance

    return triplet_margin_with_distance_loss(
        anchor, positive, negative, distance_function=lambda a, b: pairwise_distance(a, b, p, eps), margin=margin, swap=swap, reduction=reduction
    )


def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False):
    """Minus the log probability of a sequence of labels over all ways to spread it over time. log_probs is (T, N, C), the
    targets (N, S) padded."""
    if log_probs.ndim != 3 or targets.ndim != 2:
        raise UserError("lathe: ctc_loss: needs log_probs of 3 axes (T, N, C) and targets of 2 (N, S)\n  help: pad the targets")
    steps, batch, _ = log_probs.shape
    device = log_probs.device

    def lengths(values):
        return values.cast("int32") if isinstance(values, Tensor) else Tensor(list(values), dtype="int32", device=device)

    times, sizes = lengths(input_lengths), lengths(target_lengths)
    most = targets.shape[1]
    states = 2 * most + 1
    labels = targets.cast("int32")
    blanks = Tensor.full((batch, most), blank, dtype="int32", device=device)
    extended = blanks.stack(labels, dim=2).reshape(batch, 2 * most).pad((0, 1), value=blank)
    low = -1e30  # log(0) whose differences are finite
    earlier = extended.pad((2, 0), value=blank)[:, :states]
    skips = (extended != blank) & (extended != earlier)
    place = Tensor.arange(states, dtype="int32", device=device)
    alpha = (place < 2).where(log_probs[0].gather(1, extended), low)

    def shifted(values, by):
        return values.pad((by, 0), value=low)[:, :states]

    for t in range(1, steps):
        stacked = alpha.stack(shifted(alpha, 1), skips.where(shifted(alpha, 2), low), dim=0)
        following = (stacked.logsumexp(0) + log_probs[t].gather(1, extended)).maximum(low)
        alpha = (times > t).unsqueeze(1).where(following, alpha)
    end = (sizes * 2).unsqueeze(1)
    last = alpha.gather(1, end).squeeze(1)
    before = (sizes > 0).where(alpha.gather(1, (end - 1).maximum(0)).squeeze(1), low)
    loss = -last.stack(before, dim=0).logsumexp(0)
    loss = (loss > 1e29).where(0.0 if zero_infinity else math.inf, loss)
    if reduction == "mean":
        return (loss / sizes.maximum(1).cast(loss.dtype)).mean()
    return _reduced(loss, reduction)


__all__ = [name for name in list(globals()) if name.endswith(("_loss", "entropy", "logits", "kl_div")) and not name.startswith("_")]
