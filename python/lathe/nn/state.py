"""State dicts: the tensors of an object by name, and loading them."""

import pickle

from lathe import _core
from lathe._core import Tensor


def _parts(obj):
    """Name and value of what an object is made of, or None for one that is made of nothing."""
    if hasattr(obj, "_asdict"):
        return obj._asdict().items()
    if isinstance(obj, dict):
        return ((str(k), v) for k, v in obj.items())
    if isinstance(obj, (list, tuple)):
        return ((str(i), v) for i, v in enumerate(obj))
    if hasattr(obj, "__dict__"):
        return obj.__dict__.items()
    return ()


def get_state_dict(obj, prefix="", tensor_type=Tensor):
    """The tensors of an object by name: of its attributes, of lists, tuples and dicts in them, and of layers.

    >>> from lathe import nn
    >>> class Net:
    ...     def __init__(self): self.layers = [nn.Linear(2, 3), Tensor.relu, nn.Linear(3, 1)]
    >>> list(nn.state.get_state_dict(Net()))
    ['layers.0.weight', 'layers.0.bias', 'layers.2.weight', 'layers.2.bias']
    """
    if isinstance(obj, tensor_type):
        return {prefix.strip("."): obj}
    found = {}
    if isinstance(obj, _core.Module):
        found.update({f"{prefix}{name}": tensor for name, tensor in _core.module_parts(obj).items()})
    for name, value in _parts(obj):
        found.update(get_state_dict(value, f"{prefix}{name}.", tensor_type))
    return found


def get_parameters(obj):
    """The tensors of an object, as an optimizer takes them.

    >>> from lathe import nn
    >>> [p.shape for p in nn.state.get_parameters(nn.Linear(2, 3))]
    [(3, 2), (3,)]
    """
    return list(get_state_dict(obj).values())


def load_state_dict(model, state_dict, strict=True, verbose=False, consume=False, realize=True):
    """Copies values by name into a model's tensors. With `strict`, every name must be in both. Nothing is changed
    where a name is missing or a shape differs.

    >>> from lathe import nn
    >>> a, b = nn.Linear(2, 3), nn.Linear(2, 3)
    >>> loaded = nn.state.load_state_dict(a, nn.state.get_state_dict(b))
    >>> bool((a.weight == b.weight).all().item())
    True
    """
    mine = get_state_dict(model)
    missing = [name for name in mine if name not in state_dict]
    unknown = [name for name in state_dict if name not in mine]
    if strict and (missing or unknown):
        raise _core.UserError(
            f"lathe: load_state_dict: {len(missing)} names are missing and {len(unknown)} are unknown\n"
            f"  note: missing {', '.join(missing[:6]) or 'none'}; unknown {', '.join(unknown[:6]) or 'none'}\n"
            "  help: strict=False loads what fits"
        )
    loaded = []
    for name, tensor in mine.items():
        if name not in state_dict:
            continue
        value = state_dict[name]
        if tuple(value.shape) != tuple(tensor.shape):
            if {tuple(value.shape), tuple(tensor.shape)} == {(), (1,)}:
                value = value.reshape(tensor.shape)
            else:
                raise _core.UserError(
                    f"lathe: load_state_dict: {name} has shape {tuple(value.shape)}, the model's {tuple(tensor.shape)}"
                )
        loaded.append((name, tensor, value))
    for name, tensor, value in loaded:
        tensor.assign(value.to(tensor.device).cast(tensor.dtype).detach())
        if realize:
            tensor.realize()
        if consume:
            del state_dict[name]
    return [tensor for _, tensor, _ in loaded]


def save(obj, path):
    """Writes any object that can be pickled, tensors and layers included; `load` reads it.

    Only load files you trust: a pickle can run code. Tensors by name go into `safe_save` files instead.
    """
    with open(path, "wb") as file:
        pickle.dump(obj, file)


def load(path):
    """Reads what `save` wrote."""
    with open(path, "rb") as file:
        return pickle.load(file)


__all__ = ["get_parameters", "get_state_dict", "load", "load_state_dict", "save"]
