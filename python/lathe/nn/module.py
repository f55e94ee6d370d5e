"""What every layer and net can do: `Module` is the native base of all layers, and these are its methods.

A class of one's own derives from it and says `forward`. Training mode belongs to the module, as in PyTorch: one of one's own
starts in it, `eval()` and `train()` change it for the module and all inside. The native layers by themselves follow
`Tensor.training`, as tinygrad's do, until they become part of such a module or `train()` or `eval()` is called on them."""

import contextlib

from lathe import _core
from lathe._core import Module, Tensor
from lathe.errors import UserError
from lathe.nn import state
from lathe.printing import extra_repr, module_text


class Parameter(Tensor):
    """A trained tensor of a module: it owns its memory and requires a gradient.

    >>> weight = nn.Parameter(Tensor.zeros(2, 3))
    >>> weight.requires_grad, weight.shape
    (True, (2, 3))
    """

    def __init__(self, data=None, requires_grad=True):
        start = Tensor([]) if data is None else data if isinstance(data, Tensor) else Tensor(data)
        super().__init__(start.detach().clone(), requires_grad=requires_grad)

    def __reduce_ex__(self, protocol):
        function, arguments = super().__reduce_ex__(protocol)
        return _rebuild_parameter, (function, arguments)


def _rebuild_parameter(function, arguments):
    tensor = function(*arguments)
    return Parameter(tensor, tensor.requires_grad is not False)


# ---- walking over parts


def _own(module):
    """Names and values of a module's attributes, without private ones."""
    if hasattr(module, "_asdict"):
        return list(module._asdict().items())
    return [(name, value) for name, value in vars(module).items() if not name.startswith("__")]


def _modules_in(value, name):
    """The modules in an attribute: itself, or those in its lists, tuples and dicts, with dotted names."""
    if isinstance(value, Module):
        yield name, value
    elif isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            yield from _modules_in(item, f"{name}.{i}")
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _modules_in(item, f"{name}.{key}")


def _native_children(module):
    from lathe.printing import _native_parts

    return [(name, getattr(module, name)) for name in _native_parts(module)]


def named_children(self):
    """The modules directly inside, by name.

    >>> [name for name, layer in nn.Sequential(nn.Linear(1, 1), nn.ReLU()).named_children()]
    ['0', '1']
    """
    seen = {}  # the modules too: an id is a module's only as long as it lives, and parts of native ones live briefly
    for name, value in [*_own(self), *_native_children(self)]:
        for path, child in _modules_in(value, name):
            if id(child) not in seen:
                seen[id(child)] = child
                yield path, child


def children(self):
    """The modules directly inside."""
    return (child for _, child in named_children(self))


def named_modules(self, memo=None, prefix="", remove_duplicate=True):
    """This module and all inside it, each once, by dotted name.

    >>> [name for name, layer in nn.Sequential(nn.Linear(1, 1)).named_modules()]
    ['', '0']
    """
    yield from _walk(self, prefix, {id(m): m for m in memo or ()})


def _walk(module, prefix, seen):
    if id(module) in seen:
        return
    seen[id(module)] = module
    yield prefix, module
    for name, child in named_children(module):
        yield from _walk(child, f"{prefix}.{name}" if prefix else name, seen)


def modules(self):
    """This module and all inside it, each once."""
    return (module for _, module in named_modules(self))


def _tensors_in(value, name):
    if isinstance(value, Tensor):
        yield name, value
    elif isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            yield from _tensors_in(item, f"{name}.{i}")
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _tensors_in(item, f"{name}.{key}")


_STATISTICS = ("running_mean", "running_var", "num_batches_tracked")  # what native layers keep and do not train


def _own_tensors(module, saved=False):
    """Name, tensor and whether it is a parameter, of a module alone: of a native layer all of its tensors, of one's own the
    parameters, the buffers (of those `saved` the persistent ones) and the tensors that require a gradient."""
    native = _core.module_parts(module)
    nested = {name.split(".")[0] for name, _ in _native_children(module)}
    computed = vars(module).get("_computed", ())
    for name, tensor in native.items():
        if name.split(".")[0] not in nested and name not in computed:
            yield name, tensor, name not in _STATISTICS
    buffers = vars(module).get("_buffers", {})
    for attribute, value in _own(module):
        if attribute == "_buffers" or attribute in computed:
            continue
        for name, tensor in _tensors_in(value, attribute):
            if name in buffers:
                if buffers[name] or not saved:
                    yield name, tensor, False
            elif isinstance(tensor, Parameter) or tensor.requires_grad is True:
                yield name, tensor, True


