"""Tensors, layers, optimizers and captures as text. Only what is shown is computed: a large tensor is cut to its corners first."""

import math
import struct

from lathe import _core

_OPTIONS = {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 100, "sci_mode": None}


def set_printoptions(**options):
    """How tensors are printed: `precision` digits, at most `threshold` elements before it is shortened to `edgeitems` at
    each end of an axis, `linewidth` columns, and `sci_mode` True or False for 1.0e+00 (None: where the values need it).

    >>> lathe.set_printoptions(precision=2)
    >>> Tensor([0.12345])
    Tensor([0.12], shape=(1,), dtype=float32, device=CPU)
    >>> lathe.set_printoptions(precision=4)
    """
    for name in options:
        if name not in _OPTIONS:
            raise _core.UserError(
                f"lathe: set_printoptions: there is no option {name}\n  help: the options are {', '.join(_OPTIONS)}"
            )
    _OPTIONS.update(options)


# ---- tensors


def _corners(tensor, axes):
    """The values at the ends of these axes, as nested lists. Each corner is computed by itself: what several parts of one
    computation share would be computed entirely."""
    if not axes:
        return tensor.contiguous().tolist()
    axis, keep = axes[0], _OPTIONS["edgeitems"]
    before, size = (slice(None),) * axis, tensor.shape[axis]
    first = _corners(tensor[(*before, slice(0, keep))], axes[1:])
    return _joined(first, _corners(tensor[(*before, slice(size - keep, size))], axes[1:]), axis)


def _joined(first, second, axis):
    return first + second if axis == 0 else [_joined(a, b, axis - 1) for a, b in zip(first, second)]


def _shortest(value, single):
    """The decimal with the fewest digits that is this float, to tell how many digits are worth printing."""
    if not single:
        return repr(value)
    for digits in range(1, 10):
        text = f"{value:.{digits}g}"
        try:
            if struct.pack("f", float(text)) == struct.pack("f", value):
                return text
        except OverflowError:
            continue
    return repr(value)


def _float_format(values, single):
    """A function from a float to its text, the same number of digits for all."""
    finite = [abs(v) for v in values if math.isfinite(v) and v != 0]
    precision, scientific = _OPTIONS["precision"], _OPTIONS["sci_mode"]
    if scientific is None:
        scientific = bool(finite) and (max(finite) >= 1e8 or min(finite) < 10.0**-precision or max(finite) / min(finite) > 1e5)
    if scientific:
        return lambda v: f"{v:.{precision}e}" if math.isfinite(v) else str(v)
    digits = 0
    for v in finite:
        if v != int(v):
            fraction = f"{float(_shortest(v, single)):.{precision}f}".partition(".")[2].rstrip("0")
            digits = max(digits, len(fraction))
    plain = all(v == int(v) for v in finite)
    return lambda v: (f"{v:.0f}." if plain else f"{v:.{max(digits, 1)}f}") if math.isfinite(v) else str(v)


def _flat(nested):
    return [x for part in nested for x in _flat(part)] if isinstance(nested, list) else [nested]


def _layout(nested, shape, text, width, indent, cut, tail=0):
    """Nested lists as lines; `cut` says for each axis whether its middle was omitted, `tail` how many columns follow."""
    if not shape:
        return text(nested)
    keep = _OPTIONS["edgeitems"]
    if len(shape) == 1:
        words = [text(v).rjust(width) for v in nested]
        if cut[0]:
            words.insert(keep, "...")
        lines, line = [], ""
        for i, word in enumerate(words):
            piece = word + ("," if i + 1 < len(words) else "")
            room = _OPTIONS["linewidth"] - indent - 1 - (tail if i + 1 == len(words) else 0)
            if line and len(line) + 1 + len(piece) > room:
                lines.append(line)
                line = piece
            else:
                line = f"{line} {piece}" if line else piece
        return "[" + ("\n" + " " * (indent + 1)).join([*lines, line]) + "]"
    rows = [_layout(row, shape[1:], text, width, indent + 1, cut[1:]) for row in nested]
    if cut[0]:
        rows.insert(keep, "...")
    return "[" + ("," + "\n" * (len(shape) - 1) + " " * (indent + 1)).join(rows) + "]"


def _values(tensor, indent):
    shape = tuple(tensor.shape)
    count = math.prod(shape)
    if count == 0:
        return "[]"
    shown = tensor.detach()
    cut = [count > _OPTIONS["threshold"] and size > 2 * _OPTIONS["edgeitems"] for size in shape]
    nested = _corners(shown, [axis for axis, long in enumerate(cut) if long])
    values = _flat(nested)
    if isinstance(values[0], float):
        text = _float_format(values, single=tensor.dtype.itemsize <= 4)
    else:
        text = str
    return _layout(nested, shape, text, max(len(text(v)) for v in values), indent, cut, tail=1)


