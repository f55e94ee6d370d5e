"""Programs of PyTorch users, run from the same text with the imports changed: what they report is equal."""

import os
import re
import sys

import numpy as np
import pytest

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs")
PROGRAMS = sorted(name.removesuffix(".py") for name in os.listdir(FOLDER) if name.endswith(".py") and name != "start.py")


def changed(source):
    """What a user changes: the imports."""
    source = re.sub(r"^import torch$", "import lathe as torch", source, flags=re.M)
    return re.sub(r"^(import|from) torch\b", r"\1 lathe", source, flags=re.M)


def losses(source, name):
    import start

    start.restart()
    scope = {"__name__": name}
    exec(compile(source, os.path.join(FOLDER, f"{name}.py"), "exec", dont_inherit=True), scope)
    return scope["losses"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_reports_what_pytorchs_does(name, monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    sys.modules.pop("start", None)
    with open(os.path.join(FOLDER, f"{name}.py"), encoding="utf-8") as file:
        source = file.read()
    theirs = losses(source, name)
    mine = losses(changed(source), name)
    assert len(theirs) >= 2 and len(mine) == len(theirs)
    np.testing.assert_allclose(np.array(mine, dtype=np.float64), np.array(theirs, dtype=np.float64), rtol=2e-3, atol=1e-4)
