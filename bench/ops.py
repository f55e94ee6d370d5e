"""Ops one by one beside PyTorch: make peers, then PYTHONPATH=build/release/python .venv-peers/bin/python bench/ops.py [parts of names]

Each case runs captured in Lathe and eagerly in PyTorch on the same inputs and as many threads, in turn; results are compared,
and the best call of either counts. Rows of `lathe bench cpu` are measured with more care; this looks for ops that are slow.
"""

import argparse
import json
import os
import time

import numpy as np
import torch
import torch.nn.functional as F

from lathe import Tensor, TinyJit, dtypes

RANDOM = np.random.default_rng(0)
CASES = {}


def floats(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def whole(high, *shape):
    return RANDOM.integers(0, high, shape).astype(np.int32)


def case(name, ours, theirs, *inputs, tolerance=2e-3):
    """A function of Lathe's tensors, the same of PyTorch's, and the inputs of both."""
    CASES[name] = (ours, theirs, inputs, tolerance)


def both(name, function, *inputs, tolerance=2e-3):
    case(name, function, function, *inputs, tolerance=tolerance)


def gradient(name, ours, theirs, *inputs):
    """The gradients of the sum of squares with respect to every input of floats."""

    def of_lathe(*xs):
        xs = [x.detach().requires_grad_() if x.dtype == dtypes.float32 else x for x in xs]
        ours(*xs).square().sum().backward()
        return tuple(x.grad for x in xs if x.requires_grad)

    def of_torch(*xs):
        with torch.enable_grad():
            xs = [x.detach().clone().requires_grad_() if x.dtype == torch.float32 else x for x in xs]
            theirs(*xs).square().sum().backward()
        return tuple(x.grad for x in xs if x.requires_grad)

    case("gradient_" + name, of_lathe, of_torch, *inputs, tolerance=1e-2)


def convolution(name, x, w, **options):
    spatial = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}[x.ndim]
    case(name, lambda a, b: a.conv2d(b, **options), lambda a, b: spatial(a, b, **options), x, w)


def convolutions():
    convolution("depthwise3x3_32x112", floats(4, 32, 112, 112), floats(32, 1, 3, 3), padding=1, groups=32)
    convolution("depthwise3x3_every2_96x112", floats(4, 96, 112, 112), floats(96, 1, 3, 3), padding=1, stride=2, groups=96)
    convolution("depthwise5x5_240x28", floats(4, 240, 28, 28), floats(240, 1, 5, 5), padding=2, groups=240)
    convolution("depthwise7x7_768x7", floats(4, 768, 7, 7), floats(768, 1, 7, 7), padding=3, groups=768)
    convolution("depthwise7x7_96x56", floats(4, 96, 56, 56), floats(96, 1, 7, 7), padding=3, groups=96)
    convolution("grouped3x3_32_128x56", floats(2, 128, 56, 56), floats(128, 4, 3, 3), padding=1, groups=32)
    convolution("grouped3x3_4_256x28", floats(4, 256, 28, 28), floats(256, 64, 3, 3), padding=1, groups=4)
    convolution("dilated3x3_64x56", floats(4, 64, 56, 56), floats(64, 64, 3, 3), padding=2, dilation=2)
    convolution("first3x3_3-32x224", floats(2, 3, 224, 224), floats(32, 3, 3, 3), padding=1)
    convolution("patches16x16_3-768x224", floats(4, 3, 224, 224), floats(768, 3, 16, 16), stride=16)
    convolution("conv3x3_512x7_b1", floats(1, 512, 7, 7), floats(512, 512, 3, 3), padding=1)
    convolution("conv1d_9_128x4096", floats(4, 128, 4096), floats(128, 128, 9), padding=4)
    convolution("conv3d_3_16-32x16x32x32", floats(2, 16, 16, 32, 32), floats(32, 16, 3, 3, 3), padding=1)
    for name, x, w, options in [("4x4", floats(4, 128, 32, 32), floats(128, 64, 4, 4), {"stride": 2, "padding": 1}), ("2x2", floats(4, 128, 56, 56), floats(128, 64, 2, 2), {"stride": 2})]:
        case("transposed" + name, lambda a, b, o=options: a.conv_transpose2d(b, **o), lambda a, b, o=options: F.conv_transpose2d(a, b, **o), x, w)
    pad = {"padding": 1}
    gradient("conv3x3_64x56", lambda a, b: a.conv2d(b, **pad), lambda a, b: F.conv2d(a, b, **pad), floats(4, 64, 56, 56), floats(64, 64, 3, 3) * 0.05)
    gradient("depthwise3x3_96x56", lambda a, b: a.conv2d(b, groups=96, **pad), lambda a, b: F.conv2d(a, b, groups=96, **pad), floats(4, 96, 56, 56), floats(96, 1, 3, 3))
    gradient("max_pool2", lambda a: a.max_pool2d(2), lambda a: F.max_pool2d(a, 2), floats(8, 64, 56, 56))
    gradient("max_pool3_every2", lambda a: a.max_pool2d(3, stride=2, padding=1), lambda a: F.max_pool2d(a, 3, 2, 1), floats(8, 64, 56, 56))
    case("max_pool3_every2", lambda a: a.max_pool2d(3, stride=2, padding=1), lambda a: F.max_pool2d(a, 3, 2, 1), floats(8, 64, 112, 112))
    case("bilinear_2", lambda a: a.interpolate((112, 112)), lambda a: F.interpolate(a, (112, 112), mode="bilinear"), floats(4, 64, 56, 56))