def _facts(tensor):
    dtype = str(tensor.dtype).removeprefix("dtypes.")
    facts = [f"shape={tuple(tensor.shape)}", f"dtype={dtype}", f"device={tensor.device}"]
    if tensor.requires_grad is True:
        facts.append("requires_grad=True")
    return facts


def _cannot_show(tensor):
    """Why there are no values to show, or None."""
    from lathe.jit import capturing

    if capturing():
        return "values of a captured function are not known while it is captured"
    if tensor.device.startswith("NULL"):
        return "this device computes nothing"
    if not all(isinstance(size, int) for size in tensor.shape):
        return "its size is symbolic"
    return None


def tensor_text(tensor):
    """What `print` and `repr` show of a tensor."""
    name = "Tensor" if type(tensor).__name__ == "Values" else type(tensor).__name__
    facts = ", ".join(_facts(tensor))
    why = _cannot_show(tensor)
    if why is None:
        try:
            values = _values(tensor, len(name) + 1)
        except Exception as error:  # whatever computing it runs into: what prints tensors goes on
            why = f"not computed: {str(error).splitlines()[0] if str(error) else type(error).__name__}"
    if why is not None:
        return f"<{name} {facts}: {why}>"
    last = len(values.rpartition("\n")[2]) + (len(name) + 1 if "\n" not in values else 0)
    fits = last + 2 + len(facts) < _OPTIONS["linewidth"]
    return f"{name}({values},{' ' if fits else chr(10) + ' ' * (len(name) + 1)}{facts})"


# ---- layers and nets


def _arguments(*shown, **others):
    """Arguments as they are written; of the named ones those that differ from (value, default)."""
    named = [f"{name}={value!r}" for name, (value, default) in others.items() if value != default]
    return ", ".join([*(str(v) for v in shown), *named])


def _one(values):
    """(3, 3) as 3."""
    values = tuple(values) if isinstance(values, (list, tuple)) else (values,)
    return values[0] if len(set(values)) == 1 else values


def _convolution(layer, transposed=False):
    inner, outer = (0, 1) if transposed else (1, 0)
    sizes = [0, 0]
    sizes[inner], sizes[outer] = layer.weight.shape[inner], layer.weight.shape[outer]
    sizes[1] *= layer.groups
    first, second = (sizes[0], sizes[1]) if transposed else (sizes[1], sizes[0])
    return _arguments(
        first, second, _one(layer.kernel_size), stride=(_one(layer.stride), 1), padding=(_one(layer.padding), 0),
        dilation=(_one(layer.dilation), 1), groups=(layer.groups, 1), bias=(layer.bias is not None, True),
    )  # fmt: skip


def _norm(layer, *shown, eps):
    return _arguments(*shown, eps=(layer.eps, eps), affine=(layer.weight is not None, True))


# What stands in the parentheses, for each native layer.
_LAYERS = {
    "Linear": lambda l: _arguments(l.weight.shape[1], l.weight.shape[0], bias=(l.bias is not None, True)),
    "Conv1d": _convolution,
    "Conv2d": _convolution,
    "ConvTranspose1d": lambda l: _convolution(l, True),
    "ConvTranspose2d": lambda l: _convolution(l, True),
    "Embedding": lambda l: _arguments(*l.weight.shape),
    "Dropout": lambda l: f"p={l.p}",
    "BatchNorm": lambda l: _arguments(l.running_mean.shape[0] if l.running_mean is not None else "",
                                      eps=(l.eps, 1e-5), momentum=(l.momentum, 0.1), affine=(l.affine, True),
                                      track_running_stats=(l.track_running_stats, True)),
    "GroupNorm": lambda l: _norm(l, l.num_groups, *([] if l.weight is None else [l.weight.shape[0]]), eps=1e-5),
    "InstanceNorm": lambda l: _norm(l, l.num_features, eps=1e-5),
    "LayerNorm": lambda l: _norm(l, _one(l.normalized_shape), eps=1e-5),
    "LayerNorm2d": lambda l: _norm(l, _one(l.normalized_shape), eps=1e-5),
    "RMSNorm": lambda l: _norm(l, *([] if l.weight is None else [l.weight.shape[0]]), eps=1e-6),
    "LSTMCell": lambda l: _arguments(l.weight_ih.shape[1], l.weight_hh.shape[1]),
    "GRUCell": lambda l: _arguments(l.weight_ih.shape[1], l.weight_hh.shape[1]),
    "MultiHeadAttention": lambda l: _arguments(l.query.weight.shape[0], l.heads, dropout=(l.dropout, 0.0)),
}  # fmt: skip


def _words(obj):
    """An object in one line: its class, and the text in the parentheses."""
    kind = type(obj)
    if isinstance(obj, _core.Module):
        try:
            extra = obj.extra_repr()
        except Exception:  # a layer whose making was not finished
            extra = "..."
        return f"{kind.__name__}({extra})"
    if callable(obj) and not isinstance(obj, type) and isinstance(getattr(obj, "__name__", None), str):
        return obj.__name__
    return kind.__name__


