"""Modules that hold modules or parameters."""

from lathe._core import Module, Tensor
from lathe.errors import UserError
from lathe.nn.module import Parameter, _set_mode


class Sequential(Module):
    """Layers one after the other: anything that is called with a tensor, or one dict of them by name. `net[i]` is layer i.

    >>> net = nn.Sequential(nn.Linear(2, 3), Tensor.relu, nn.Linear(3, 1))
    >>> net(Tensor.ones(4, 2)).shape, list(nn.state.get_state_dict(net))
    ((4, 1), ['0.weight', '0.bias', '2.weight', '2.bias'])
    """

    _training = None

    def __init__(self, *layers):
        super().__init__()
        named = layers[0].items() if len(layers) == 1 and isinstance(layers[0], dict) else enumerate(layers)
        self._layers = {str(name): layer for name, layer in named}
        for name, layer in self._layers.items():
            if not callable(layer):
                raise UserError(
                    f"lathe: Sequential: layer {name} is a {type(layer).__name__}, which cannot be called\n"
                    "  help: layers are arguments of their own: nn.Sequential(*layers)"
                )

    @property
    def layers(self):
        return list(self._layers.values())

    def forward(self, x):
        for layer in self._layers.values():
            x = layer(x)
        return x

    def append(self, layer):
        """Adds a layer at the end."""
        self._layers[str(len(self._layers))] = _joined(self, layer)
        return self

    def extend(self, layers):
        """Adds layers at the end."""
        for layer in layers:
            self.append(layer)
        return self

    def __getitem__(self, i):
        items = list(self._layers.items())[i]
        return Sequential(dict(items)) if isinstance(i, slice) else items[1]

    def __setitem__(self, i, layer):
        self._layers[list(self._layers)[i]] = _joined(self, layer)

    def __getattr__(self, name):
        layers = self.__dict__.get("_layers", {})
        if name in layers:
            return layers[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __len__(self):
        return len(self._layers)

    def __iter__(self):
        return iter(self._layers.values())

    def _asdict(self):
        return {**self._layers, **{n: v for n, v in vars(self).items() if not n.startswith("_")}}

    def __setattr__(self, name, value):
        if isinstance(value, Module):
            self._layers[name] = _joined(self, value)
        else:
            super().__setattr__(name, value)


def _joined(owner, module):
    """A module inside another has its mode, unless its own was set."""
    if isinstance(module, Module) and owner._training is not None:
        _set_mode(module, owner._training, only_unset=True)
    return module


class ModuleList(Module):
    """A list of modules.

    >>> layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(2))
    >>> len(layers), list(layers.state_dict())
    (2, ['0.weight', '0.bias', '1.weight', '1.bias'])
    """

    _training = None

    def __init__(self, modules=None):
        super().__init__()
        self._items = list(modules or ())

    def append(self, module):
        """Adds a module at the end."""
        self._items.append(_joined(self, module))
        return self

    def extend(self, modules):
        """Adds modules at the end."""
        for module in modules:
            self.append(module)
        return self

    def insert(self, index, module):
        """Adds a module before that position."""
        self._items.insert(index, _joined(self, module))

    def pop(self, index=-1):
        """Takes a module out."""
        return self._items.pop(index)

    def __getitem__(self, i):
        return type(self)(self._items[i]) if isinstance(i, slice) else self._items[i]

    def __setitem__(self, i, module):
        self._items[i] = _joined(self, module)

    def __delitem__(self, i):
        del self._items[i]

    def __len__(self):
        return len(self._items)

    def __iter__(self):
        return iter(self._items)

    def __contains__(self, module):
        return any(module is item for item in self._items)

    def __add__(self, other):
        return type(self)([*self._items, *other])

    def _asdict(self):
        return {str(i): item for i, item in enumerate(self._items)}

    def forward(self, *args):
        raise UserError(f"lathe: {type(self).__name__}: a list is not called\n  help: call its modules in a loop, or use nn.Sequential")


class ModuleDict(Module):
    """Modules by name.

    >>> parts = nn.ModuleDict({"a": nn.Linear(2, 2)})
    >>> list(parts.state_dict())
    ['a.weight', 'a.bias']
    """

    _training = None

    def __init__(self, modules=None):
        super().__init__()
        self._items = dict(modules or {})

    def __getitem__(self, key):
        return self._items[key]

    def __getattr__(self, name):  # the modules are attributes too
        items = self.__dict__.get("_items", {})
        if name in items:
            return items[name]
        raise AttributeError(f"ModuleDict has no attribute {name!r}; its modules are {', '.join(map(str, items)) or 'none'}", name=name)

    def __setitem__(self, key, module):
        self._items[key] = _joined(self, module)

    def __delitem__(self, key):
        del self._items[key]

    def __len__(self):
        return len(self._items)

    def __iter__(self):
        return iter(self._items)

    def __contains__(self, key):
        return key in self._items

    def keys(self):
        """The names."""
        return self._items.keys()

    def values(self):
        """The modules."""
        return self._items.values()

    def items(self):
        """Names and modules."""
        return self._items.items()

    def update(self, modules):
        """Adds modules by name."""
        for key, module in dict(modules).items():
            self[key] = module

    def pop(self, key):
        """Takes a module out."""
        return self._items.pop(key)

    def clear(self):
        """Takes all out."""
        self._items.clear()

    def _asdict(self):
        return dict(self._items)

    def forward(self, *args):
        raise UserError(f"lathe: {type(self).__name__}: a dict is not called\n  help: call one of its modules")


def _parameter(value):
    return value if isinstance(value, Parameter) or not isinstance(value, Tensor) else Parameter(value)


class ParameterList(ModuleList):
    """A list of parameters; tensors become parameters.

    >>> list(nn.ParameterList([Tensor.ones(2)]).state_dict())
    ['0']
    """

    def __init__(self, values=None):
        super().__init__([_parameter(v) for v in values or ()])

    def append(self, value):
        """Adds a parameter at the end."""
        self._items.append(_parameter(value))
        return self

    def __setitem__(self, i, value):
        self._items[i] = _parameter(value)


class ParameterDict(ModuleDict):
    """Parameters by name; tensors become parameters.

    >>> list(nn.ParameterDict({"w": Tensor.ones(2)}).state_dict())
    ['w']
    """

    def __init__(self, parameters=None):
        super().__init__({key: _parameter(value) for key, value in dict(parameters or {}).items()})

    def __setitem__(self, key, value):
        self._items[key] = _parameter(value)


__all__ = ["ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]
