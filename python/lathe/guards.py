"""What a captured function reads from Python besides its arguments, and whether it has changed.

The code of the function, and of the functions of the program that it reaches, says which names it reads: variables of
enclosing functions, globals, defaults, and attributes. Of these, numbers, strings, bytes, bools and None are compared by
type and value, arrays up to a megabyte by their bytes, lists, tuples, sets, deques and dicts by their elements, and
everything else by identity. Attributes of objects are followed where their names are read.
"""

import array
import collections
import dis
import functools
import os
import struct
import sys
import sysconfig
import types
import weakref
import zlib

from lathe._core import Module, Tensor

_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_CONTAINERS = (list, tuple, set, frozenset, dict, collections.deque)
_MOST_ELEMENTS = 1024  # of a container that is compared element by element
_MOST_DEPTH = 8  # of containers in containers
_MOST_BYTES = 1 << 20  # of an array that is compared
_KEPT_BYTES = 4096  # of an array that is kept; of a larger one a checksum is
_MOST_OBJECTS = 10_000  # that are looked at
_MISSING = object()
# Called without their names being written.
_IMPLICIT = ("__call__", "__getitem__", "__len__", "__iter__", "__contains__", "__enter__", "__exit__", "__getattr__")
_LIBRARIES = tuple(
    os.path.join(path, "")
    for path in {os.path.dirname(__file__), *(sysconfig.get_path(n) for n in ("stdlib", "purelib", "platlib"))}
)


def key_of(value):
    """A plain value, or a scalar of numpy's, as something that is equal for the same value of the same type only: 2, 2.0 and
    True differ, so do 0.0 and -0.0, and nan is itself. None for other objects."""
    if isinstance(value, float):
        return (type(value), struct.pack("d", value))
    if isinstance(value, complex):
        return (type(value), struct.pack("dd", value.real, value.imag))
    if isinstance(value, _PLAIN):
        return (type(value), value)
    if getattr(value, "ndim", None) == 0 and hasattr(value, "tobytes") and not isinstance(value, Tensor):
        return (type(value), str(getattr(value, "dtype", "")), value.tobytes())
    return None


def _array_key(value):
    if isinstance(value, (bytearray, array.array)):
        kind, data = (type(value), getattr(value, "typecode", "")), memoryview(value).cast("B")
    elif isinstance(value, Tensor) or not hasattr(value, "__array_interface__") or value.nbytes > _MOST_BYTES:
        return None
    else:
        kind, data = (str(value.dtype), value.shape), value.tobytes()
    if len(data) > _MOST_BYTES:
        return None
    return (kind, bytes(data) if len(data) <= _KEPT_BYTES else (len(data), zlib.crc32(data)))


def _elements(value):
    """The elements of a container in an order that only its changes change."""
    if isinstance(value, dict):
        return [x for item in value.items() for x in item]
    return list(value)


class _Seen:
    """A value as it was. Objects are held weakly where they can be, so that a capture keeps no model alive."""

    __slots__ = ("elements", "key", "value", "weak")

    def __init__(self, value, depth=0):
        self.value, self.weak, self.elements = value, None, None
        self.key = key_of(value)
        if self.key is None:
            self.key = _array_key(value)
        if self.key is not None or isinstance(value, Tensor):
            return
        if isinstance(value, _CONTAINERS) and len(value) <= _MOST_ELEMENTS and depth < _MOST_DEPTH:
            self.elements = [_Seen(v, depth + 1) for v in _elements(value)]
            self.value = type(value)
            return
        try:
            self.weak = weakref.ref(value)
            self.value = None
        except TypeError:
            pass

    def same(self, now):
        if self.weak is not None:
            return now is self.weak()
        if self.elements is not None:
            if type(now) is not self.value or len(now) * (2 if self.value is dict else 1) != len(self.elements):
                return False
            return all(seen.same(element) for seen, element in zip(self.elements, _elements(now)))
        if self.key is None or (now is self.value and isinstance(now, _PLAIN)):
            return now is self.value
        return key_of(now) == self.key or _array_key(now) == self.key

    def text(self):
        if self.elements is not None:
            return f"a {self.value.__name__} of other elements"
        return _text(self.value) if self.weak is None else "another object"