def scans_and_places():
    both("cumsum_rows_4096x4096", lambda a: a.cumsum(1), floats(4096, 4096), tolerance=1e-2)
    both("cumsum_columns_4096x4096", lambda a: a.cumsum(0), floats(4096, 4096), tolerance=1e-2)
    both("cumprod_1024x1024", lambda a: a.cumprod(1), 1 + 0.01 * floats(1024, 1024))
    both("logcumsumexp_1024x1024", lambda a: a.logcumsumexp(1), floats(1024, 1024))
    both("sort_rows_1024x1000", lambda a: a.sort(1)[0], floats(1024, 1000))
    both("sort_1M", lambda a: a.sort(0)[0], floats(1_000_000))
    both("topk10_256x32000", lambda a: a.topk(10)[0], floats(256, 32000))
    case("gather_columns", lambda a, i: a.gather(1, i), lambda a, i: a.gather(1, i.long()), floats(4096, 1024), whole(1024, 4096, 1024))
    case("take_1M", lambda a, i: a[i], lambda a, i: a[i.long()], floats(1_000_000), whole(1_000_000, 1_000_000))
    case("scatter_add_1M_to_10k", lambda a, i, s: a.scatter_reduce(0, i, s, "sum"), lambda a, i, s: a.scatter_add(0, i.long(), s), floats(10_000), whole(10_000, 1_000_000), floats(1_000_000), tolerance=1e-2)
    places = np.stack([RANDOM.permutation(1024)[:512] for _ in range(1024)]).astype(np.int32)
    case("scatter_rows", lambda a, i, s: a.scatter(1, i, s), lambda a, i, s: a.scatter(1, i.long(), s), floats(1024, 1024), places, floats(1024, 512))
    gradient("embedding_30k_x768", lambda w, i: w[i], lambda w, i: F.embedding(i.long(), w), floats(30000, 768), whole(30000, 8, 512))


def movement():
    both("transpose_4096", lambda a: a.transpose(0, 1).contiguous(), floats(4096, 4096))
    both("planes_to_pixels_64", lambda a: a.permute(0, 2, 3, 1).contiguous(), floats(16, 64, 56, 56))
    both("pixels_to_planes_3", lambda a: a.permute(0, 3, 1, 2).contiguous(), floats(16, 224, 224, 3))
    both("heads", lambda a: a.permute(0, 2, 1, 3).contiguous(), floats(8, 512, 12, 64))
    case("cat_4", lambda *t: t[0].cat(*t[1:], dim=1), lambda *t: torch.cat(t, 1), *[floats(2048, 1024) for _ in range(4)])
    case("stack_last_4", lambda *t: Tensor.stack(*t, dim=-1), lambda *t: torch.stack(t, -1), *[floats(1_000_000) for _ in range(4)])
    case("pad", lambda a: a.pad((3, 3, 3, 3)), lambda a: F.pad(a, (3, 3, 3, 3)), floats(16, 64, 56, 56))
    case("pad_reflect", lambda a: a.pad((3, 3, 3, 3), mode="reflect"), lambda a: F.pad(a, (3, 3, 3, 3), mode="reflect"), floats(16, 64, 56, 56))
    both("windows_3", lambda a: a.unfold(2, 3, 1).contiguous(), floats(8, 64, 56, 56))
    both("every_third", lambda a: a[:, ::3].contiguous(), floats(4096, 4096))


def reduces():
    for name, shape, axis in [("middle", (64, 512, 256), 1), ("rows_333", (10007, 333), 1), ("columns_333", (10007, 333), 0), ("three_columns", (1_000_003, 3), 0), ("three_rows", (3, 1_000_003), 1), ("all_odd", (7_000_001,), 0)]:
        both("sum_" + name, lambda a, axis=axis: a.sum(axis), floats(*shape), tolerance=2e-2)
    case("argmax_rows", lambda a: a.argmax(1), lambda a: a.argmax(1).int(), floats(1024, 32000))
    both("var_rows", lambda a: a.var(1), floats(4096, 1024))
    both("logsumexp_rows", lambda a: a.logsumexp(1), floats(4096, 1000))
    both("softmax_rows_1001", lambda a: a.softmax(1), floats(4096, 1001))
    both("softmax_columns", lambda a: a.softmax(0), floats(1000, 4096))
    case("group_norm32", lambda a: a.reshape(4, 32, -1).layernorm().reshape(4, 256, 56, 56), lambda a: F.group_norm(a, 32), floats(4, 256, 56, 56))
    case("cross_entropy", lambda a, t: a.sparse_categorical_crossentropy(t), lambda a, t: F.cross_entropy(a, t.long()), floats(512, 50257), whole(50257, 512))
    gradient("softmax", lambda a: a.softmax(-1), lambda a: a.softmax(-1), floats(4096, 1000))
    gradient("layernorm", lambda a: a.layernorm(), lambda a: F.layer_norm(a, (768,)), floats(4096, 768))


