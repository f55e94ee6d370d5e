"""Layers written in Python. Those without weights are functions of `functional.py` that keep their arguments: their
arguments are the function's, in its order."""

import inspect
import math

from lathe._core import Module, Tensor
from lathe.errors import UserError
from lathe.nn import functional as F
from lathe.nn.module import Parameter

_SKIPPED = ("inplace", "training", "size_average", "reduce")  # not worth showing


def _taken_over(input, out):
    """What a layer with inplace=True gives: its input, whose value is another now, for all who hold it. A value that was never
    computed takes no memory by that."""
    if out is input or input.is_leaf and input.requires_grad:  # which must keep its value
        return out
    return input.assign(out) if input.is_realized else input.replace(out)


class _Plain(Module):
    """A function with its arguments as a layer."""

    _training = None
    _function = None
    _names = ()  # of the arguments
    _defaults = {}

    def __init__(self, *args, **kwargs):
        super().__init__()
        kind = type(self).__name__
        if len(args) > len(self._names):
            raise UserError(f"lathe: {kind}: takes at most {len(self._names)} arguments ({', '.join(self._names)}), not {len(args)}")
        given = dict(zip(self._names, args))
        for name, value in kwargs.items():
            if name not in self._names or name in given:
                raise UserError(
                    f"lathe: {kind}: there is no argument {name}, or it is given twice\n  help: the arguments are {', '.join(self._names)}"
                )
            given[name] = value
        for name in self._names:
            if name not in given and self._defaults[name] is inspect.Parameter.empty:
                raise UserError(f"lathe: {kind}: the argument {name} is needed")
        for name in self._names:
            setattr(self, name, given.get(name, self._defaults[name]))

    def forward(self, *inputs, **more):
        arguments = {name: getattr(self, name) for name in self._names}
        inplace = arguments.pop("inplace", False)
        if self._trains:
            arguments["training"] = self.training
        out = type(self)._function(*inputs, **{**arguments, **more})
        return _taken_over(inputs[0], out) if inplace else out

    def extra_repr(self):
        shown = []
        for name in self._names:
            value, default = getattr(self, name), self._defaults[name]
            if name in _SKIPPED or (value is default and default is not inspect.Parameter.empty) or isinstance(value, Tensor):
                continue
            if value != default:
                shown.append(repr(value) if default is inspect.Parameter.empty else f"{name}={value!r}")
        return ", ".join(shown)


def _layer(name, function, inputs=1, example="", **defaults):
    """The layer of a function: the arguments after its inputs are the layer's."""
    parameters = list(inspect.signature(function).parameters.values())[inputs:]
    known = {p.name: defaults.get(p.name, p.default) for p in parameters if p.name != "training"}
    names = tuple(known)
    signature = inspect.Signature(
        [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=d) for n, d in known.items()]
    )
    body = {
        "_function": staticmethod(function),
        "_names": names,
        "_defaults": known,
        "_trains": any(p.name == "training" for p in parameters),
        "__doc__": f"{function.__doc__}\n\n    >>> {example}",
        "__module__": "lathe.nn",
        "__signature__": signature,
    }
    return type(Module)(name, (_Plain,), body)


def _example(text, shape):
    return f"nn.{text}.shape\n    {shape}"


_X = "Tensor.ones(2, 3)"
# Layers of one input: the function and the layer's arguments in an example.
_ACTIVATIONS = {
    "ReLU": (F.relu, ""), "ReLU6": (F.relu6, ""), "Sigmoid": (F.sigmoid, ""), "Tanh": (F.tanh, ""), "GELU": (F.gelu, ""),
    "SiLU": (F.silu, ""), "Mish": (F.mish, ""), "ELU": (F.elu, ""), "CELU": (F.celu, ""), "SELU": (F.selu, ""),
    "LeakyReLU": (F.leaky_relu, "0.2"), "Hardtanh": (F.hardtanh, ""), "Hardsigmoid": (F.hardsigmoid, ""),
    "Hardswish": (F.hardswish, ""), "LogSigmoid": (F.logsigmoid, ""), "Softplus": (F.softplus, ""), "Softsign": (F.softsign, ""),
    "Tanhshrink": (F.tanhshrink, ""), "Hardshrink": (F.hardshrink, ""), "Softshrink": (F.softshrink, ""),
    "Threshold": (F.threshold, "0.1, 20"), "RReLU": (F.rrelu, ""), "Softmax": (F.softmax, "dim=1"),
    "Softmin": (F.softmin, "dim=1"), "LogSoftmax": (F.log_softmax, "dim=1"), "AlphaDropout": (F.alpha_dropout, "0.1"),
}  # fmt: skip
for _name, (_function, _arguments) in _ACTIVATIONS.items():
    globals()[_name] = _layer(_name, _function, 1, _example(f"{_name}({_arguments})({_X})", "(2, 3)"))

