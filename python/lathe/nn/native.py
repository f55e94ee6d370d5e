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
    given = {renamed.get(n, n): value for n, value in kwargs.items() if not (n in _HINTS and not value)}
    if name == "BatchNorm" and len(args) > 2 and isinstance(args[2], float):  # PyTorch's third is the momentum
        given["momentum"], args = args[2], (*args[:2], *args[3:])
    try:
        made = _core.plainly(kind, *args, **given)
    except TypeError as error:
        if "incompatible function arguments" not in str(error):
            raise
        made = None
    if made is None:
        raise WrongCall(_complaint(name, own, args, given))
    if device is not None or dtype is not None:
        made.to(device=device, dtype=dtype)
    return made


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


_add_sizes()
_native_embedding = _core.Embedding.forward

__all__ = ["Embedding"]
