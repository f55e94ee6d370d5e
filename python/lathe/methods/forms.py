"""Further forms of native methods: those of PyTorch that the native ones do not take."""

from lathe import _core
from lathe._core import Tensor
from lathe.errors import UserError
from lathe.methods.reducing import Pair
from lathe.methods.shapes import at, axis_of, diag_embed


class NoForm(Exception):
    """The call fits none of these either."""


def _added(name):
    native = vars(Tensor)[name]

    def form(self, x=None, *, other=None, alpha=None):
        """add(other, alpha=2)."""
        x = other if x is None else x
        if alpha is None or x is None:
            raise NoForm
        scaled = x * alpha
        return native(self, scaled.cast(x.dtype) if isinstance(x, Tensor) and isinstance(alpha, int) else scaled)

    return form


def _extreme(choose, join):
    def form(self, axis=None, keepdim=False, *, dim=None, keepdims=False, other=None):
        """max(other), or max(dim=1): values and where they are."""
        other = axis if isinstance(axis, Tensor) else other
        if other is not None:
            return getattr(self, join)(other)
        if dim is None:
            raise NoForm
        keepdim = keepdim or keepdims
        if not self.ndim:
            return Pair(self, self.const_like(0).cast("int32"))
        if not isinstance(dim, int):
            raise UserError(f"lathe: max: dim is one axis, not {dim!r}\n  help: amax and amin take several")
        place = getattr(self, choose)(dim, keepdim=True)
        found = (self.gather(dim, place), place)
        return Pair(*(found if keepdim else (t.squeeze(dim) for t in found)))

    return form


def _spread(name):
    native = vars(Tensor)[name]

    def form(self, axis=None, keepdim=False, correction=1, *, dim=None, unbiased=None, keepdims=False):
        """var(dim=1, unbiased=False), var(False), var(correction=None)."""
        if isinstance(axis, bool) and dim is None:
            axis, unbiased = None, axis
        if unbiased is None and correction is None:
            unbiased = True
        if unbiased is None:
            raise NoForm
        return native(self, axis if dim is None else dim, keepdim or keepdims, 1 if unbiased else 0)

    return form


def _scan(name):
    native = vars(Tensor)[name]

    def form(self, axis=0, *, dim=None, dtype=None):
        """cumsum(0, dtype=...)."""
        if dtype is None:
            raise NoForm
        return native(self.cast(dtype), axis if dim is None else dim).cast(dtype)

    return form


def _round(self, decimals):
    """round(decimals=2)."""
    scale = 10.0**decimals
    return (self * scale).round() / scale


def _diag(self, diagonal=0):
    """diag(1): a matrix with that diagonal, or that diagonal of a matrix."""
    return diag_embed(self, diagonal) if self.ndim == 1 else self.diagonal(diagonal)


def _squeeze(self, dim=None, *, axis=None):
    """squeeze((0, 2))."""
    dim = axis if dim is None else dim
    if not isinstance(dim, (tuple, list)):
        raise NoForm
    out = self
    for position in sorted((axis_of(self, d, "squeeze") for d in dim), reverse=True):
        out = out.squeeze(position)
    return out


def _movedim(self, source, destination):
    """movedim((0, 1), (1, 0))."""
    source = [axis_of(self, d, "movedim") for d in ([source] if isinstance(source, int) else source)]
    destination = [axis_of(self, d, "movedim") for d in ([destination] if isinstance(destination, int) else destination)]
    if len(source) != len(destination) or len(set(source)) != len(source) or len(set(destination)) != len(destination):
        raise UserError(f"lathe: movedim: axes {source} cannot move to {destination}")
    order = [None] * self.ndim
    for s, d in zip(source, destination):
        order[d] = s
    rest = iter(i for i in range(self.ndim) if i not in source)
    return self.permute(*[next(rest) if o is None else o for o in order])


def _repeat_interleave(self, repeats, dim=None, *, axis=None, output_size=None):
    """repeat_interleave(Tensor([2, 1])): as often as each count says."""
    if isinstance(repeats, int):
        raise NoForm
    dim = axis if dim is None else dim
    counts = repeats.reshape(-1).tolist() if isinstance(repeats, Tensor) else [int(c) for c in repeats]
    x = self.reshape(-1) if dim is None else self
    position = 0 if dim is None else axis_of(self, dim, "repeat_interleave")
    if len(counts) == 1:
        return x.repeat_interleave(counts[0], position)
    if len(counts) != x.shape[position] or min(counts, default=0) < 0:
        raise UserError(
            f"lathe: repeat_interleave: {len(counts)} counts for axis {position} of size {x.shape[position]}; none may be negative"
        )
    places = [i for i, count in enumerate(counts) for _ in range(count)]
    return at(x, position, Tensor(places, dtype="int32", device=self.device) if places else slice(0, 0))


def _to(self, *args, device=None, dtype=None, non_blocking=False, copy=False, memory_format=None):
    """to(dtype), to(other), to(device, dtype)."""
    for arg in args:
        if isinstance(arg, Tensor):
            device, dtype = arg.device, arg.dtype
        elif isinstance(arg, _core.DType):
            dtype = arg
        elif isinstance(arg, str) or arg is None:
            device = arg
        elif not isinstance(arg, bool):
            raise NoForm
    out = self if dtype is None else self.cast(dtype)
    out = out if device is None else out.to(device)
    return out.clone() if copy and out.dtype == self.dtype and out.device == self.device else out


def _backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
    """backward(retain_graph=True): the graph is kept in any case."""
    if create_graph:
        raise UserError(
            "lathe: backward: gradients that backward() leaves in .grad cannot be differentiated again\n"
            "  help: lathe.autograd.grad(loss, parameters, create_graph=True) gives such gradients"
        )
    if inputs is not None:
        inputs = list(inputs) if isinstance(inputs, (tuple, list)) else [inputs]
        for tensor, grad in zip(inputs, self.gradient(*inputs, gradient=gradient)):
            tensor.grad = grad.detach() if tensor.grad is None else tensor.grad + grad.detach()
        return self
    return self.backward() if gradient is None else self.backward(gradient)


FORMS = {
    "add": _added("add"), "sub": _added("sub"), "max": _extreme("argmax", "maximum"), "min": _extreme("argmin", "minimum"),
    "var": _spread("var"), "std": _spread("std"), "var_mean": _spread("var_mean"), "std_mean": _spread("std_mean"),
    "cumsum": _scan("cumsum"), "cumprod": _scan("cumprod"), "round": _round, "diag": _diag, "squeeze": _squeeze, "movedim": _movedim,
    "repeat_interleave": _repeat_interleave, "to": _to, "backward": _backward,
}  # fmt: skip
