"""Functions of tensors under PyTorch's names: `import lathe as torch` finds them. Most are a method of their first argument;
those that make tensors, join or factor some or set something are written out here. Loaded when a program asks for one."""

import math

from lathe._core import Tensor
from lathe.dtype import dtypes
from lathe.errors import TypeError as WrongCall
from lathe.functions import factors, joining, making, settings
from lathe.functions.joining import broadcast_tensors
from lathe.functions.making import _TYPED, _into, _tensor, _typed, tensor

# Methods that are functions too; the first argument may be called `input`, and `out=` takes the result.
METHODS = """
    abs absolute acos acosh add addbmm addcdiv addcmul addmm addmv addr adjoint all allclose amax amin aminmax angle any arccos arccosh arcsin
    arcsinh arctan arctan2 arctanh argmax argmin argsort argwhere asin asinh atan atan2 atanh baddbmm bernoulli bincount bitwise_and
    bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor bmm broadcast_to bucketize cdist ceil cholesky cholesky_inverse
    cholesky_solve chunk clamp clamp_max clamp_min clip clone conj conj_physical copysign corrcoef cos cosh cosine_similarity count_nonzero cov
    cross cummax cummin cumprod cumsum cumulative_trapezoid deg2rad dequantize det detach diag diag_embed diagflat diagonal diagonal_scatter diff digamma dist div
    divide dot dsplit eq equal erf erfc erfinv exp exp2 expm1 fix flatten flip fliplr flipud float_power floor floor_divide fmax fmin fmod
    frac frexp gather gcd ge ger get_device greater greater_equal gt hardshrink heaviside histc histogram hsplit hypot i0 index_add index_copy
    index_fill index_put index_reduce index_select inner inverse is_complex is_conj is_floating_point is_inference is_neg is_nonzero
    is_same_size is_signed isclose isfinite isinf isnan isneginf isposinf isreal kron kthvalue lcm ldexp le lerp less less_equal lgamma log
    log10 log1p log2 log_softmax logaddexp logaddexp2 logcumsumexp logdet logical_and logical_not logical_or logical_xor logit logsumexp lstsq
    lt masked_fill masked_scatter masked_select matmul matrix_exp matrix_power maximum mean median minimum mm mode moveaxis movedim msort mul
    multinomial multiply mv mvlgamma nan_to_num nanmean nanmedian nanquantile nansum narrow narrow_copy ne neg negative nextafter norm
    not_equal numel outer permute pinverse positive pow prelu prod put quantile rad2deg ravel real reciprocal relu remainder
    renorm repeat_interleave reshape resolve_conj resolve_neg roll rot90 round rsqrt scatter scatter_add scatter_reduce searchsorted select
    select_scatter sgn sigmoid sign signbit sin sinc sinh slice_scatter slogdet softmax solve sort split split_with_sizes sqrt square squeeze
    std std_mean sub subtract sum swapaxes swapdims t take take_along_dim tan tanh tensor_split tensordot tile topk trace transpose
    trapezoid triangular_solve tril triu true_divide trunc unbind unflatten unique unique_consecutive unsafe_chunk unsafe_split
    unsafe_split_with_sizes unsqueeze var var_mean vdot vsplit xlogy
""".split()  # fmt: skip
# Functions of nn.functional that PyTorch has here too.
LAYERS = """
    adaptive_avg_pool1d adaptive_max_pool1d alpha_dropout avg_pool1d batch_norm bilinear binary_cross_entropy_with_logits celu
    conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d cosine_embedding_loss ctc_loss dropout embedding
    group_norm hinge_embedding_loss instance_norm kl_div layer_norm margin_ranking_loss max_pool1d max_pool2d max_pool3d
    pairwise_distance pdist pixel_shuffle pixel_unshuffle poisson_nll_loss rrelu selu threshold triplet_margin_loss
""".split()  # fmt: skip
DTYPES = (
    "float16 float32 float64 bfloat16 int8 int16 int32 int64 uint8 uint16 uint32 uint64 half float double short int long "
    "float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz"
).split()
_FP8 = {"float8_e4m3fn": "fp8e4m3", "float8_e5m2": "fp8e5m2", "float8_e4m3fnuz": "fp8e4m3fnuz", "float8_e5m2fnuz": "fp8e5m2fnuz"}
FORMATS = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d", "strided")  # of memory: names without a meaning
NUMBERS = {"pi": math.pi, "e": math.e, "inf": math.inf, "nan": math.nan, "newaxis": None}


def _method(name):
    def function(*args, out=None, **kwargs):
        if not args and "input" in kwargs:
            args = (kwargs.pop("input"),)
        if not args:
            raise WrongCall(f"lathe: {name}: a tensor is needed\n  help: lathe.{name}(x) or x.{name}()")
        first = _tensor(args[0])
        value = getattr(first, name)
        return _into(value(*args[1:], **kwargs) if callable(value) and not isinstance(value, Tensor) else value, out)

    function.__name__ = function.__qualname__ = name
    own = getattr(Tensor, name).__doc__ or ""
    function.__doc__ = f"x.{name}(...) as a function of x.\n\n{own}"
    return function


_OWN = {
    name: value
    for module in (factors, making, joining, settings)
    for name, value in vars(module).items()
    if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
}
_made = {}


def find(name):
    """The function, dtype or number of a name; AttributeError where there is none."""
    if name in _made:
        return _made[name]
    if name in METHODS:
        value = _method(name)
    elif name in LAYERS:
        from lathe.nn import functional

        value = getattr(functional, name)
    elif name in DTYPES:
        value = getattr(dtypes, _FP8.get(name, name))
    elif name == "bool":
        value = dtypes.bool
    elif name in _TYPED:
        value = _typed(name)
    elif name in FORMATS:
        value = name
    elif name in NUMBERS:
        value = NUMBERS[name]
    elif name in _OWN:
        value = _OWN[name]
    elif name.endswith("_") and not name.startswith("_") and hasattr(Tensor, name):  # in place
        value = _method(name)
    else:
        raise AttributeError(name)
    _made[name] = value
    return value


def names():
    """All that find knows."""
    return sorted({*METHODS, *LAYERS, *DTYPES, *_TYPED, *FORMATS, *NUMBERS, *_OWN, "bool"})
