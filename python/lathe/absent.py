"""Names that tinygrad programs import from inside its compiler and runtime, and that Lathe has nothing for: they can be
imported and asked about with `isinstance`, and say so when they are used."""

import importlib

from lathe._core import UserError


class _Kind(type):
    def __call__(cls, *args, **kwargs):
        raise UserError(
            f"lathe: {cls.__module__}.{cls.__name__} is a part of tinygrad's own compiler or runtime, which Lathe has not\n"
            "  help: docs/python/from-tinygrad.md says what is here instead"
        )

    def __getattr__(cls, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return f"{cls.__name__}.{name}"


def absent(module):
    """The `__getattr__` of such a module."""
    made = {}

    def get(name):
        if name.startswith("__"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        try:
            return importlib.import_module(f"{module}.{name}")  # `from package import submodule` asks here first
        except ImportError:
            pass
        if name not in made:
            made[name] = _Kind(name, (), {"__module__": module, "__doc__": "Not in Lathe."})
        return made[name]

    return get