def _named_tensors(module, prefix="", recurse=True):
    found = named_modules(module, prefix=prefix) if recurse else [(prefix, module)]
    for path, inner in found:
        for name, tensor, trained in _own_tensors(inner):
            yield (f"{path}.{name}" if path else name), tensor, trained


def named_parameters(self, prefix="", recurse=True, remove_duplicate=True):
    """The tensors that are trained, each once, by dotted name.

    >>> [name for name, p in nn.Linear(2, 3).named_parameters()]
    ['weight', 'bias']
    """
    seen = {}  # the tensors too: an id is a tensor's only as long as it lives
    for name, tensor, trained in _named_tensors(self, prefix, recurse):
        if trained and not (remove_duplicate and id(tensor) in seen):
            seen[id(tensor)] = tensor
            if tensor.requires_grad is None and tensor.is_floating_point():  # a native layer's: an optimizer would ask, too
                tensor.requires_grad_(True)
            yield name, tensor


def parameters(self, recurse=True):
    """The tensors that are trained, each once: what an optimizer is given.

    >>> [p.shape for p in nn.Linear(2, 3).parameters()]
    [(3, 2), (3,)]
    """
    return Tensors(tensor for _, tensor in named_parameters(self, recurse=recurse))


class Tensors(list):
    """A list that `next` takes from too: PyTorch's programs ask for next(net.parameters())."""

    _taken = 0

    def __next__(self):
        if self._taken >= len(self):
            raise StopIteration
        self._taken += 1
        return self[self._taken - 1]


def named_buffers(self, prefix="", recurse=True, remove_duplicate=True):
    """The tensors that are not trained, by dotted name; also those that are no part of the state.

    >>> [name for name, b in nn.BatchNorm2d(3).named_buffers()]
    ['running_mean', 'running_var', 'num_batches_tracked']
    """
    for name, tensor, trained in _named_tensors(self, prefix, recurse):
        if not trained:
            yield name, tensor


def buffers(self, recurse=True):
    """The tensors that are not trained."""
    return Tensors(tensor for _, tensor in named_buffers(self, recurse=recurse))


def state_dict(self, prefix="", destination=None, keep_vars=False):
    """Parameters and buffers by dotted name, as in PyTorch.

    >>> list(nn.Sequential(nn.Linear(2, 3)).state_dict())
    ['0.weight', '0.bias']
    """
    found = {} if destination is None else destination
    for path, module in _every_path(self, prefix.rstrip(".")):
        for name, tensor, _ in _own_tensors(module, saved=True):
            found[f"{path}.{name}" if path else name] = tensor
    return found


def _every_path(module, path, above=()):
    """All modules with all their paths: a shared one is named at each place."""
    if id(module) in above:
        return
    yield path, module
    for name, value in [*_own(module), *_native_children(module)]:
        for inner, child in _modules_in(value, name):
            yield from _every_path(child, f"{path}.{inner}" if path else inner, (*above, id(module)))


class LoadedNames(list):
    """What load_state_dict found: `missing_keys` the module has and the dict has not, `unexpected_keys` the other way."""

    def __init__(self, missing, unexpected):
        super().__init__([missing, unexpected])
        self.missing_keys, self.unexpected_keys = missing, unexpected

    def __repr__(self):
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"LoadedNames(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


def load_state_dict(self, state_dict, strict=True, assign=False):
    """Copies values by name into the module's tensors. With `strict`, names that are missing or unknown are an error;
    nothing is changed where there is one.

    >>> a, b = nn.Linear(2, 3), nn.Linear(2, 3)
    >>> a.load_state_dict(b.state_dict())
    <All keys matched successfully>
    """
    mine = self.state_dict()
    missing = [n for n in mine if n not in state_dict and not n.endswith("num_batches_tracked")]
    unexpected = [name for name in state_dict if name not in mine]
    if strict and (missing or unexpected):
        from lathe.errors import MissingNames

        raise MissingNames(
            f"lathe: load_state_dict: the names of {type(self).__name__} and of the state dict differ\n"
            f"  note: missing in the dict: {', '.join(missing[:6]) or 'none'}{' ...' if len(missing) > 6 else ''}\n"
            f"  note: unknown to the module: {', '.join(unexpected[:6]) or 'none'}{' ...' if len(unexpected) > 6 else ''}\n"
            "  help: strict=False loads what fits"
        )
    state.load_state_dict(_Named(mine), {n: _tensor(v) for n, v in state_dict.items() if n in mine}, strict=False)
    return LoadedNames(missing, unexpected)