def extra_repr(layer):
    """What `repr` of a layer shows in its parentheses; classes of one's own may override it."""
    for kind in type(layer).__mro__:
        if kind.__name__ in _LAYERS and kind.__module__ == "lathe._core":
            return _LAYERS[kind.__name__](layer)
    return ""


def _children(obj):
    """Name and object of the parts of a net that hold tensors or are layers."""
    from lathe.nn.state import _parts, get_state_dict

    if isinstance(obj, _core.Module):
        inner = [(name, getattr(obj, name)) for name in _native_parts(obj)]
    else:
        inner = []
    for name, value in [*inner, *_parts(obj)]:
        if isinstance(value, _core.Tensor) or str(name).startswith("_"):
            continue
        if isinstance(value, _core.Module) or (not callable(value) and get_state_dict(value)) or _is_layer(value):
            yield name, value
        elif callable(value) and (isinstance(obj, (list, tuple)) or hasattr(obj, "_asdict")):
            yield name, value


def _is_layer(value):
    from lathe.nn.state import get_state_dict

    return hasattr(value, "__dict__") and not isinstance(value, type) and bool(get_state_dict(value))


def _native_parts(module):
    """The attributes of a native layer that lead to its layers, from the names of its tensors."""
    own = vars(module)
    names = dict.fromkeys(name.split(".")[0] for name in _core.module_parts(module) if "." in name)
    return [name for name in names if name not in own and hasattr(module, name)]


def _count(obj):
    """The parameters of an object: not the buffers, and each tensor once."""
    from lathe.nn.state import get_state_dict

    named = obj.parameters() if isinstance(obj, _core.Module) else get_state_dict(obj).values()
    tensors = {id(t): t for t in named if t.requires_grad is not False}
    return sum(math.prod(t.shape) for t in tensors.values())


def _tree(obj, prefix, lines):
    children = list(_children(obj))
    for i, (name, child) in enumerate(children):
        last = i + 1 == len(children)
        own = _own_text(child)
        lines.append((f"{prefix}{'└─' if last else '├─'} {name}: {own or _words(child)}", _count(child)))
        if own is None:
            _tree(child, prefix + ("   " if last else "│  "), lines)


def _own_text(module):
    """The __repr__ of a user-defined class if it is one line, else None."""
    if not isinstance(module, _core.Module) or type(module).__repr__ is _core.Module.__repr__:
        return None
    text = repr(module)
    return None if "\n" in text else text


def summary(net):
    """A net as a tree with the number of its parameters: any object whose attributes hold tensors and layers.

    >>> print(nn.summary(nn.Sequential(nn.Linear(2, 3), Tensor.relu)))
    Sequential, 9 parameters
    ├─ 0: Linear(2, 3)  9
    └─ 1: relu
    """
    lines = []
    _tree(net, "", lines)
    count = _count(net)
    head = f"{_words(net).removesuffix('()')}, {count:,} parameter{'' if count == 1 else 's'}"
    if not lines:
        return head
    width = max(len(text) for text, _ in lines)
    digits = max(len(f"{count:,}") if count else 0 for _, count in lines)
    rows = [f"{text.ljust(width)}  {f'{count:,}'.rjust(digits)}" if count else text for text, count in lines]
    return "\n".join([head, *rows])


def module_text(module):
    """What `repr` shows of a layer: one line, or for a net its tree."""
    return summary(module) if any(True for _ in _children(module)) else _words(module)


# ---- optimizers, schedulers, captures


def _number(value):
    return f"{value:.6g}"


def optimizer_text(optimizer):
    """An optimizer as it prints: its rate and what it trains."""
    params = optimizer.params
    count = sum(math.prod(p.shape) for p in params)
    tensors = f"{len(params)} tensor{'' if len(params) == 1 else 's'} with {count:,} parameters"
    return f"{type(optimizer).__name__}(lr={_number(optimizer.lr.item())}, {tensors})"


def group_text(group):
    """Optimizers that step together, a line each."""
    return f"OptimizerGroup({', '.join(repr(group[i]) for i in range(len(group)))})"


def scheduler_text(scheduler):
    """A scheduler as it prints."""
    return f"{type(scheduler).__name__}(lr={_number(scheduler.get_lr())}, base={_number(scheduler.base)}, step={scheduler.steps})"


def jit_text(jit):
    """A captured function as it prints: what of it is captured."""
    name = getattr(jit, "__name__", "loaded")
    if jit.captured is None:
        calls = f"{jit.cnt} call{'' if jit.cnt == 1 else 's'}"
        return f"{type(jit).__name__}({name}: not captured yet, {calls})"
    kernels = f"{jit.kernels} kernel{'' if jit.kernels == 1 else 's'}"
    return f"{type(jit).__name__}({name}: captured, {kernels})"