GLU = _layer("GLU", F.glu, 1, _example("GLU()(Tensor.ones(2, 4))", "(2, 2)"))
FeatureAlphaDropout = _layer(
    "FeatureAlphaDropout", F.feature_alpha_dropout, 1, _example("FeatureAlphaDropout(0.1)(Tensor.ones(2, 3, 4))", "(2, 3, 4)")
)
_SPACE = {1: "4", 2: "4, 4", 3: "4, 4, 4"}
for _axes in (1, 2, 3):
    _input = f"Tensor.ones(1, 2, {_SPACE[_axes]})"
    _half, _same = f"(1, 2, {_SPACE[_axes].replace('4', '2')})", f"(1, 2, {_SPACE[_axes]})"
    for _name, _arguments, _shape in (
        ("MaxPool", "2", _half),
        ("AvgPool", "2", _half),
        ("AdaptiveAvgPool", "2", _half),
        ("AdaptiveMaxPool", "2", _half),
        ("Dropout", "0.5", _same),
    ):
        _snake = "".join(f"_{c.lower()}" if c.isupper() else c for c in _name).strip("_")
        _function = getattr(F, f"{_snake}{_axes}d")
        globals()[f"{_name}{_axes}d"] = _layer(f"{_name}{_axes}d", _function, 1, _example(f"{_name}{_axes}d({_arguments})({_input})", _shape))
    globals()[f"MaxUnpool{_axes}d"] = _layer(
        f"MaxUnpool{_axes}d", getattr(F, f"max_unpool{_axes}d"), 2,
        _example(f"MaxUnpool{_axes}d(2)(*nn.MaxPool{_axes}d(2, return_indices=True)({_input}))", _same),
    )  # fmt: skip


LPPool1d = _layer("LPPool1d", F.lp_pool1d, 1, _example("LPPool1d(2, 2)(Tensor.ones(1, 1, 4))", "(1, 1, 2)"))
LPPool2d = _layer("LPPool2d", F.lp_pool2d, 1, _example("LPPool2d(2, 2)(Tensor.ones(1, 1, 4, 4))", "(1, 1, 2, 2)"))
PixelShuffle = _layer("PixelShuffle", F.pixel_shuffle, 1, _example("PixelShuffle(2)(Tensor.ones(1, 4, 2, 2))", "(1, 1, 4, 4)"))
PixelUnshuffle = _layer("PixelUnshuffle", F.pixel_unshuffle, 1, _example("PixelUnshuffle(2)(Tensor.ones(1, 1, 4, 4))", "(1, 4, 2, 2)"))
ChannelShuffle = _layer("ChannelShuffle", F.channel_shuffle, 1, _example("ChannelShuffle(2)(Tensor.ones(1, 4, 2, 2))", "(1, 4, 2, 2)"))
Unfold = _layer("Unfold", F.unfold, 1, _example("Unfold(2)(Tensor.ones(1, 1, 3, 3))", "(1, 4, 4)"))
Fold = _layer("Fold", F.fold, 1, _example("Fold((3, 3), 2)(Tensor.ones(1, 4, 4))", "(1, 1, 3, 3)"))
LocalResponseNorm = _layer("LocalResponseNorm", F.local_response_norm, 1, _example("LocalResponseNorm(2)(Tensor.ones(1, 4, 2))", "(1, 4, 2)"))
CosineSimilarity = _layer("CosineSimilarity", F.cosine_similarity, 2, _example(f"CosineSimilarity()({_X}, {_X})", "(2,)"))
PairwiseDistance = _layer("PairwiseDistance", F.pairwise_distance, 2, _example(f"PairwiseDistance()({_X}, {_X})", "(2,)"))
_IMAGE = "Tensor.ones(1, 1, 2, 2)"
Upsample = _layer("Upsample", F.upsample, 1, _example(f"Upsample(scale_factor=2)({_IMAGE})", "(1, 1, 4, 4)"))
UpsamplingNearest2d = _layer("UpsamplingNearest2d", F.upsample_nearest, 1, _example(f"UpsamplingNearest2d((4, 4))({_IMAGE})", "(1, 1, 4, 4)"))
UpsamplingBilinear2d = _layer("UpsamplingBilinear2d", F.upsample_bilinear, 1, _example(f"UpsamplingBilinear2d((4, 4))({_IMAGE})", "(1, 1, 4, 4)"))

