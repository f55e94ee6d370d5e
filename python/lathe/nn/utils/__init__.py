"""Small helpers around parameters, under PyTorch's names."""

import math

from lathe._core import Tensor, clip_grad_norm_, clip_grad_value_
from lathe.errors import UserError
from lathe.nn.module import Parameter
from lathe.nn.utils import rnn


def parameters_to_vector(parameters):
    """All parameters one after the other.

    >>> nn.utils.parameters_to_vector(nn.Linear(2, 3).parameters()).shape
    (9,)
    """
    flat = [p.reshape(-1) for p in parameters]
    return flat[0].cat(*flat[1:], dim=0) if len(flat) > 1 else flat[0]


def vector_to_parameters(vec, parameters):
    """Writes a vector of all parameters into them.

    >>> layer = nn.Linear(2, 3)
    >>> nn.utils.vector_to_parameters(Tensor.ones(9), layer.parameters())
    >>> layer.bias.tolist()
    [1.0, 1.0, 1.0]
    """
    at = 0
    for p in parameters:
        count = math.prod(p.shape)
        p.assign(vec[at : at + count].reshape(*p.shape).detach().cast(p.dtype))
        at += count


def _norm_except(v, dim):
    axes = tuple(i for i in range(v.ndim) if dim is None or i != dim % v.ndim)
    return v.square().sum(axes, dim is not None).sqrt()


def weight_norm(module, name="weight", dim=0):
    """Splits a weight into its length `weight_g` and direction `weight_v`, which are trained instead of it.

    >>> layer = nn.utils.weight_norm(nn.Linear(2, 3))
    >>> sorted(n for n, p in layer.named_parameters())
    ['bias', 'weight_g', 'weight_v']
    """
    weight = getattr(module, name)
    if weight is None:
        raise UserError(f"lathe: weight_norm: the module has no {name}")
    setattr(module, f"{name}_g", Parameter(_norm_except(weight.detach(), dim)))
    setattr(module, f"{name}_v", Parameter(weight))

    def compute(module, args=None):
        g, v = getattr(module, f"{name}_g"), getattr(module, f"{name}_v")
        made = v * (g / _norm_except(v, dim))
        _set_plain(module, name, made)

    compute(module)
    handle = module.register_forward_pre_hook(compute)
    module.__dict__.setdefault("_weight_norms", {})[name] = (handle, dim)
    return module


def _set_plain(module, name, tensor):
    """Sets a tensor that is computed: not a parameter, not part of the state."""
    module.__dict__.setdefault("_computed", set()).add(name)
    setattr(module, name, tensor)


def remove_weight_norm(module, name="weight"):
    """Undoes weight_norm: the weight is a parameter again.

    >>> layer = nn.utils.remove_weight_norm(nn.utils.weight_norm(nn.Linear(2, 3)))
    >>> sorted(n for n, p in layer.named_parameters())
    ['bias', 'weight']
    """
    handle, dim = module._weight_norms.pop(name)
    handle.remove()
    g, v = getattr(module, f"{name}_g"), getattr(module, f"{name}_v")
    module._computed.discard(name)
    setattr(module, name, Parameter((v * (g / _norm_except(v, dim))).detach()))
    delattr(module, f"{name}_g")
    delattr(module, f"{name}_v")
    return module


def fuse_conv_bn_eval(conv, bn):
    """One convolution that does what a convolution and a batch norm after it do outside of training.

    >>> conv, bn = nn.Conv2d(1, 2, 3).eval(), nn.BatchNorm2d(2).eval()
    >>> x = Tensor.rand(1, 1, 4, 4)
    >>> (nn.utils.fuse_conv_bn_eval(conv, bn)(x) - bn(conv(x))).abs().max().item() < 1e-4
    True
    """
    import copy

    fused = copy.deepcopy(conv)
    scale = (bn.running_var + bn.eps).rsqrt() * (1 if bn.weight is None else bn.weight)
    bias = 0 if conv.bias is None else conv.bias
    shift = 0 if bn.bias is None else bn.bias
    fused.weight = Parameter((conv.weight * scale.reshape(-1, *[1] * (conv.weight.ndim - 1))).detach())
    fused.bias = Parameter(((bias - bn.running_mean) * scale + shift).detach())
    return fused


__all__ = ["clip_grad_norm_", "clip_grad_value_", "fuse_conv_bn_eval", "parameters_to_vector", "remove_weight_norm", "rnn",
           "vector_to_parameters", "weight_norm"]  # fmt: skip
