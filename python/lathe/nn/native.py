"""The native layers as PyTorch's programs call them: its names of arguments, its attributes, and wrong calls answered in words."""

from lathe import _core
from lathe.errors import TypeError as WrongCall
from lathe.errors import UserError, nearest
from lathe.methods.words import names_of

# PyTorch's names of arguments, by layer.
_RENAMED = {
    "Embedding": {"num_embeddings": "vocab_size", "embedding_dim": "embed_size"},
    "BatchNorm": {"num_features": "sz"},
    "RMSNorm": {"normalized_shape": "dim"},
}
_HINTS = ("_weight", "_freeze", "sparse", "scale_grad_by_freq")  # of PyTorch's: without a meaning here where they are false or None


def construct(kind, args, kwargs):
    """A layer from arguments that fit none of its forms: under PyTorch's names, with a device or a dtype; else an error in words."""
    name, own = kind.__name__, [n for n in names_of(kind.__init__) if n != "_unfitting"]
    kwargs, renamed = dict(kwargs), _RENAMED.get(kind.__name__, {})
    device, dtype = kwargs.pop("device", None), kwargs.pop("dtype", None)
    border = None
    if name in ("Conv1d", "Conv2d"):
        args, border = (args[:8], args[8]) if len(args) == 9 else (args, kwargs.pop("padding_mode", None))
        border = None if border in (None, "zeros") else check_border(name, border)
    given = {renamed.get(n, n): _named(value) for n, value in kwargs.items() if not (n in _HINTS and not value)}
    args = tuple(_named(value) for value in args)
    if name == "BatchNorm" and len(args) > 2 and (args[2] is None or isinstance(args[2], float)):  # PyTorch's third is the momentum
        given["momentum"], args = args[2], (*args[:2], *args[3:])
    try:
        made = _core.plainly(kind, *args, **given)
    except TypeError as error:
        if "incompatible function arguments" not in str(error):
            raise
        made = None
    if made is not None and border is not None:
        made.padding_mode = border
        made._border = _border(made, args[4] if len(args) > 4 else given.get("padding", 0))
    if made is None:
        raise WrongCall(_complaint(name, own, args, given))
    if device is not None or dtype is not None:
        made.to(device=device, dtype=dtype)
    return made


def _named(value):
    """An activation that is given as a function, by its name."""
    return value.__name__ if callable(value) and getattr(value, "__name__", None) in ("relu", "gelu") else value


def check_border(name, mode):
    """The name of what surrounds an image before a convolution."""
    if mode not in ("zeros", "reflect", "replicate", "circular"):
        raise UserError(f"lathe: {name}: there is no padding_mode {mode!r}\n  help: zeros, reflect, replicate or circular")
    return mode


def _border(layer, padding):
    """A border that is not zeros, as `pad` takes it; the layer adds none then."""
    from lathe.nn.functional import border_of

    return border_of(layer.weight, padding, layer.stride, layer.dilation)


def _complaint(name, own, args, given):
    strange = [word for word in given if word not in own]
    text = f"lathe: {name}: cannot be made from ({', '.join([*map(repr, args), *(f'{k}={v!r}' for k, v in given.items())])})"
    if strange:
        text = f"lathe: {name}: there is no argument {strange[0]}{nearest(strange[0], own)}"
    return f"{text}\n  help: it takes {', '.join(own)}"