def _tensor(value):
    """Tensors of other libraries by way of numpy."""
    if isinstance(value, Tensor):
        return value
    return Tensor(value.detach().cpu().numpy() if hasattr(value, "detach") else value)


class _Named:
    """Tensors under dotted names, as load_state_dict takes a model apart."""

    def __init__(self, tensors):
        self.tensors = tensors

    def _asdict(self):
        return self.tensors


# ---- mode, place and dtype


def _set_mode(module, mode, only_unset=False):
    for inner in modules(module):
        if not (only_unset and "_training" in vars(inner)):
            inner.__dict__["_training"] = mode


def train(self, mode=True):
    """Puts the module and all inside it in training mode, or with False out of it, and gives the module.

    >>> net = nn.Sequential(nn.Dropout(0.5)).eval()
    >>> net.training, net[0].training, net.train()[0].training
    (False, False, True)
    """
    if not isinstance(mode, bool):
        raise UserError(f"lathe: train: the mode is True or False, not {mode!r}\n  help: train() trains, eval() does not")
    _set_mode(self, mode)
    return self


def evaluate(self):
    """Out of training mode: dropout does nothing, batch norm uses what it has learned."""
    return train(self, False)


def _get_training(self):
    mode = self._training
    return _core.training() if mode is None else mode


def _set_training(self, mode):
    self.__dict__["_training"] = bool(mode)


def _each_tensor(module):
    return {id(tensor): tensor for tensor in state.get_state_dict(module).values()}.values()


def to(self, *args, device=None, dtype=None, non_blocking=False, copy=False):
    """Moves all tensors to a device, or to a dtype (floats alone), in place, and gives the module.

    >>> nn.Linear(2, 3).to(dtypes.float16).weight.dtype
    dtypes.float16
    """
    for arg in args:
        if isinstance(arg, Tensor):
            device, dtype = arg.device, arg.dtype
        elif isinstance(arg, bool):
            continue
        elif isinstance(arg, _core.DType):
            dtype = arg
        else:
            device = arg
    for tensor in _each_tensor(self):
        moved = tensor.detach()
        if device is not None:
            moved = moved.to(device)
        if dtype is not None and tensor.is_floating_point():
            moved = moved.cast(dtype)
        if moved.device != tensor.device or moved.dtype != tensor.dtype:
            wish = tensor.requires_grad
            tensor.replace(moved.contiguous().realize())
            if wish is not None:
                tensor.requires_grad_(wish)
    return self


def cpu(self):
    """All tensors on the CPU, in place."""
    return to(self, "CPU")


def cuda(self, device=None):
    """All tensors on a GPU, in place."""
    return to(self, "CUDA" if device is None else f"CUDA:{device}")


def _dtype_method(name):
    def method(self):
        return to(self, dtype=_core.parse_dtype(name))

    method.__doc__ = f"All floats as {name}, in place."
    return method


def requires_grad_(self, requires_grad=True):
    """Whether the parameters are trained.

    >>> [p.requires_grad for p in nn.Linear(1, 1).requires_grad_(False).parameters()]
    [False, False]
    """
    for tensor in parameters(self):
        tensor.requires_grad_(requires_grad)
    return self


def zero_grad(self, set_to_none=True):
    """Forgets the gradients."""
    for tensor in parameters(self):
        tensor.grad = None


def apply(self, function):
    """Calls a function with every module inside and then with this one, and gives the module.

    >>> seen = []
    >>> net = nn.Sequential(nn.Linear(1, 1)).apply(lambda m: seen.append(type(m).__name__))
    >>> seen
    ['Linear', 'Sequential']
    """
    for child in children(self):
        apply(child, function)
    function(self)
    return self


# ---- registering


def register_buffer(self, name, tensor, persistent=True):
    """Keeps a tensor as an attribute that is part of the state (unless not persistent) and is not trained."""
    if isinstance(tensor, Tensor):
        tensor = tensor.detach()
        tensor.requires_grad_(False)
    self.__dict__.setdefault("_buffers", {})[name] = persistent
    setattr(self, name, tensor)


def register_parameter(self, name, param):
    """Keeps a parameter, or None, as an attribute."""
    setattr(self, name, param if param is None or isinstance(param, Parameter) else Parameter(param))


def register_module(self, name, module):
    """Keeps a module as an attribute."""
    setattr(self, name, module)


