"""What editors and type checkers see: examples and pages are clean, and every public name has its words."""

import importlib
import importlib.util
import inspect
import os
import re
import subprocess
import sys

import pytest

import lathe
from lathe import Tensor, dtypes, functions, methods, nn

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PACKAGE = os.path.dirname(os.path.abspath(lathe.__file__))
PAGES = ["recipes", "quickstart", "first-minutes", "from-pytorch", "from-tinygrad"]
TYPED = """
from lathe import Tensor, TinyJit, Variable, dtypes, nn

@TinyJit
def step(x: Tensor, scale: float = 1.0) -> Tensor:
    return x * scale

class Model:
    @TinyJit
    def forward(self, x: Tensor) -> Tensor:
        return x + 1

x = Tensor([1.0, 2.0], requires_grad=True)
number: float = x.sum().item() + 1
kind: str = dtypes.float16.name
out: Tensor = step(x)
more: Tensor = Model().forward(x)
shape: Tensor = x.reshape(1, 2).squeeze(dim=0).max(dim=None, keepdim=True).add_(1).bmm(x)
layer: Tensor = nn.Linear(2, 3)(x)
net = nn.Sequential(nn.Linear(2, 3), nn.ReLU()).train()
optimizer = nn.optim.AdamW(net.parameters(), lr=1e-3)
loss: Tensor = nn.functional.mse_loss(net(x), x)
n = Variable("n", 1, 10).bind(3)
"""
# Each line is wrong, and a checker says so.
WRONG = """
from lathe import Tensor, TinyJit, dtypes

@TinyJit
def step(x: Tensor) -> Tensor:
    return x

step(1, 2, 3)
text: str = Tensor([1.0]).sum()
word: str = dtypes.int8
Tensor([1.0]).no_such_method()
text2: str = step(Tensor([1.0]))
"""


def programs(folder):
    """The examples, the blocks of the pages that are programs of their own, and the program above."""
    for name in os.listdir(os.path.join(ROOT, "examples")):
        if name.endswith(".py"):
            yield os.path.join(ROOT, "examples", name)
    texts = {"typed": TYPED, "wrong": WRONG}
    for page in PAGES:
        with open(os.path.join(ROOT, f"docs/python/{page}.md"), encoding="utf-8") as file:
            for i, block in enumerate(re.findall(r"^```python.*\n((?:(?!^```).*\n)*)^```$", file.read(), re.M)):
                texts[f"{page.replace('-', '_')}_{i}"] = block
    for name, text in texts.items():
        path = os.path.join(folder, f"{name}.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        yield path


def complaints(command, folder, env=None):
    """Lines of errors by file."""
    paths = list(programs(folder))
    done = subprocess.run([*command, *paths], cwd=folder, capture_output=True, text=True, env={**os.environ, **(env or {})}, timeout=500)
    found = {os.path.basename(path): [] for path in paths}
    for line in (done.stdout + done.stderr).splitlines():
        match = re.match(r"\s*(\S+?)(?:\.py)?:(\d+).*error", line)
        assert match or "error:" not in line, line
        if match and os.path.basename(match.group(1)) + ".py" in found:
            found[os.path.basename(match.group(1)) + ".py"].append(line)
    return found, done.stdout + done.stderr


def check(found, said):
    wrong = {int(re.search(r":(\d+)", line).group(1)) for line in found.pop("wrong.py")}
    assert wrong == {8, 9, 10, 11, 12}, said
    assert not [line for lines in found.values() for line in lines], said


needs_stubs = pytest.mark.skipif(
    not os.path.exists(os.path.join(PACKAGE, "_core.pyi")), reason="no stubs here: cmake --build build/dev --target lathe_python_stubs"
)


@needs_stubs
@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is not installed; scripts/setup.sh python fetches it")
def test_mypy_is_clean_on_examples_and_pages(tmp_path):
    command = [sys.executable, "-m", "mypy", "--check-untyped-defs", "--follow-imports=silent", "--ignore-missing-imports", "--scripts-are-modules"]
    check(*complaints([*command, "--cache-dir", str(tmp_path / "cache")], str(tmp_path), {"MYPYPATH": os.path.dirname(PACKAGE)}))


@needs_stubs
def test_pyright_is_clean_on_examples_and_pages(tmp_path):
    # Its package on PyPI fetches the program itself when it is first run.
    if importlib.util.find_spec("pyright") is None or subprocess.run([sys.executable, "-m", "pyright", "--version"], capture_output=True, timeout=300).returncode:
        pytest.skip("pyright is not installed, or could not be fetched")
    with open(tmp_path / "pyrightconfig.json", "w", encoding="utf-8") as file:
        file.write(f'{{"include": ["."], "extraPaths": ["{os.path.dirname(PACKAGE)}"], "typeCheckingMode": "basic", "reportMissingModuleSource": false}}')
    for path in list(programs(str(tmp_path))):
        if os.path.dirname(path) != str(tmp_path):
            os.symlink(path, tmp_path / os.path.basename(path))
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "-p", str(tmp_path), "--pythonpath", sys.executable], cwd=tmp_path, capture_output=True, text=True, timeout=500
    )
    found = {"wrong.py": []}
    for line in done.stdout.splitlines():
        if " - error" in line:
            found.setdefault(os.path.basename(line.split(":")[0].strip()), []).append(line)
    check(found, done.stdout)


def test_every_dtype_has_its_type():
    for name in dtypes.fields():
        assert name in type(dtypes).__annotations__, f"dtypes.{name} is not annotated in lathe/dtype.py"


def public():
    """Every public name, with what it names."""
    for name in sorted({*vars(Tensor), *methods._NAMES}):
        if not name.startswith("_"):
            yield f"Tensor.{name}", getattr(Tensor, name)
    for name in functions.names():
        yield f"lathe.{name}", functions.find(name)
    for name in lathe.__all__:
        yield f"lathe.{name}", getattr(lathe, name)
    for path in (
        "nn nn.functional nn.init nn.optim nn.optim.lr_scheduler nn.state nn.datasets nn.utils linalg special distributions autograd amp data helpers device dtype printing"
    ).split():
        module = nn.optim.lr_scheduler if path == "nn.optim.lr_scheduler" else importlib.import_module(f"lathe.{path}")
        for name in getattr(module, "__all__", [n for n in vars(module) if not n.startswith("_")]):
            yield f"{path}.{name}", getattr(module, name)
    for name, member in vars(nn.Module).items():
        if not name.startswith("_"):
            yield f"nn.Module.{name}", member


def test_every_public_name_has_words_for_who_points_at_it():
    silent = []
    for name, value in public():
        described = inspect.isroutine(value) or inspect.isclass(value) or isinstance(value, property)
        if described and not (inspect.getdoc(value) or "").strip():
            silent.append(name)
    assert not silent, f"{len(silent)} public names without a docstring: {' '.join(silent)}"
