"""Calls that match no native signature: arguments under either peer's names, more signatures, and error messages."""

import difflib
import re

from lathe._core import Tensor
from lathe.errors import TypeError as WrongCall
from lathe.methods import forms

# Names that mean the same; a method's own is whichever it has.
_SAME = (("dim", "axis", "dims"), ("keepdim", "keepdims"), ("x", "other", "y", "exponent", "w"), ("min_", "min"), ("max_", "max"),
         ("neg_slope", "negative_slope"), ("sorted_", "sorted"), ("Y", "target"), ("sizes", "split_size_or_sections", "split_size"),
         ("targets", "inputs"))  # fmt: skip


def names_of(native):
    """The parameters of a native method, from its signature."""
    names = []
    for text, *_ in native.__nb_signature__:
        inner = text[text.index("(") + 1 : text.rindex(")")]
        depth, word, parts = 0, "", []
        for c in inner:
            depth += 1 if c in "[(" else -1 if c in "])" else 0
            if c == "," and depth == 0:
                parts.append(word)
                word = ""
            else:
                word += c
        names += [re.match(r"\s*(\**\w+)", part).group(1) for part in [*parts, word] if part.strip() and part.strip() != "/"]
    return [name for name in dict.fromkeys(names) if name not in ("self", "*args", "**kwargs", "_converting")]


_NUMPYS = ("dtype", "out", "where")  # what numpy's functions pass on, mostly None
_renames = {}  # of a method: its own name for each other


def _renamed(name, native, kwargs):
    """Keywords under the method's own names."""
    table = _renames.get(name)
    if table is None:
        own, table = names_of(native), {}
        for group in _SAME:
            mine = next((n for n in group if n in own), None)
            if mine is not None:
                table.update({n: mine for n in group if n not in own})
        _renames[name] = table
    return {table.get(n, n): value for n, value in kwargs.items()}


def answer(name, self, args, kwargs):
    """The result of a call that fits no native form, or an error that says why there is none."""
    native = vars(Tensor)[name]
    other = forms.FORMS.get(name)
    if other is not None:
        try:
            return other(self, *args, **kwargs)
        except forms.NoForm:
            pass
    own, given = names_of(native), kwargs
    kwargs = {k: v for k, v in kwargs.items() if not (v is None and k in _NUMPYS and k not in own)}
    renamed = _renamed(name, native, kwargs)
    if renamed != given:
        return native(self, *args, **renamed)
    raise WrongCall(complaint(name, native, args, kwargs))


def _type(value):
    return type(value).__name__


def complaint(name, native, args, kwargs):
    """What is wrong with a call."""
    own = names_of(native)
    given = ", ".join([*map(_type, args), *(f"{k}={_type(v)}" for k, v in kwargs.items())])
    text = f"lathe: {name}: cannot be called with ({given})\n  note: it takes ({', '.join(own)})"
    strange = [k for k in kwargs if k not in own]
    if strange:
        words = [*own, *(n for group in _SAME if any(n in own for n in group) for n in group)]
        near = difflib.get_close_matches(strange[0], words, 1)
        return text + f"\n  help: there is no argument {strange[0]}" + (f"; did you mean {near[0]}?" if near else "")
    if len(args) > len(own):
        return text + f"\n  help: at most {len(own)} arguments are needed, {len(args)} were given"
    return text + "\n  help: a number or a Tensor is needed where something else was given" if any(isinstance(a, str) for a in args) else text