# ---- losses

_Y = "Tensor.zeros(2, 3)"
_LOSSES = {
    "L1Loss": (F.l1_loss, 2, f"{_X}, {_Y}"), "MSELoss": (F.mse_loss, 2, f"{_X}, {_Y}"),
    "SmoothL1Loss": (F.smooth_l1_loss, 2, f"{_X}, {_Y}"), "HuberLoss": (F.huber_loss, 2, f"{_X}, {_Y}"),
    "BCELoss": (F.binary_cross_entropy, 2, f"{_X}, {_Y}"),
    "BCEWithLogitsLoss": (F.binary_cross_entropy_with_logits, 2, f"{_X}, {_Y}"),
    "NLLLoss": (F.nll_loss, 2, f"{_X}, Tensor([0, 2])"), "CrossEntropyLoss": (F.cross_entropy, 2, f"{_X}, Tensor([0, 2])"),
    "KLDivLoss": (F.kl_div, 2, f"{_X}, {_X}"), "PoissonNLLLoss": (F.poisson_nll_loss, 2, f"{_X}, {_Y}"),
    "GaussianNLLLoss": (F.gaussian_nll_loss, 3, f"{_X}, {_Y}, {_X}"),
    "HingeEmbeddingLoss": (F.hinge_embedding_loss, 2, f"{_X}, {_X}"), "SoftMarginLoss": (F.soft_margin_loss, 2, f"{_X}, {_X}"),
    "MultiLabelSoftMarginLoss": (F.multilabel_soft_margin_loss, 2, f"{_X}, {_X}"),
    "MultiLabelMarginLoss": (F.multilabel_margin_loss, 2, f"{_X}, Tensor([[0, -1, 0], [1, 2, -1]])"),
    "MultiMarginLoss": (F.multi_margin_loss, 2, f"{_X}, Tensor([0, 2])"),
    "CosineEmbeddingLoss": (F.cosine_embedding_loss, 3, f"{_X}, {_X}, Tensor([1, -1])"),
    "MarginRankingLoss": (F.margin_ranking_loss, 3, f"{_X}, {_X}, {_X}"),
    "TripletMarginLoss": (F.triplet_margin_loss, 3, f"{_X}, {_X}, {_Y}"),
    "TripletMarginWithDistanceLoss": (F.triplet_margin_with_distance_loss, 3, f"{_X}, {_X}, {_Y}"),
    "CTCLoss": (F.ctc_loss, 4, "Tensor.ones(4, 1, 3).log_softmax(2), Tensor([[1, 2]]), [4], [2]"),
}  # fmt: skip
for _name, (_function, _inputs, _arguments) in _LOSSES.items():
    globals()[_name] = _layer(_name, _function, _inputs, _example(f"{_name}()({_arguments})", "()"))


# ---- shapes


class Identity(Module):
    """The input itself; arguments are taken and not used.

    >>> nn.Identity(3)(Tensor([1.0])).tolist()
    [1.0]
    """

    _training = None

    def __init__(self, *args, **kwargs):
        super().__init__()

    def forward(self, input):
        return input


class Flatten(Module):
    """Axes joined to one: all but the first.

    >>> nn.Flatten()(Tensor.ones(2, 3, 4)).shape
    (2, 12)
    """

    _training = None

    def __init__(self, start_dim=1, end_dim=-1):
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input):
        return input.flatten(self.start_dim, self.end_dim)


