"""What is written for people is true: docstrings, pages and examples run (R70)."""

import doctest
import enum
import importlib
import importlib.util
import inspect
import os
import re

import pytest

import lathe
from lathe import Context, JitError, KernelOptError, Opt, OptOps, Tensor, TinyJit, Variable, amp, autograd, data, dtypes, getenv, helpers, nn, no_grad, options, set_options
from lathe import _core, methods
from lathe.helpers import DEBUG

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGES = ["README.md"] + [f"docs/python/{name}" for name in sorted(os.listdir(os.path.join(ROOT, "docs/python"))) if name.endswith(".md")]
NAMES = dict(
    Tensor=Tensor, TinyJit=TinyJit, Variable=Variable, dtypes=dtypes, nn=nn, no_grad=no_grad, Context=Context, DEBUG=DEBUG, getenv=getenv, Opt=Opt, OptOps=OptOps,
    set_options=set_options, lathe=lathe, fetch=lathe.fetch, function=lathe.function, JitError=JitError, KernelOptError=KernelOptError, DataLoader=data.DataLoader, GradScaler=amp.GradScaler,
    register_op=autograd.register_op, checkpoint=autograd.checkpoint,
)  # fmt: skip


def public_objects():
    for name, value in list(vars(Tensor).items()):
        if not name.startswith("_"):
            yield f"Tensor.{name}", getattr(Tensor, name) if isinstance(value, methods._Late) else value
    for module in (lathe, nn, nn.init, nn.optim, nn.schedulers, nn.state, nn.datasets, amp, autograd, data):
        for name in module.__all__:
            value = getattr(module, name)
            if not inspect.ismodule(value) and not (inspect.isclass(value) and issubclass(value, (Exception, enum.Enum))):
                yield f"{module.__name__.removeprefix('lathe.')}.{name}", value


OBJECTS = sorted([*public_objects(), *((n, getattr(_core, n)) for n in ("KernelBuilder", "KernelValue", "ScheduledKernel", "DType", "Size", "Variable"))], key=lambda item: item[0])
BASES = {"nn.Module", "nn.schedulers.Scheduler"}  # nothing to call
MODULES = [helpers, importlib.import_module("lathe.jit"), options, nn.state]


def run_examples(text, name):
    examples = doctest.DocTestParser().get_examples(text)
    test = doctest.DocTest(examples, dict(NAMES), name, None, None, text)
    report = []
    failed = doctest.DocTestRunner(verbose=False).run(test, out=report.append).failed
    assert failed == 0, "".join(report)
    return len(examples)


@pytest.mark.parametrize("name,value", OBJECTS, ids=[name for name, _ in OBJECTS])
def test_every_public_name_has_a_docstring_whose_example_runs(name, value):
    text = inspect.getdoc(value) or ""
    assert text.strip(), f"{name} has no docstring"
    assert run_examples(text, name) > 0 or name in BASES


@pytest.mark.parametrize("module", MODULES, ids=[m.__name__ for m in MODULES])
def test_examples_of_the_python_modules_run(module):
    for test in doctest.DocTestFinder(exclude_empty=True).find(module, globs=dict(NAMES)):
        report = []
        assert doctest.DocTestRunner(verbose=False).run(test, out=report.append).failed == 0, "".join(report)


@pytest.mark.parametrize("page", PAGES)
def test_the_code_blocks_of_a_page_run(page):
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        blocks = re.findall(r"^```python\n(.*?)^```", file.read(), re.M | re.S)
    assert blocks
    for block in blocks:
        exec(compile(block, page, "exec"), {"__name__": "page"})


def example(name):
    spec = importlib.util.spec_from_file_location(name, os.path.join(ROOT, "examples", f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_mnist_example_learns():
    assert example("mnist").main(["--synthetic", "--steps", "60", "--batch", "32"]) > 0.5


def test_the_gpt2_example_generates_the_same_with_and_without_capture():
    gpt2 = example("gpt2")
    tokens = gpt2.main(["--count", "8"])
    with Context(JIT=0):
        assert gpt2.main(["--count", "8"]) == tokens


def test_the_custom_kernel_example_runs():
    assert example("custom_kernel").main(64) == [0.0, 0.25]
