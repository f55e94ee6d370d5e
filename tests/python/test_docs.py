"""What is written for people is true: docstrings, pages and examples run (R70)."""

import doctest
import enum
import gc
import importlib
import importlib.util
import inspect
import os
import re
import subprocess
import sys

import pytest

import lathe
from lathe import Context, JitError, KernelOptError, Opt, OptOps, Tensor, TinyJit, Variable, amp, autograd, data, dtypes, getenv, helpers, nn, no_grad, options, set_options
from lathe import _core, methods
from lathe.helpers import DEBUG

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGES = ["README.md", "CONTRIBUTING.md"] + sorted(
    os.path.relpath(os.path.join(folder, name), ROOT) for folder, _, names in os.walk(os.path.join(ROOT, "docs")) for name in names if name.endswith(".md") and "reference" not in folder
)  # fmt: skip
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


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def run_python(block, page):
    exec(compile(block, page, "exec"), {"__name__": "page"})


def is_part_of_a_file(block, path):
    assert block in read(path)


def is_what_a_project_writes(block):
    """Each line stands in the project that the package test builds, but for a version that it asks for."""
    consumer = read("tests/package/consumer/CMakeLists.txt").replace("${LATHE_VERSION} ", "").replace("(consumer", "(my_program")
    assert all(line in consumer for line in block.splitlines())


def is_the_kernel_of(block, expression):
    """The text form of what an expression of 16 floats becomes."""
    a, b = (Tensor([float(i) for i in range(16)]).realize() for _ in range(2))
    (kernel,) = eval(expression, {"a": a, "b": b}).schedule()
    assert kernel.text == block


def is_in_the_source_of(block, expression):
    """Lines of the text an expression of 16 floats is compiled from, for a CPU with AVX-512."""
    program = f"from lathe import Tensor; a, b = (Tensor.empty(16, device='NULL:x86-64-v4') for _ in range(2)); ({expression}).realize()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, "LATHE_DEBUG": "4", "LATHE_CACHE": "off"})
    lines = [line.strip() for line in (done.stdout + done.stderr).splitlines()]
    assert done.returncode == 0 and [line for line in lines if line in block.splitlines()] == block.splitlines(), done.stdout + done.stderr


def names_commands_that_exist(block):
    targets = re.findall(r"^([a-z0-9-]+):", read("Makefile"), re.M)
    tool = "".join(read(f"tools/lathe/{name}") for name in sorted(os.listdir(os.path.join(ROOT, "tools/lathe"))))
    for line in block.splitlines():
        words = [w for w in line.split("#")[0].split() if "=" not in w]
        if words[:1] == ["make"]:
            assert all(w in targets for w in words[1:]), line
        elif words[:1] == ["lathe"]:
            assert f'"{words[1]}"' in tool, line
        elif words and "/" in words[0] and words[0] != "./program":
            assert os.access(os.path.join(ROOT, words[0]), os.X_OK), line


def write_file(block, rest):
    with open(rest.removeprefix("file="), "w", encoding="utf-8") as file:
        file.write(block)


def is_what_a_shell_says(block):
    """Commands after `$` and what they print; `...` stands for anything, also for several lines where it is one."""
    package = os.path.dirname(os.path.abspath(lathe.__file__))
    folder = os.path.join(os.getcwd(), "bin")
    os.makedirs(folder, exist_ok=True)
    for name, command in {"python": f'exec "{sys.executable}" "$@"', "lathe": f'exec "{sys.executable}" -m lathe "$@"'}.items():
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\n{command}\n")
        os.chmod(path, 0o755)
    env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": os.path.dirname(package)}
    for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
        command, _, wanted = part.partition("\n")
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, env=env, timeout=300)
        said = done.stdout + done.stderr
        lines = [r"(?:.*\n)*" if line == "..." else "[^\n]*".join(map(re.escape, line.split("..."))) + r"\n" for line in wanted.splitlines()]
        pattern = "".join(lines)
        assert re.fullmatch(pattern, said), f"$ {command}\n{said}"


# What is done with a block, by the first word after its fence; C++ is built and run by tests/docs.
BLOCKS = {
    "python": lambda block, page, rest: write_file(block, rest) if rest.startswith("file=") else run_python(block, page),
    "console": lambda block, *_: is_what_a_shell_says(block),
    "cpp": lambda block, _, rest: is_part_of_a_file(block, rest.removeprefix("from ")) if rest.startswith("from ") else None,
    "cmake": lambda block, *_: is_what_a_project_writes(block),
    "kernel": lambda block, _, rest: is_the_kernel_of(block, rest),
    "llvm": lambda block, _, rest: is_in_the_source_of(block, rest),
    "sh": lambda block, *_: names_commands_that_exist(block),
    "text": lambda *_: None,  # an image in letters
}


@pytest.mark.parametrize("page", PAGES)
def test_the_code_blocks_of_a_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for kind, rest, block in re.findall(r"^```(\S*) ?(.*)\n((?:(?!^```).*\n)*)^```$", read(page), re.M):
        assert kind in BLOCKS, f"a block of {page} begins with ```{kind}, which says nothing about how it is tried"
        BLOCKS[kind](block, page, rest)
    gc.collect()  # nets of a page are cycles, and their tensors would die in the middle of what runs next


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