class Unflatten(Module):
    """One axis split.

    >>> nn.Unflatten(1, (3, 4))(Tensor.ones(2, 12)).shape
    (2, 3, 4)
    """

    _training = None

    def __init__(self, dim, unflattened_size):
        super().__init__()
        self.dim, self.unflattened_size = dim, tuple(unflattened_size)

    def forward(self, input):
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self):
        return f"{self.dim}, {self.unflattened_size}"


class Softmax2d(Module):
    """softmax over the channels of images.

    >>> nn.Softmax2d()(Tensor.ones(1, 2, 2, 2)).sum(1).shape
    (1, 2, 2)
    """

    _training = None

    def forward(self, input):
        return input.softmax(-3)


class _Pad(Module):
    _training = None
    _axes, _mode = 1, "constant"

    def __init__(self, padding, value=0.0):
        super().__init__()
        self.padding, self.value = F._tuple(padding, 2 * self._axes), value

    def forward(self, input):
        return input.pad(self.padding, self._mode, self.value)

    def extra_repr(self):
        return f"{self.padding}"


for _axes in (1, 2, 3):
    for _name, _mode in (("Constant", "constant"), ("Reflection", "reflect"), ("Replication", "replicate"), ("Zero", "constant"), ("Circular", "circular")):
        _doc = (
            f"Images with {_SPACE[_axes].count('4')} axes, surrounded: mode {_mode}.\n\n    >>> nn.{_name}Pad{_axes}d(1)"
            f"(Tensor.ones(1, 1, {_SPACE[_axes]})).shape\n    (1, 1, {_SPACE[_axes].replace('4', '6')})"
        )
        globals()[f"{_name}Pad{_axes}d"] = type(Module)(
            f"{_name}Pad{_axes}d", (_Pad,), {"_axes": _axes, "_mode": _mode, "__doc__": _doc, "__module__": "lathe.nn"}
        )

# ---- with weights


def _uniform(bound, *shape):
    return Parameter(Tensor.uniform(*shape, low=-bound, high=bound) if bound else Tensor.zeros(*shape))


class PReLU(Module):
    """leaky_relu with a slope that is learned.

    >>> nn.PReLU()(Tensor([-4.0, 2.0])).tolist()
    [-1.0, 2.0]
    """

    _training = None

    def __init__(self, num_parameters=1, init=0.25):
        super().__init__()
        self.num_parameters = num_parameters
        self.weight = Parameter(Tensor.full((num_parameters,), float(init)))

    def forward(self, input):
        return F.prelu(input, self.weight)

    def extra_repr(self):
        return str(self.num_parameters)


class Bilinear(Module):
    """x1 W x2 + b.

    >>> nn.Bilinear(2, 3, 4)(Tensor.ones(5, 2), Tensor.ones(5, 3)).shape
    (5, 4)
    """

    _training = None

    def __init__(self, in1_features, in2_features, out_features, bias=True):
        super().__init__()
        bound = 1 / math.sqrt(in1_features)
        self.weight = _uniform(bound, out_features, in1_features, in2_features)
        self.bias = _uniform(bound, out_features) if bias else None

    def forward(self, input1, input2):
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self):
        out, first, second = self.weight.shape
        return f"{first}, {second}, {out}"


