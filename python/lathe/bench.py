"""python -m lathe.bench [--json]: how quick the package is to import, to build graphs, to replay and to start cold,
beside PyTorch and tinygrad where they are installed. Everything is the best of several runs, in one session."""

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


def peer_python():
    """An interpreter with the peers: that of .venv-peers beside the program, or this one."""
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
    bare = process_time("pass", repeats=3 * repeats)
    figures = {
        "graph_us_per_op": graph_building(),
        "replay_us_per_kernel": replaying(),
        "import_ms": 1000 * (process_time("import lathe", repeats=3 * repeats) - bare),
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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    figures = measure(args.repeats)
    if args.json:
        print(json.dumps(figures, indent=2))
        return
    for name, value in figures.items():
        print(f"{name:36} {'not installed' if value is None else f'{value:.4g}'}")


if __name__ == "__main__":
    main()
