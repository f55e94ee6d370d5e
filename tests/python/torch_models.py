"""The nets of lathe.models as PyTorch runs them: the same files, in which `lathe` is another name for `torch`."""

import importlib
import importlib.machinery
import pathlib
import sys
import types

PACKAGE = "lathe_models_by_torch"
FOLDER = pathlib.Path(__file__).resolve().parents[2] / "python/lathe/models"
NAMES = {"from lathe.models": f"from {PACKAGE}", "import lathe\n": "import torch as lathe\n", "from lathe import nn": "from torch import nn"}


class Finder:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] != PACKAGE:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=name == PACKAGE)

    def create_module(self, spec):
        return types.ModuleType(spec.name)

    def exec_module(self, module):
        file = (FOLDER / (module.__name__.partition(".")[2] or "__init__")).with_suffix(".py")
        text = file.read_text()
        for ours, theirs in NAMES.items():
            text = text.replace(ours, theirs)
        exec(compile(text, str(file), "exec"), module.__dict__)


sys.meta_path.append(Finder())
models = importlib.import_module(PACKAGE)