class Conv3d(Module):
    """Convolution over three axes of space.

    >>> nn.Conv3d(1, 2, 3)(Tensor.ones(1, 1, 4, 4, 4)).shape
    (1, 2, 2, 2, 2)
    """

    _training = None

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True, padding_mode="zeros"):
        super().__init__()
        from lathe.nn.native import check_border

        self.kernel_size, self.padding_mode = F._tuple(kernel_size, 3), check_border("Conv3d", padding_mode)
        self.stride, self.padding, self.dilation, self.groups = stride, padding, dilation, groups
        bound = 1 / math.sqrt(in_channels // groups * math.prod(self.kernel_size))
        self.weight = _uniform(bound, out_channels, in_channels // groups, *self.kernel_size)
        self.bias = _uniform(bound, out_channels) if bias else None

    def forward(self, input):
        padding = self.padding
        if self.padding_mode != "zeros":
            border = F.border_of(self.weight, padding, self.stride, self.dilation)
            input, padding = input.pad(border, self.padding_mode), 0
        return F.conv3d(input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)

    def extra_repr(self):
        return f"{self.weight.shape[1] * self.groups}, {self.weight.shape[0]}, {self.kernel_size}"


class ConvTranspose3d(Module):
    """Transposed convolution over three axes of space.

    >>> nn.ConvTranspose3d(1, 2, 2, stride=2)(Tensor.ones(1, 1, 2, 2, 2)).shape
    (1, 2, 4, 4, 4)
    """

    _training = None

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1, bias=True, dilation=1):
        super().__init__()
        self.kernel_size = F._tuple(kernel_size, 3)
        self.stride, self.padding, self.output_padding = stride, padding, output_padding
        self.groups, self.dilation = groups, dilation
        bound = 1 / math.sqrt(out_channels // groups * math.prod(self.kernel_size))
        self.weight = _uniform(bound, in_channels, out_channels // groups, *self.kernel_size)
        self.bias = _uniform(bound, out_channels) if bias else None

    def forward(self, input):
        return F.conv_transpose3d(
            input, self.weight, self.bias, self.stride, self.padding, self.output_padding, self.groups, self.dilation
        )

    def extra_repr(self):
        return f"{self.weight.shape[0]}, {self.weight.shape[1] * self.groups}, {self.kernel_size}"


class EmbeddingBag(Module):
    """Means, sums or maxima of rows of a table.

    >>> nn.EmbeddingBag(10, 3, mode="sum")(Tensor([[1, 2], [3, 4]])).shape
    (2, 3)
    """

    _training = None

    def __init__(
        self, num_embeddings, embedding_dim, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, mode="mean", sparse=False, padding_idx=None
    ):
        super().__init__()
        if max_norm is not None or scale_grad_by_freq:
            raise UserError("lathe: EmbeddingBag: max_norm and scale_grad_by_freq are not there\n  help: scale the weight before the call")
        self.mode, self.padding_idx = mode, padding_idx
        self.weight = Parameter(Tensor.randn(num_embeddings, embedding_dim))

    def forward(self, input, offsets=None, per_sample_weights=None):
        return F.embedding_bag(
            input, self.weight, offsets, mode=self.mode, per_sample_weights=per_sample_weights, padding_idx=self.padding_idx
        )

    def extra_repr(self):
        return f"{self.weight.shape[0]}, {self.weight.shape[1]}, mode={self.mode!r}"


class _InstanceNorm(Module):
    _training = None
    _axes = 1

    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=False, track_running_stats=False):
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        self.weight = Parameter(Tensor.ones(num_features)) if affine else None
        self.bias = Parameter(Tensor.zeros(num_features)) if affine else None
        self.register_buffer("running_mean", Tensor.zeros(num_features).clone() if track_running_stats else None)
        self.register_buffer("running_var", Tensor.ones(num_features).clone() if track_running_stats else None)
        if track_running_stats:
            self.register_buffer("num_batches_tracked", Tensor(0, dtype="int64").clone())

    def forward(self, input):
        if input.ndim == self._axes + 1:
            return self.forward(input.unsqueeze(0)).squeeze(0)
        if input.ndim != self._axes + 2:
            name = type(self).__name__
            raise UserError(f"lathe: {name}: needs {self._axes + 1} or {self._axes + 2} axes, not {input.ndim}")
        own = self.training or not self.track_running_stats
        return F.instance_norm(input, self.running_mean, self.running_var, self.weight, self.bias, own, self.momentum, self.eps)

    def extra_repr(self):
        return str(self.num_features)


for _axes in (1, 2, 3):
    globals()[f"InstanceNorm{_axes}d"] = type(Module)(
        f"InstanceNorm{_axes}d", (_InstanceNorm,), {"_axes": _axes, "__module__": "lathe.nn", "__doc__":
            f"Mean 0 and variance 1 over each channel of each element.\n\n    >>> nn.InstanceNorm{_axes}d(2)(Tensor.rand(1, 2, {_SPACE[_axes]})).shape\n"
            f"    (1, 2, {_SPACE[_axes]})"},
    )  # fmt: skip

__all__ = sorted(n for n, v in list(globals().items()) if isinstance(v, type) and issubclass(v, Module) and not n.startswith("_") and v is not Module)
