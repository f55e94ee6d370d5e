#!/usr/bin/env python3
"""stubs.py FOLDER: writes what editors and type checkers cannot see in the package's own files, with docstrings.
  _core.pyi              the native module; its classes as programs find them, with the methods that Python files add, which have no
                         types of their own and get theirs from the tables here
  _typed.pyi             lathe's functions that are found when they are asked for
  nn/_typed.pyi          the layers that are made from tables
  nn/_typed_losses.pyi   the functions of nn.functional that are"""

import inspect
import os
import re
import sys
import types

from nanobind.stubgen import StubGen

sys.path.pop(0)  # this file's folder, whose package has no native module
import lathe  # noqa: E402
from lathe import _core, methods  # noqa: E402

# What methods written in Python give, where it is not what the others of their class do.
TENSOR = "Tensor"
GIVES = {
    "Tensor": {
        "bool": "equal is_complex is_conj is_contiguous is_cpu is_cuda is_inference is_ipu is_meta is_mkldnn is_mps is_neg is_nested "
        "is_nonzero is_ort is_quantized is_same_size is_signed is_sparse is_sparse_csr is_vulkan is_xpu",
        "int": "data_ptr dim get_device itemsize ndimension nelement storage_offset",
        "str": "__repr__ __format__",
        "None": "__setitem__ retain_grad",
        "list[Tensor]": "custom_kernel",
        "tuple[Tensor, ...]": "dsplit hsplit vsplit split_with_sizes tensor_split unbind aminmax cummax cummin eigh frexp kthvalue mode lstsq "
        "slogdet triangular_solve unsafe_split_with_sizes histogram",
        "Any": "__array_ufunc__ __reduce_ex__ schedule schedule_linear schedule_with_vars linear_with_vars data median nanmedian device stride type "
        "unique unique_consecutive",
    },
    "Module": {
        "bool": "training",
        "str": "__repr__ extra_repr",
        "None": "__setattr__ zero_grad register_buffer register_parameter register_module add_module",
        "dict[str, Tensor]": "state_dict",
        "Iterator[tuple[str, Tensor]]": "named_parameters named_buffers",
        "Iterator[tuple[str, Module]]": "named_children named_modules",
        "Iterator[Module]": "children modules",
        "list[Tensor]": "parameters buffers",
        "Self": "train eval to requires_grad_ apply half float double bfloat16 cpu cuda",
    },
    "Optimizer": {"None": "zero_grad load_state_dict", "dict[str, Tensor]": "state_dict", "list[dict[str, Any]]": "param_groups"},
    "OptimizerGroup": {"None": "zero_grad load_state_dict", "dict[str, Tensor]": "state_dict", "list[dict[str, Any]]": "param_groups"},
}
OTHERS = {"Tensor": "Tensor"}  # and all others of a class; Any where it is not here

# The same of native ones that are declared to give an object.
NATIVE = {
    "Tensor": {
        "float | int | bool": "item",
        "Tensor | Any": "grad",  # None before backward(); who reads it knows
        "float": "__float__",
        "int": "__int__",
        "Any": "tolist numpy size max_pool2d __array__ __dlpack__ __reduce__",
    },
    "DType": {"str | None": "fmt", "Any": "scalar"},
}
# Attributes of layers, whichever layer it is.
OF_LAYERS = {"Tensor": "weight bias weight_ih weight_hh bias_ih bias_hh running_mean running_var num_batches_tracked", "int": "groups", "tuple[int, ...]": "stride dilation padding output_padding"}  # fmt: skip
# Classes with methods that are called as types are: inside of them `int` is the method.
HIDES_TYPES = ("Tensor", "Module")
HEAD = """import builtins
from collections.abc import Iterator
from typing import Any, Self

_int = int
_float = float
_bool = bool

"""


def spread(table):
    """{"bool": "a b"} as {"a": "bool", "b": "bool"}."""
    return {name: kind for kind, names in table.items() for name in names.split()}


def own_copy(function, owner, name):
    """A Python function as a method of the native module's class: stubs then show it there and not as an import."""
    made = types.FunctionType(function.__code__, function.__globals__, name, function.__defaults__, function.__closure__)
    made.__kwdefaults__, made.__doc__ = function.__kwdefaults__, function.__doc__
    if hasattr(function, "__wrapped__"):
        made.__wrapped__ = function.__wrapped__
    made.__annotations__ = dict(function.__annotations__)
    made.__annotations__.setdefault("return", _Text(spread(GIVES.get(owner, {})).get(name, OTHERS.get(owner, "Any"))))
    made.__module__, made.__qualname__ = _core.__name__, f"{owner}.{name}"
    return made


class _Text:
    """An annotation that is written as it stands."""

    def __init__(self, text):
        self.text = text

    def __repr__(self):
        return f"lathe_type<{self.text}>"


