#!/usr/bin/env python3
"""tinygrad_compile.py [NET...]: how long tinygrad takes from tensors to linear kernels for the nets that `lathe bench compile`
measures: tensor graph, schedule, code generation and linearising of each unique kernel, without rendering and without the
C compiler. Prints an array of objects. Times are processor time of this thread. Nets it has no counterpart for are left out."""

import json
import os
import shutil
import sys
import time

os.environ["DEV"] = "CPU"
# Making the net's weights runs a few kernels, outside what is measured; the compiler may have a version in its name.
os.environ.setdefault("CC", next((c for c in ("clang", "clang-19", "clang-20", "clang-18") if shutil.which(c)), "clang"))

from tinygrad import Tensor, nn  # noqa: E402
from tinygrad.codegen import full_rewrite_to_sink  # noqa: E402
from tinygrad.codegen.late.linearizer import linearize  # noqa: E402
from tinygrad.device import Device  # noqa: E402
from tinygrad.uop.ops import Ops  # noqa: E402

BATCH, SIDE = 64, 224


class Bottleneck:
    def __init__(self, planes_in, planes, stride):
        self.conv1, self.norm1 = nn.Conv2d(planes_in, planes, 1, bias=False), nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, stride=stride, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(planes)
        self.conv3, self.norm3 = nn.Conv2d(planes, planes * 4, 1, bias=False), nn.BatchNorm2d(planes * 4)
        self.shortcut = None
        if stride != 1 or planes_in != planes * 4:
            self.shortcut = (nn.Conv2d(planes_in, planes * 4, 1, stride=stride, bias=False), nn.BatchNorm2d(planes * 4))

    def __call__(self, x):
        out = self.norm1(self.conv1(x)).relu()
        out = self.norm2(self.conv2(out)).relu()
        out = self.norm3(self.conv3(out))
        beside = self.shortcut[1](self.shortcut[0](x)) if self.shortcut else x
        return (out + beside).relu()


class ResNet50:
    def __init__(self):
        self.conv, self.norm = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False), nn.BatchNorm2d(64)
        self.blocks, planes_in = [], 64
        for planes, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            for i in range(count):
                self.blocks.append(Bottleneck(planes_in, planes, stride if i == 0 else 1))
                planes_in = planes * 4
        self.linear = nn.Linear(planes_in, 1000)

    def __call__(self, x):
        x = self.norm(self.conv(x)).relu().pad((1, 1, 1, 1)).max_pool2d((3, 3), 2)
        return self.linear(x.sequential(self.blocks).mean([2, 3]))


def resnet50_forward():
    net = ResNet50()
    for parameter in nn.state.get_parameters(net):
        parameter.replace(Tensor.empty(*parameter.shape, dtype=parameter.dtype))
    return net, Tensor.empty(BATCH, 3, SIDE, SIDE)


NETS = {"resnet50_forward": resnet50_forward}


def measure(name):
    net, images = NETS[name]()  # weights are not part of the measured graph
    clock = time.thread_time
    begin = clock()
    out = net(images)
    tensor = clock()
    linear = out.schedule_linear()
    schedule = clock()
    kernels = [call.src[0] for call in linear.toposort() if call.op is Ops.CALL and call.src[0].op is Ops.SINK]
    unique = {kernel.key: kernel for kernel in kernels}
    renderer = Device["CPU"].renderer
    codegen = linearizing = 0.0
    for kernel in unique.values():
        start = clock()
        sink = full_rewrite_to_sink(kernel, renderer, optimize=kernel.tag is None)
        middle = clock()
        linearize(sink)
        codegen, linearizing = codegen + middle - start, linearizing + clock() - middle
    parts = {
        "tensor_ms": (tensor - begin) * 1e3,
        "schedule_ms": (schedule - tensor) * 1e3,
        "codegen_ms": codegen * 1e3,
        "linearize_ms": linearizing * 1e3,
    }
    return {"name": name, "kernels": len(kernels), "unique_kernels": len(unique), **parts, "total_ms": sum(parts.values())}


if __name__ == "__main__":
    wanted = [name for name in sys.argv[1:] or NETS if name in NETS]
    print(json.dumps([measure(name) for name in wanted], indent=2))