class Embedding(_core.Embedding):
    """Rows of a table by number. The row `padding_idx` starts as 0 and is not trained.

    >>> nn.Embedding(10, 4)(Tensor([[1, 2]])).shape
    (1, 2, 4)
    """

    _training = None
    padding_idx = max_norm = None

    def __init__(self, num_embeddings=None, embedding_dim=None, padding_idx=None, max_norm=None, *, vocab_size=None, embed_size=None, **more):
        rows, width = num_embeddings if vocab_size is None else vocab_size, embedding_dim if embed_size is None else embed_size
        if rows is None or width is None:
            raise WrongCall("lathe: Embedding: the number of rows and their size are needed\n  help: Embedding(num_embeddings, embedding_dim)")
        if max_norm is not None:
            raise UserError("lathe: Embedding: max_norm is not there\n  help: nn.functional.embedding of a weight.renorm(...) does it")
        super().__init__(rows, width, **more)
        if padding_idx is not None:
            if not -rows <= padding_idx < rows:
                raise UserError(f"lathe: Embedding: padding_idx {padding_idx} is none of {rows} rows")
            self.padding_idx = padding_idx % rows
            self.weight[self.padding_idx] = 0.0

    def forward(self, x):
        if x.is_floating_point():
            raise WrongCall(f"lathe: Embedding: rows are chosen by integers, not {x.dtype.name}\n  help: cast them: x.long()")
        out = _native_embedding(self, x)
        if self.padding_idx is None:
            return out
        return (x == self.padding_idx).unsqueeze(-1).where(out.detach(), out)

    @classmethod
    def from_pretrained(cls, embeddings, freeze=True, padding_idx=None, **ignored):
        """A table with these rows.

        >>> nn.Embedding.from_pretrained(Tensor([[1.0, 2.0]]))(Tensor([0])).tolist()
        [[1.0, 2.0]]
        """
        layer = cls(*embeddings.shape, padding_idx=padding_idx)
        layer.weight.assign(embeddings.detach()).realize()
        layer.weight.requires_grad_(not freeze)
        return layer

    num_embeddings = property(lambda self: self.weight.shape[0], doc="The number of rows.")
    embedding_dim = property(lambda self: self.weight.shape[1], doc="The size of a row.")


# Sizes that PyTorch's layers have as attributes: from the weight.
_SIZES = {
    "Linear": {"in_features": lambda l: l.weight.shape[1], "out_features": lambda l: l.weight.shape[0]},
    "LayerNorm2d": {}, "LSTMCell": {"input_size": lambda l: l.weight_ih.shape[1], "hidden_size": lambda l: l.weight_hh.shape[1]},
}  # fmt: skip
_SIZES["GRUCell"] = _SIZES["LSTMCell"]
for _name in ("Conv1d", "Conv2d"):
    _SIZES[_name] = {"in_channels": lambda l: l.weight.shape[1] * l.groups, "out_channels": lambda l: l.weight.shape[0]}
for _name in ("ConvTranspose1d", "ConvTranspose2d"):
    _SIZES[_name] = {"in_channels": lambda l: l.weight.shape[0], "out_channels": lambda l: l.weight.shape[1] * l.groups}
_SIZES["BatchNorm"] = {"num_features": lambda l: (l.running_mean if l.running_mean is not None else l.weight).shape[0]}


def _add_sizes():
    for name, sizes in _SIZES.items():
        kind = getattr(_core, name)
        for attribute, size in sizes.items():
            if not hasattr(kind, attribute):
                setattr(kind, attribute, property(size, doc=f"{attribute}, from the shape of the weight."))


def _add_calls():
    """A image without a batch axis, and borders that are not zeros."""

    def wrap(kind, axes):
        native = kind.forward

        def forward(self, x):
            if x.ndim == axes + 1:
                return forward(self, x.unsqueeze(0)).squeeze(0)
            border = vars(self).get("_border")
            if border is None:
                return native(self, x)
            return x.pad(border, self.padding_mode).conv2d(self.weight, self.bias, self.groups, self.stride, self.dilation, 0)

        forward.__doc__ = native.__doc__
        kind.forward = forward

    for name in ("Conv1d", "Conv2d", "ConvTranspose1d", "ConvTranspose2d"):
        wrap(getattr(_core, name), int(name[-2]))


_add_sizes()
_add_calls()
_native_embedding = _core.Embedding.forward

__all__ = ["Embedding"]
