"""Kernel options attached to a tensor, a kernel written by hand, and an op with a gradient of its own.

  python examples/custom_kernel.py
"""

import time

from lathe import KernelOptError, Opt, OptOps, Tensor, set_options
from lathe.autograd import register_op


def options(size=512):
    """The same product with the heuristic's options and with ours; equal results, each with its time."""
    results = {}
    for name, opts in {
        "heuristic": None,
        "none": [],
        "upcast": [Opt(OptOps.UPCAST, 1, 16), Opt(OptOps.UPCAST, 0, 4)],
    }.items():
        # Fresh memory each time: what was computed from the same tensors before would be taken as it is.
        Tensor.manual_seed(1)
        a, b = Tensor.rand(size, size).realize(), Tensor.rand(size, size).realize()
        out = a @ b
        if opts is not None:
            set_options(out, opts)
        begin = time.perf_counter()
        out.realize()
        results[name] = out
        print(f"{name:10} {1000 * (time.perf_counter() - begin):8.2f} ms with compiling")
    for out in results.values():
        assert out.allclose(results["heuristic"], rtol=1e-3)
    try:
        set_options(results["heuristic"] + 1, [Opt(OptOps.UPCAST, 7, 4)]).realize()
    except KernelOptError as error:
        print(f"refused: {str(error).splitlines()[0]}")


def by_hand(n=8):
    """Row sums, as ranges, loads, a reduce and a store."""
    x = Tensor.arange(n * n).float().reshape(n, n).realize()

    def body(k):
        row, column = k.range(n), k.reduce_range(n)
        k.store(0, row, k.reduce("Add", k.load(1, row * n + column), column))

    out = Tensor.empty(n).custom_kernel(x, fxn=body)[0]
    assert out.allclose(x.sum(axis=1))


def own_op():
    """A square root whose gradient is finite at 0."""
    safe_sqrt = register_op(
        "safe_sqrt", Tensor.sqrt, lambda inputs, output, grad: [(output > 0).where(grad / (2 * output), 0.0)]
    )
    x = Tensor([0.0, 4.0], requires_grad=True)
    safe_sqrt(x).sum().backward()
    print("gradient", x.grad.tolist())
    return x.grad.tolist()


def main(size=512):
    options(size)
    by_hand()
    return own_op()


if __name__ == "__main__":
    main()