def _follow(module, path, of):
    for part in path.split(".") if path else []:
        parts = dict(_own(module)) if isinstance(module, Module) else {}
        if part in parts:
            module = parts[part]
        elif isinstance(module, (list, tuple)) and part.isdigit() and int(part) < len(module):
            module = module[int(part)]
        elif isinstance(module, dict) and part in module:
            module = module[part]
        elif hasattr(module, part):
            module = getattr(module, part)
        else:
            raise AttributeError(f"{of} has no part {path!r}")
    return module


def get_submodule(self, target):
    """The module of a dotted name."""
    return _follow(self, target, type(self).__name__)


def get_parameter(self, target):
    """The parameter of a dotted name."""
    return _follow(self, target, type(self).__name__)


# ---- calling


class _Handle:
    """What registering a hook gives: `remove()` takes it away."""

    def __init__(self, hooks, hook):
        self.hooks, self.hook = hooks, hook

    def remove(self):
        if self.hook in self.hooks:
            self.hooks.remove(self.hook)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.remove()


def _register(attribute):
    def method(self, hook, **ignored):
        hooks = self.__dict__.setdefault(attribute, [])
        hooks.append(hook)
        return _Handle(hooks, hook)

    return method


register_forward_hook = _register("_forward_hooks")
register_forward_hook.__doc__ = "Calls hook(module, args, output) after each call; what it gives, unless None, is the output."
register_forward_pre_hook = _register("_forward_pre_hooks")
register_forward_pre_hook.__doc__ = "Calls hook(module, args) before each call; what it gives, unless None, are the arguments."


def _forward(self, *args, **kwargs):
    """What a call of the module computes: each class says its own."""
    raise UserError(
        f"lathe: {type(self).__name__}: the class has no forward method\n  help: def forward(self, x): ... says what a call computes"
    )


def _hooked(self, args, kwargs):
    own = self.__dict__
    for hook in list(own.get("_forward_pre_hooks", ())):
        changed = hook(self, args)
        if changed is not None:
            args = changed if isinstance(changed, tuple) else (changed,)
    out = self.forward(*args, **kwargs)
    for hook in list(own.get("_forward_hooks", ())):
        changed = hook(self, args, out)
        if changed is not None:
            out = changed
    return out


@contextlib.contextmanager
def _mode(mode):
    scope = _core.TrainingScope(mode)
    scope.enter()
    try:
        yield
    finally:
        scope.leave()


def _call(self, *args, **kwargs):
    mode = self._training
    own = self.__dict__
    function = self.forward if "_forward_hooks" not in own and "_forward_pre_hooks" not in own else None
    if mode is None or mode == _core.said_mode():
        return function(*args, **kwargs) if function else _hooked(self, args, kwargs)
    with _mode(mode):
        return function(*args, **kwargs) if function else _hooked(self, args, kwargs)


_native_setattr = Module.__setattr__


def _setattr(self, name, value):
    _native_setattr(self, name, value)
    if isinstance(value, (Module, list, tuple, dict)) and self._training is not None:
        for _, child in _modules_in(value, name):
            _set_mode(child, self._training, only_unset=True)


def _install():
    methods = (
        named_children, children, named_modules, modules, named_parameters, parameters, named_buffers, buffers, state_dict,
        load_state_dict, train, to, requires_grad_, zero_grad, apply, register_buffer, register_parameter, register_module,
        get_submodule, get_parameter, register_forward_hook, register_forward_pre_hook, extra_repr,
    )  # fmt: skip
    for method in methods:
        if method.__name__ == "method":
            continue
        setattr(Module, method.__name__, method)
    Module.register_forward_hook, Module.register_forward_pre_hook = register_forward_hook, register_forward_pre_hook
    Module.add_module, Module.eval, Module.forward, Module.__call__ = register_module, evaluate, _forward, _call
    Module.__setattr__, Module.__repr__, Module._training = _setattr, module_text, True
    Module.training = property(_get_training, _set_training, doc="Whether it is in training mode.")
    for name, dtype in {"half": "float16", "float": "float32", "double": "float64", "bfloat16": "bfloat16"}.items():
        setattr(Module, name, _dtype_method(dtype))
    Module.cpu, Module.cuda = cpu, cuda
    for layer in vars(_core).values():
        if isinstance(layer, type) and issubclass(layer, Module) and layer is not Module:
            layer._training = None
            if "__call__" in vars(layer):
                layer.forward, layer.__call__ = vars(layer)["__call__"], _call


_install()