def elementwise_and_products():
    for name in ("exp", "log", "sin", "tanh", "sigmoid", "erf", "sqrt"):
        case(name + "_8M", lambda a, n=name: getattr(a, n)(), lambda a, n=name: getattr(torch, n)(a), RANDOM.random(8_000_000, dtype=np.float32) + 0.1)
    case("gelu_8M", lambda a: a.gelu(), lambda a: F.gelu(a, approximate="tanh"), floats(8_000_000))
    both("plus_transposed", lambda a, b: a + b.T, floats(2048, 2048), floats(2048, 2048))
    for name, a, b in [("1x4096x4096", (1, 4096), (4096, 4096)), ("4x4096x4096", (4, 4096), (4096, 4096)), ("7x777x777", (7, 777), (777, 777)), ("513x511x509", (513, 511), (511, 509)), ("100000x64x8", (100000, 64), (64, 8)), ("batch64_77x64x77", (64, 77, 64), (64, 64, 77)), ("batch4096_4x4x4", (4096, 4, 4), (4096, 4, 4))]:
        both("product_" + name, lambda x, y: x @ y, floats(*a), floats(*b), tolerance=1e-2)
    qkv = [floats(4, 12, 197, 64) for _ in range(3)]
    case("attention_197", lambda q, k, v: q.scaled_dot_product_attention(k, v), F.scaled_dot_product_attention, *qkv)
    gradient("attention_512_causal", lambda q, k, v: q.scaled_dot_product_attention(k, v, is_causal=True), lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), *[floats(2, 8, 512, 64) for _ in range(3)])

    def lstm_cell(x, h, c, w, u):
        i, f, o, g = (x @ w.T + h @ u.T).chunk(4, 1)
        cell = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * cell.tanh(), cell

    both("lstm_cell_64x512", lstm_cell, floats(64, 512), floats(64, 512), floats(64, 512), floats(2048, 512) * 0.05, floats(2048, 512) * 0.05)


def as_tuple(result):
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def difference(ours, theirs):
    """The largest difference, relative to the largest value of PyTorch's."""
    worst = 0.0
    for a, b in zip(as_tuple(ours), as_tuple(theirs)):
        a, b = a.numpy().astype(np.float64), b.numpy().astype(np.float64)
        if a.shape != b.shape:
            return float("inf")
        worst = max(worst, float(np.abs(a - b).max()) / max(1.0, float(np.abs(b).max())))
    return worst


def seconds(function, inputs):
    begin = time.perf_counter()
    function(*inputs)
    return time.perf_counter() - begin


def measure(name, time_limit):
    ours, theirs, inputs, tolerance = CASES[name]

    @TinyJit
    def captured(*xs):
        out = as_tuple(ours(*xs))
        Tensor.realize(*out)
        return out

    mine = [Tensor(x).realize() for x in inputs]
    other = [torch.from_numpy(np.ascontiguousarray(x)) for x in inputs]
    for _ in range(3):
        result = captured(*mine)
    off = difference(result, theirs(*other))
    best_mine = best_other = float("inf")
    end = time.perf_counter() + time_limit
    while time.perf_counter() < end:
        best_mine = min(best_mine, *(seconds(captured, mine) for _ in range(3)))
        best_other = min(best_other, *(seconds(theirs, other) for _ in range(3)))
    return {"name": name, "lathe": best_mine * 1e3, "peer": best_other * 1e3, "peer_name": "torch", "unit": "ms", "ratio": best_other / best_mine, "agrees": off <= tolerance}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help="only cases with one of these in their names")
    parser.add_argument("--seconds", type=float, default=0.5, help="for each case")
    parser.add_argument("--json", action="store_true", help="print an array of objects")
    options = parser.parse_args()
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    torch.set_grad_enabled(False)
    for make in (convolutions, scans_and_places, movement, reduces, elementwise_and_products):
        make()
    names = [n for n in CASES if not options.parts or any(p in n for p in options.parts)]
    if not names:
        parser.error(f"no case has {' or '.join(options.parts)} in its name; there are {', '.join(CASES)}")
    rows = []
    for name in names:
        row = measure(name, options.seconds)
        rows.append(row)
        if not options.json:
            print(f"{name:30s} {row['lathe']:9.3f} ms {row['peer']:9.3f} ms torch {row['ratio']:7.2f}{'' if row['agrees'] else '  results differ'}", flush=True)
    if options.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