def show_in_place(owner):
    """Every Python method of a native class as one of its own."""
    for name, value in list(vars(owner).items()):
        label = owner.__name__
        if isinstance(value, types.FunctionType):
            setattr(owner, name, own_copy(value, label, name))
        elif isinstance(value, staticmethod) and isinstance(value.__func__, types.FunctionType):
            setattr(owner, name, staticmethod(own_copy(value.__func__, label, name)))
        elif isinstance(value, property) and isinstance(value.fget, (types.FunctionType, type)):
            getter = value.fget if isinstance(value.fget, types.FunctionType) else lambda self: None
            setter = own_copy(value.fset, label, name) if isinstance(value.fset, types.FunctionType) else value.fset
            if isinstance(setter, types.FunctionType):
                setter.__annotations__["return"] = _Text("None")
            setattr(owner, name, property(own_copy(getter, label, name), setter, doc=value.__doc__))


def with_errors(text):
    """The stub with the classes of errors, which call themselves lathe.errors' and would be taken for imports from there."""
    errors = [value for value in vars(_core).values() if isinstance(value, type) and issubclass(value, BaseException)]
    lines = []
    for error in sorted(errors, key=lambda e: len(e.__mro__)):
        bases = [base.__name__ if base in errors else f"builtins.{base.__name__}" for base in error.__bases__]
        lines.append(f"class {error.__name__}({', '.join(bases)}):\n{docstring(error)}\n")
    return re.sub(r"from lathe\.errors import \(.*?\)\n", lambda _: "\n".join(lines), text, count=1, flags=re.S)


def native_types(text):
    """The stub with the types of native members that bindings leave open."""
    owner, lines = "", []
    for line in text.split("\n"):
        if match := re.match(r"class (\w+)", line):
            owner = match.group(1)
        member = re.match(r"    def (\w+)\(.*-> (object|Tensor \| None):", line)
        if member:
            known = {**spread(OF_LAYERS), **spread(NATIVE.get(owner, {}))}
            kind = known.get(member.group(1), OTHERS.get(owner) if member.group(2) == "object" else None)
            line = re.sub(r"-> (object|Tensor \| None):", f"-> {kind}:", line) if kind else line
        line = re.sub(r"\(self, \*args, _converting: object \| None = None", "(self: Any, *args: Any", line)  # with numbers or lists in the tensor's place
        if owner in HIDES_TYPES and re.match(r"    def ", line):
            head, name, rest = re.fullmatch(r"(    def )(\w+)(.*)", line).groups()
            line = head + name + re.sub(r"\b(int|float|bool)\b(?!\()", r"_\1", rest)
        lines.append(line)
    return "\n".join(lines)


def signature_of(function, skip_self=False):
    """The parameters as a stub has them: values stand in the source."""
    parts, star = [], False
    try:
        found = list(inspect.signature(function).parameters.items())[skip_self:]
    except ValueError:  # a native one
        return "*args: Any, **kwargs: Any"
    for name, p in found:
        if p.kind is p.KEYWORD_ONLY and not star:
            parts.append("*")
        star |= p.kind in (p.KEYWORD_ONLY, p.VAR_POSITIONAL)
        sign = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        parts.append(f"{sign}{name}: Any" + ("" if p.default is p.empty else " = ..."))
    return ", ".join(parts)


def docstring(value):
    return "    " + repr(inspect.getdoc(value) or "")


def typed(names):
    """A stub of layers, functions and dtypes, by name."""
    out = ["from typing import Any\n\nfrom lathe._core import DType, Module\n"]
    for name, value in names:
        if isinstance(value, type) and issubclass(value, _core.Module):
            out.append(f"class {name}(Module):\n{docstring(value)}\n    def __init__(self, {signature_of(value.__init__, True)}) -> None: ...")
            out.append("    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...\n")
        elif isinstance(value, types.FunctionType):
            out.append(f"def {name}({signature_of(value)}) -> Any:\n{docstring(value)}\n    ...\n")
        elif isinstance(value, _core.DType):
            out.append(f"{name}: DType\n")
    return "\n".join(out)


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write("# mypy: ignore-errors\n" + text)


def main(folder):
    classes = [value for value in vars(_core).values() if isinstance(value, type) and value.__module__ == _core.__name__]
    calls = {owner: vars(owner)["__call__"] for owner in classes if "__call__" in vars(owner)}
    import lathe.nn  # noqa: F401  (puts its methods on Module and the optimizers, and one `__call__` on all layers)

    for name in methods._NAMES:
        getattr(_core.Tensor, name)
    for owner, call in calls.items():
        owner.__call__ = call
    for owner in classes:
        show_in_place(owner)
    stub = StubGen(module=_core, include_docstrings=True, include_private=True, quiet=True)
    stub.put(_core)
    text = native_types(with_errors(re.sub(r"lathe_type<(.*?)>(?=[:\s,)])", r"\1", stub.get())))
    text = text.replace("class Module:\n", "class Module:\n    def __getattr__(self, name: str) -> Any: ...  # parts are attributes\n\n", 1)
    write(os.path.join(folder, "_core.pyi"), HEAD + text)
    from lathe import functions
    from lathe.nn import layers, losses

    write(os.path.join(folder, "_typed.pyi"), typed((name, functions.find(name)) for name in functions.names()))
    write(os.path.join(folder, "nn", "_typed.pyi"), typed((name, getattr(layers, name)) for name in layers.__all__))
    write(os.path.join(folder, "nn", "_typed_losses.pyi"), typed((name, getattr(losses, name)) for name in losses.__all__))


if __name__ == "__main__":
    assert lathe.Tensor is _core.Tensor
    main(sys.argv[1])
