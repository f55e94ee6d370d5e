"""Methods of Tensor that are written with its others: the names PyTorch users reach for. Importing this puts a placeholder
for each on the class, so that a program loads only those that it uses."""

import importlib
import sys

from lathe._core import Tensor

# The methods by the file that has them.
METHODS = {
    "elementwise": (
        "addcdiv addcmul angle atan2 bernoulli clamp_max clamp_min deg2rad digamma erfinv float_power fmax fmin frac frexp gcd "
        "hardshrink heaviside hypot i0 isneginf isposinf isreal lcm ldexp lgamma logaddexp2 logical_and logical_or logical_xor "
        "logit mvlgamma nan_to_num nextafter polygamma positive prelu rad2deg sgn signbit sinc xlogy"
    ),
    "shapes": (
        "broadcast_to cumulative_trapezoid diag_embed diagflat diff dsplit expand_as fliplr flipud hsplit narrow narrow_copy ravel reshape_as rot90 "
        "select split_with_sizes sum_to_size t tensor_split tile trace trapezoid unbind unsafe_split_with_sizes view_as vsplit"
    ),
    "reducing": (
        "amax amin aminmax corrcoef count_nonzero cov dist equal kthvalue median mode msort nanmean nanmedian nanquantile "
        "nansum norm quantile renorm"
    ),
    "indexing": (
        "argwhere bincount bucketize diagonal_scatter fill_diagonal histc histogram index_add index_copy index_fill index_put "
        "index_reduce index_select masked_scatter put scatter_add searchsorted select_scatter slice_scatter take take_along_dim "
        "unique unique_consecutive"
    ),
    "matrices": (
        "H addbmm addmm addmv addr adjoint baddbmm bmm cdist cholesky cholesky_inverse cholesky_solve cosine_similarity cross "
        "det eigh ger inner inverse kron logdet lstsq mH mT matrix_exp matrix_power mm mv outer pinverse slogdet solve "
        "tensordot triangular_solve vdot"
    ),
    "places": (
        "apply_ bernoulli_ byte cauchy_ char conj conj_physical copy_ cpu cuda data_ptr dequantize detach_ dim exponential_ "
        "fill_ geometric_ get_device is_complex is_contiguous is_cpu is_cuda is_inference is_ipu is_meta is_mkldnn is_mps "
        "is_conj is_neg is_nested is_nonzero is_ort is_quantized is_same_size is_signed is_sparse is_sparse_csr is_vulkan itemsize is_xpu log_normal_ "
        "map2_ map_ ndimension nelement new new_empty new_full new_ones new_tensor new_zeros normal_ pin_memory random_ real register_hook resize_ resize_as resize_as_ "
        "resolve_conj resolve_neg retain_grad storage_offset stride to_dense type type_as uniform_ zero_"
    ),
}
# Other names of methods.
ALIASES = {
    "absolute": "abs", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh", "arctan": "atan", "arctanh": "atanh",
    "arctan2": "atan2", "bitwise_left_shift": "lshift", "bitwise_right_shift": "rshift", "divide": "div", "fix": "trunc",
    "greater": "gt", "greater_equal": "ge", "less": "lt", "less_equal": "le", "multiply": "mul", "negative": "neg", "not_equal": "ne",
    "remainder": "mod", "subtract": "sub", "true_divide": "fdiv", "moveaxis": "movedim", "swapaxes": "transpose", "swapdims": "transpose",
    "unsafe_chunk": "chunk", "unsafe_split": "split",
}  # fmt: skip
# Methods whose result is written into the tensor itself under the name with an underscore.
TWINS = (
        "abs absolute acos acosh add addbmm addcdiv addcmul addmm addmv addr arccos arccosh arcsin arcsinh arctan arctan2 "
        "arctanh asin asinh atan atan2 atanh baddbmm bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift "
        "bitwise_xor ceil clamp clamp_max clamp_min clip conj_physical copysign cos cosh cumprod cumsum deg2rad digamma div "
        "divide eq erf erfc erfinv exp exp2 expm1 fill_diagonal fix float_power floor floor_divide fmod frac gcd ge greater "
        "greater_equal gt heaviside hypot i0 index_add index_copy index_fill index_put index_reduce lcm ldexp le lerp less "
        "less_equal lgamma log log10 log1p log2 logical_and logical_not logical_or logical_xor logit lt masked_fill "
        "masked_scatter mul multiply mvlgamma nan_to_num ne neg negative nextafter not_equal pow put rad2deg reciprocal relu "
        "remainder renorm round rsqrt scatter scatter_add scatter_reduce sgn sigmoid sign sin sinc sinh sqrt square sub "
        "subtract tan tanh tril triu true_divide trunc xlogy"
    )
# Those that change the shape: the tensor then stands for another view.
VIEW_TWINS = "squeeze unsqueeze transpose t swapaxes swapdims"


def _load(name):
    """The method of a name."""
    if name in ALIASES:
        return getattr(Tensor, ALIASES[name])
    base = name.removesuffix("_")
    places = importlib.import_module("lathe.methods.places")
    if base != name and base in TWINS.split():
        return places.twin(base)
    if base != name and base in VIEW_TWINS.split():
        return places.view_twin(base)
    module = next(file for file, names in METHODS.items() if name in names.split())
    return getattr(importlib.import_module(f"lathe.methods.{module}"), name)


class _Late:
    """Stands for a method until it is asked for."""

    __slots__ = ("name",)

    def __init__(self, name):
        self.name = name

    def __get__(self, instance, owner=None):
        method = _load(self.name)
        setattr(Tensor, self.name, method)
        return method.__get__(instance, owner) if hasattr(method, "__get__") else method


_NAMES = [
    *(name for names in METHODS.values() for name in names.split()),
    *ALIASES,
    *(f"{name}_" for name in (*TWINS.split(), *VIEW_TWINS.split())),
]
for _name in _NAMES:
    setattr(Tensor, _name, _Late(_name))
if getattr(sys, "argv", [""])[:1] and sys.argv[0].endswith("stubgen.py"):  # stubs are made from the methods themselves
    for _name in _NAMES:
        _method = getattr(Tensor, _name)
        if hasattr(_method, "__code__"):
            _method.__module__, _method.__qualname__ = Tensor.__module__, f"Tensor.{_name}"
