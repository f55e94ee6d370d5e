"""python -m lathe.bench [--json]: how quick the package is to import, to build graphs, to replay and to start cold,
compared with PyTorch and tinygrad if they are installed. Every figure is the best of several runs, in one session.

python -m lathe.bench --beside FOLDER: import, graphs and replays compared with another build, whose package is in FOLDER
(build/<preset>/python of another checkout), the two in turn; --within 1.05 fails where this one takes longer than that."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time


def best(function, repeats):
    """The least number of seconds a call took."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        function()
        times.append(time.perf_counter() - begin)
    return min(times)


def graph_building(count=2000):
    """Microseconds an `a + b` on small tensors takes to build."""
    from lathe import Tensor

    a, b = Tensor([1.0, 2.0, 3.0]).realize(), Tensor([4.0, 5.0, 6.0]).realize()

    def build():
        for _ in range(count):
            a + b

    return best(build, 20) / count * 1e6


def replaying(kernels=100):
    """Microseconds a kernel of a captured step of tiny kernels takes."""
    from lathe import Tensor, TinyJit

    @TinyJit
    def step(x):
        for _ in range(kernels):
            x = (x + 1).contiguous().realize()
        return x

    x = Tensor([1.0, 2.0, 3.0]).realize()
    for _ in range(4):
        step(x)

    def replay():
        for _ in range(20):
            step(x).realize()

    return best(replay, 20) / 20 / step.kernels * 1e6


def process_time(code, python=sys.executable, repeats=5, **environment):
    """Seconds a process takes that runs the code; None where it fails."""
    env = {**os.environ, **environment}

    def run():
        subprocess.run([python, "-c", code], env=env, check=True, capture_output=True)

    try:
        return best(run, repeats)
    except (subprocess.CalledProcessError, OSError):
        return None


MLP = """
from {module} import Tensor
from {module}.nn import Linear
layers = [Linear(64, 128), Linear(128, 128), Linear(128, 10)]
x = Tensor.rand(32, 64)
for l in layers[:2]: x = l(x).relu()
loss = layers[2](x).square().mean()
grads = loss.gradient(*[l.weight for l in layers])
Tensor.realize(loss, *grads)
print(loss.item(), grads[0].sum().item())
"""
TORCH_MLP = """
import torch
layers = [torch.nn.Linear(64, 128), torch.nn.Linear(128, 128), torch.nn.Linear(128, 10)]
x = torch.rand(32, 64)
for l in layers[:2]: x = l(x).relu()
loss = layers[2](x).square().mean()
loss.backward()
print(loss.item(), layers[0].weight.grad.sum().item())
"""


def importing(repeats=15):
    """Milliseconds that `import lathe` adds to a process."""
    return 1000 * (process_time("import lathe", repeats=repeats) - process_time("pass", repeats=repeats))


# What every program does many times, or once before anything else.
CALLS = {"graph_us_per_op": graph_building, "replay_us_per_kernel": replaying, "import_ms": importing}


def calls_of(folder):
    """The figures of CALLS of the package in a folder, in a process of their own. Only this file is run there: that package may be
    older than it."""
    env = {**os.environ, "PYTHONPATH": folder}
    program = f"import runpy, sys; sys.argv = ['bench', '--calls', '--json']; runpy.run_path({os.path.abspath(__file__)!r}, run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", program], cwd="/", env=env, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def beside(folder, rounds):
    """Rows of name, figure of the other package, figure of this one and their ratio: the best of rounds in turn, as both see the
    same machine then."""
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    best_of = [{}, {}]
    for _ in range(rounds):
        for figures, place in zip(best_of, (folder, here)):
            for name, value in calls_of(place).items():
                figures[name] = min(value, figures.get(name, value))
    other, own = best_of
    return [(name, other[name], own[name], own[name] / other[name]) for name in CALLS]


def peer_python():
    """A Python with the peers: that of .venv-peers, or this one."""
    for folder in (".", "../..", os.path.join(os.path.dirname(__file__), "../../../..")):
        candidate = os.path.join(folder, ".venv-peers", "bin", "python")
        if os.path.exists(candidate):
            return candidate
    return sys.executable


def clang():
    """The C compiler tinygrad asks for, under the names distributions give it."""
    return next((found for v in ("", "-20", "-19", "-18") if (found := shutil.which(f"clang{v}"))), None)


def measure(repeats=5):
    """All figures by name."""
    python = peer_python()
    figures = {
        **{name: measured() for name, measured in CALLS.items()},
        "cold_mlp_s": process_time(MLP.format(module="lathe"), repeats=repeats, LATHE_CACHE="off"),
        "warm_mlp_s": process_time(MLP.format(module="lathe"), repeats=repeats),
        "torch_mlp_s": process_time(TORCH_MLP, python, repeats),
        "tinygrad_mlp_s": process_time(
            MLP.format(module="tinygrad"), python, min(repeats, 2), CACHELEVEL="0", CC=clang() or "clang"
        ),
    }
    for peer in ("torch", "tinygrad"):
        if figures[f"{peer}_mlp_s"]:
            figures[f"cold_mlp_times_quicker_than_{peer}"] = figures[f"{peer}_mlp_s"] / figures["cold_mlp_s"]
    return figures


def main():
    parser = argparse.ArgumentParser(prog="lathe bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    parser.add_argument("--repeats", type=int, default=5, help="runs that the best is taken of")
    parser.add_argument("--calls", action="store_true", help="import, graphs and replays alone")
    parser.add_argument("--beside", metavar="FOLDER", help="compare these with the package there")
    parser.add_argument("--within", type=float, metavar="RATIO", help="with --beside: fail where this package takes longer than that")
    args = parser.parse_args()
    if args.beside:
        if not os.path.isdir(os.path.join(args.beside, "lathe")):
            parser.error(f"--beside: there is no package lathe in {args.beside}; build/<preset>/python of a checkout has one")
        rows = beside(os.path.abspath(args.beside), args.repeats)
        if args.json:
            print(json.dumps([dict(zip(("name", "other", "own", "ratio"), row)) for row in rows], indent=2))
        else:
            print(f"{'':24}{'there':>10}{'here':>10}{'ratio':>8}")
            for name, other, own, ratio in rows:
                print(f"{name:24}{other:>10.4g}{own:>10.4g}{ratio:>8.3f}")
        slow = [name for name, _, _, ratio in rows if args.within and ratio > args.within]
        sys.exit(f"lathe bench: {', '.join(slow)} took longer than {args.within} times as long" if slow else 0)
    figures = {name: measured() for name, measured in CALLS.items()} if args.calls else measure(args.repeats)
    if args.json:
        print(json.dumps(figures, indent=2))
        return
    for name, value in figures.items():
        print(f"{name:36} {'not installed' if value is None else f'{value:.4g}'}")


if __name__ == "__main__":
    main()