def _text(now):
    if now is _MISSING:
        return "missing"
    return repr(now)[:60] if key_of(now) is not None else f"a {type(now).__name__}"


def _is_library(file):
    return file is None or file.startswith(_LIBRARIES) or file.startswith("<frozen")


def _code_reads(code):
    """Names of globals, of attributes and of modules that some code, and code inside it, reads."""
    names, attributes, modules, dynamic = set(), set(), set(), False
    pending = [code]
    while pending:
        current = pending.pop()
        for instruction in dis.get_instructions(current):
            if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                names.add(instruction.argval)
                dynamic |= instruction.argval in ("getattr", "hasattr", "vars")
            elif instruction.opname in ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "IMPORT_FROM"):
                attributes.add(instruction.argval)
            elif instruction.opname == "IMPORT_NAME":
                modules.add(instruction.argval)
        pending.extend(c for c in current.co_consts if isinstance(c, types.CodeType))
        if dynamic:
            attributes.update(c for c in current.co_consts if isinstance(c, str) and c.isidentifier())
    return names, attributes, modules


class Guards:
    """Everything a function reads, as it is now."""

    def __init__(self, function, owner=None, arguments=()):
        self._reads = []  # (get, what it gave, its name)
        self._attributes = set(_IMPLICIT)  # names that any reached code reads
        self._functions = []  # with their names
        self._objects = []  # with a way to get them, and their names
        self._met = {}  # what was looked at, kept so that an id is one's own
        self._reach(function, _constant(function), "the function")
        self._reach(owner, _constant(owner), "self")
        for i, value in enumerate(arguments):
            self._add(_constant(value), f"argument {i}")
        self._follow()
        del self._attributes, self._functions, self._objects, self._met

    def changed(self):
        """What is no longer what it was, in words; None where all is."""
        for get, seen, name in self._reads:
            now = get()
            if not seen.same(now):
                return f"{name} is {_text(now)}, captured with {seen.text()}"
        return None

    # Looking at functions gives names, and names give more attributes to look at, until nothing is new.
    def _follow(self):
        size = -1
        while size != len(self._met) and len(self._met) < _MOST_OBJECTS:
            size = len(self._met)
            for function in list(self._functions):
                self._read_function(function)
            for value, get, path in list(self._objects):
                self._read_attributes(value, get, path)

    def _first(self, *what):
        """Whether it is met for the first time."""
        key = tuple(w if isinstance(w, str) else id(w) for w in what)
        if key in self._met:
            return False
        self._met[key] = what
        return True

    def _add(self, get, name):
        value = get()
        seen = _Seen(value)
        # What is made anew whenever it is asked for (a bound method) is looked into, not compared.
        if not isinstance(value, (types.ModuleType, type, weakref.ref)) and seen.same(get()):
            self._reads.append((get, seen, name))
        self._reach(value, get, name)

    def _reach(self, value, get, path):
        if isinstance(value, weakref.ref):
            value = value()
            get = _constant(value)
        if key_of(value) is not None or isinstance(value, Tensor) or not self._first(value):
            return
        if isinstance(value, functools.partial):
            for part in ("func", "args", "keywords"):
                self._add(_attribute_of(get, part), f"{path}.{part}")
        elif isinstance(value, types.MethodType):
            self._reach(value.__self__, _constant(value.__self__), "self")
            self._reach(value.__func__, get, path)
        elif isinstance(value, types.FunctionType):
            if not _is_library(value.__code__.co_filename):
                self._functions.append(value)
        elif isinstance(value, _CONTAINERS):
            if len(value) <= _MOST_ELEMENTS:
                for i, element in enumerate(_elements(value)):
                    self._reach(element, _constant(element), f"{path}[{i}]")
        elif isinstance(value, types.ModuleType):
            if not _is_library(getattr(value, "__file__", None)):
                self._objects.append((value, get, path))
        elif _is_capture(value):
            self._reach(value.fxn, _constant(value.fxn), path)
        else:
            self._objects.append((value, get, path))

    def _read_function(self, function):
        if not self._first(function, "code"):
            return
        code = function.__code__
        names, attributes, modules = _code_reads(code)
        self._attributes |= attributes
        for name, cell in zip(code.co_freevars, function.__closure__ or ()):
            if self._first(cell):
                self._add(functools.partial(_cell_value, cell), f"the variable {name}")
        for name in sorted(names):
            if name in function.__globals__ and self._first(function.__globals__, name):
                self._add(functools.partial(function.__globals__.get, name, _MISSING), f"the global {name}")
        package = function.__globals__.get("__package__") or ""
        for name in sorted(modules):  # also as one of the function's own package, after `from .`
            for module in filter(None, (sys.modules.get(name), sys.modules.get(f"{package}.{name}".rstrip(".")))):
                self._reach(module, _constant(module), module.__name__)
        for i, _ in enumerate(function.__defaults__ or ()):
            self._add(functools.partial(_default, function, i), f"default {i} of {function.__name__}")
        for name in function.__kwdefaults__ or ():
            self._add(functools.partial(_keyword_default, function, name), f"the default of {name}")

    def _read_attributes(self, value, get, path):
        if isinstance(value, Module) and self._first(value, "fields"):
            self._read_layer(value, get, path)
        own = getattr(value, "__dict__", {})
        kind = value if isinstance(value, type) else type(value)
        for name in sorted(self._attributes):
            if not self._first(value, name):
                continue
            if name in own:
                self._add(_attribute_of(get, name), f"{path}.{name}")
                continue
            base = next((base for base in kind.__mro__ if name in base.__dict__), None)
            if base is None or _is_library_class(base):
                continue
            found = base.__dict__[name]
            if _is_capture(found):
                found = found.fxn
            code = [getattr(found, part, None) for part in ("fget", "func", "__func__")] + [found]
            code = [f for f in code if isinstance(f, types.FunctionType)]
            for function in code:
                self._reach(function, _constant(function), path)
            if not code and hasattr(value, name):
                self._add(_attribute_of(get, name), f"{path}.{name}")

    # A layer of Lathe's own has its numbers and tensors in C++.
    def _read_layer(self, layer, get, path):
        state = layer.__getstate__()  # a layer's is a pair; optimizers have none
        for name, field in state[0].items() if isinstance(state, tuple) else ():
            inner = _attribute_of(get, name)
            if isinstance(field, list):
                for i, element in enumerate(field):
                    self._reach(element, _element_of(inner, i), f"{path}.{name}[{i}]")
            elif isinstance(field, Module):
                self._reach(field, inner, f"{path}.{name}")
            else:
                self._add(inner, f"{path}.{name}")


def _is_capture(value):
    return type(value).__module__ == "lathe.jit"


def _is_library_class(kind):
    module = sys.modules.get(kind.__module__)
    return kind.__module__ != "__main__" and _is_library(getattr(module, "__file__", None))


# Ways to get a value again.
def _constant(value):
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: value


def _attribute_of(get, name):
    return lambda: getattr(get(), name, _MISSING)


def _element_of(get, i):
    def element():
        elements = get()
        return elements[i] if isinstance(elements, (list, tuple)) and i < len(elements) else _MISSING

    return element


def _cell_value(cell):
    try:
        return cell.cell_contents
    except ValueError:
        return _MISSING


def _default(function, i):
    defaults = function.__defaults__ or ()
    return defaults[i] if i < len(defaults) else _MISSING


def _keyword_default(function, name):
    return (function.__kwdefaults__ or {}).get(name, _MISSING)
