#!/usr/bin/env python3
"""PyTorch as a contender of `lathe bench cpu` and `lathe bench cuda`: answers a line of JSON with a line of JSON, as tools/lathe/bench_cpu_child.cpp
says. Any PyTorch will do; what an older one lacks is skipped."""

import json
import math
import os
import sys
import time

import numpy
import torch
import torch.nn.functional as F
from torch import nn

VALUES_COMPARED = 64
STEPS_COMPARED = 3
QUEUED_SECONDS, MOST_QUEUED, FEWEST_TURNS = 0.004, 256, 5
ON_GPU = os.environ.get("LATHE_DEVICE", "").startswith("CUDA")
COMPILED = os.environ.get("LATHE_TORCH_COMPILE") == "1"
NUMPY = {"f32": numpy.float32, "tf32": numpy.float32, "e4m3": numpy.uint8, "f16": numpy.float16, "bf16": numpy.int16, "s8": numpy.int8, "u8": numpy.uint8}


def copies_of(row, folder, number, shape):
    """One input as a list of its copies."""
    dtype = row["dtypes"][number]
    flat = numpy.fromfile(f"{folder}/in{number}", NUMPY[dtype])
    tensor = torch.from_numpy(flat).reshape(-1, *shape)
    if dtype in ("bf16", "e4m3"):
        tensor = tensor.view(torch.bfloat16 if dtype == "bf16" else torch.float8_e4m3fn)
    return [part.cuda() if ON_GPU else part.clone() for part in tensor]


class Skip(Exception):
    pass


def gemm(row):
    turned = [letter == "t" for letter in row["variant"]]
    torch.backends.cuda.matmul.allow_tf32 = row["dtype"] == "tf32"
    one = torch.ones((), device="cuda") if row["dtype"] == "e4m3" and ON_GPU else None

    def run(a, b):
        a, b = (x.transpose(1, 2) if t else x for x, t in zip((a, b), turned))
        if row["sizes"][0] == 1:
            a, b = a[0], b[0]
        if row["dtype"] == "s8":
            if not hasattr(torch, "_int_mm"):
                raise Skip("no product of int8")
            return torch._int_mm(a, b)
        if row["dtype"] == "e4m3":
            if b.stride(0) != 1:
                b = b.t().contiguous().t()
            return torch._scaled_mm(a, b, one, one, out_dtype=torch.bfloat16)
        return torch.matmul(a, b)

    return run


def attention(row):
    length = row["sizes"][1]
    above = torch.ones(length, length, dtype=torch.bool).triu(1)

    def parts(q, k, v):
        scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(q.shape[-1])
        return torch.bmm(torch.softmax(scores.masked_fill(above, -math.inf), -1), v)

    def fused(q, k, v):
        causal = row["variant"] != "full"
        return F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=causal)[0]

    if row["variant"] == "full":
        return fused
    if row["variant"] == "fused" and not hasattr(F, "scaled_dot_product_attention"):
        raise Skip("no fused attention")
    return fused if row["variant"] == "fused" else parts


def matvec(row):
    if row["dtype"] == "f32":
        return lambda w, x: torch.mv(w, x)
    if row["dtype"] == "bf16":
        return lambda w, x: torch.mv(w, x.to(torch.bfloat16)).float()
    raise Skip("no product of these weights with a float vector")


def layernorm_backward(row):
    """With the mean and the scale of the forward pass at hand."""
    kept = {}

    def run(x, g):
        size = list(x.shape[-1:])
        if x.data_ptr() not in kept:
            kept[x.data_ptr()] = torch.ops.aten.native_layer_norm(x, size, None, None, 1e-5)[1:]
        mean, scale = kept[x.data_ptr()]
        return torch.ops.aten.native_layer_norm_backward(g, x, size, mean, scale, None, None, [True, False, False])[0]

    if COMPILED:
        raise Skip("it is one call")
    return run


def tiny(row):
    """A kernel a step, in a CUDA graph where there is a GPU: the one way in which starting them costs little."""
    if COMPILED:
        raise Skip("it would be one kernel")

    def steps(x):
        for _ in range(row["sizes"][2]):
            x = x + 1.0
        return x

    if not ON_GPU:
        return steps
    captured = {}

    def run(x):
        if not captured:
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                steps(x)
            torch.cuda.current_stream().wait_stream(side)
            captured["graph"] = torch.cuda.CUDAGraph()
            with torch.cuda.graph(captured["graph"]):
                captured["out"] = steps(x)
        captured["graph"].replay()
        return captured["out"]

    return run


def refuse(row):
    raise Skip("no product of these weights")


KINDS = {
    "gemm": gemm,
    "conv": lambda row: lambda x, w: F.conv2d(x, w, stride=row["sizes"][6], padding=row["sizes"][7]),
    "conv_input_gradient": lambda row: lambda x, w, g: torch.nn.grad.conv2d_input(
        x.shape, w, g, stride=row["sizes"][6], padding=row["sizes"][7]
    ),
    "conv_weight_gradient": lambda row: lambda x, w, g: torch.nn.grad.conv2d_weight(
        x, w.shape, g, stride=row["sizes"][6], padding=row["sizes"][7]
    ),
    "chain": lambda row: lambda x: torch.relu((x * 1.5 + 0.5) * x - 0.25),
    "sum_all": lambda row: lambda x: x.sum().reshape(1),
    "sum_rows": lambda row: lambda x: x.sum(1),
    "sum_columns": lambda row: lambda x: x.sum(0),
    "layernorm": lambda row: lambda x: F.layer_norm(x, x.shape[-1:]),
    "softmax": lambda row: lambda x: torch.softmax(x, -1),
    "softmax_backward": lambda row: lambda y, g: torch._softmax_backward_data(g, y, -1, y.dtype),
    "layernorm_backward": layernorm_backward,
    "matvec": matvec,
    "tiny": tiny,
    "matvec_q4q8": refuse,
    "attention": attention,
}


def read_state(folder):
    with open(f"{folder}/state.json", encoding="utf-8") as file:
        names = json.load(file)
    data = numpy.fromfile(f"{folder}/state", numpy.uint8)
    state, begin = {}, 0
    for entry in names:
        dtype = numpy.dtype(entry["dtype"])
        count = math.prod(entry["shape"])
        end = begin + count * dtype.itemsize
        state[entry["name"]] = torch.from_numpy(data[begin:end].view(dtype).reshape(entry["shape"]).copy())
        begin = end
    return state


def attend(q, k, v, heads, causal):
    split = [x.reshape(x.shape[0], x.shape[1], heads, -1).transpose(1, 2) for x in (q, k, v)]
    if hasattr(F, "scaled_dot_product_attention"):
        mixed = F.scaled_dot_product_attention(*split, is_causal=causal)
    else:
        scores = split[0] @ split[1].transpose(-1, -2) / math.sqrt(split[0].shape[-1])
        if causal:
            above = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
            scores = scores.masked_fill(above, -math.inf)
        mixed = torch.softmax(scores, -1) @ split[2]
    return mixed.transpose(1, 2).reshape(q.shape)


class GPT2:
    def __init__(self, state):
        self.s = state
        self.layers = 1 + max(int(name.split(".")[1]) for name in state if name.startswith("h."))

    def linear(self, x, name):
        return F.linear(x, self.s[name + ".weight"], self.s[name + ".bias"])

    def norm(self, x, name):
        return F.layer_norm(x, x.shape[-1:], self.s[name + ".weight"], self.s[name + ".bias"])

    def __call__(self, tokens):
        table = self.s["wte.weight"]
        x = F.embedding(tokens, table) + self.s["wpe.weight"][: tokens.shape[1]]
        for i in range(self.layers):
            name = f"h.{i}."
            q, k, v = self.linear(self.norm(x, name + "ln_1"), name + "attn.c_attn").chunk(3, -1)
            x = x + self.linear(attend(q, k, v, 12, True), name + "attn.c_proj")
            up = self.linear(self.norm(x, name + "ln_2"), name + "mlp.c_fc")
            x = x + self.linear(F.gelu(up, approximate="tanh"), name + "mlp.c_proj")
        return F.linear(self.norm(x, "ln_f"), table)


class Bert(GPT2):
    def __init__(self, state):
        self.s = state
        self.layers = 12

    def norm(self, x, name):
        return F.layer_norm(x, x.shape[-1:], self.s[name + ".weight"], self.s[name + ".bias"], 1e-12)

    def __call__(self, tokens):
        s = self.s
        x = F.embedding(tokens, s["bert.embeddings.word_embeddings.weight"])
        x = x + s["bert.embeddings.position_embeddings.weight"][: tokens.shape[1]]
        x = x + F.embedding(torch.zeros_like(tokens), s["bert.embeddings.token_type_embeddings.weight"])
        x = self.norm(x, "bert.embeddings.LayerNorm")
        for i in range(self.layers):
            name = f"bert.encoder.layer.{i}."
            q, k, v = (self.linear(x, name + "attention.self." + part) for part in ("query", "key", "value"))
            mixed = self.linear(attend(q, k, v, 12, False), name + "attention.output.dense")
            x = self.norm(x + mixed, name + "attention.output.LayerNorm")
            up = F.gelu(self.linear(x, name + "intermediate.dense"))
            x = self.norm(x + self.linear(up, name + "output.dense"), name + "output.LayerNorm")
        return x


def demo_net():
    return nn.Sequential(
        nn.Conv2d(1, 32, 5), nn.ReLU(), nn.Conv2d(32, 32, 5), nn.ReLU(), nn.BatchNorm2d(32), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU(), nn.BatchNorm2d(64), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(576, 10))


DEMO_LAYERS = {"conv1": 0, "conv2": 2, "norm1": 4, "conv3": 6, "conv4": 8, "norm2": 10, "linear": 13}


def demo(row, state):
    pictures, labels = state.pop("pictures"), state.pop("labels").long()
    net = demo_net()
    renamed = {}
    for name, value in state.items():
        layer, part = name.split(".", 1)
        renamed[f"{DEMO_LAYERS[layer]}.{part}"] = value
    net.load_state_dict(renamed, strict=False)
    optimizer = torch.optim.Adam(net.parameters())

    def loss_of(x, y):
        return F.cross_entropy(net(x * (1.0 / 255)), y)

    if row["variant"] == "compiled":
        if not hasattr(torch, "compile"):
            raise Skip("no compiler")
        loss_of = torch.compile(loss_of)

    def step():
        optimizer.zero_grad()
        loss = loss_of(pictures, labels)
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    values = [step() for _ in range(STEPS_COMPARED)][-1:]
    return step, lambda places: values


def forward(row, state):
    tokens = state.pop("tokens").long()
    net = GPT2(state) if row["kind"] == "gpt2" else Bert(state)

    @torch.no_grad()
    def run():
        return net(tokens)

    return run, lambda places: run().flatten()[-VALUES_COMPARED:].double().tolist()


def prepare(row, folder):
    torch.set_num_threads(row["threads"])
    if row["kind"] == "demo":
        return demo(row, read_state(folder))
    if row["kind"] in ("gpt2", "bert"):
        return forward(row, read_state(folder))
    call = KINDS[row["kind"]](row)
    if COMPILED:
        call = torch.compile(call)
    inputs = [copies_of(row, folder, i, shape) for i, shape in enumerate(row["shapes"])]
    turn = [0]

    @torch.no_grad()
    def run():
        at, turn[0] = turn[0], turn[0] + 1
        return call(*(copies[at % len(copies)] for copies in inputs))

    def result(places):
        turn[0] = 0
        out = run().flatten()
        return out[torch.tensor(places, device=out.device)].double().tolist()

    run()
    return run, result


def wait():
    if ON_GPU:
        torch.cuda.synchronize()


def queued_runs(run, seconds):
    """The middle of several turns, each of runs that are waited for once."""
    run()
    wait()
    start = time.perf_counter()
    run()
    wait()
    queued = min(max(int(QUEUED_SECONDS / max(time.perf_counter() - start, 1e-7)), 1), MOST_QUEUED)
    turns, begin = [], time.perf_counter()
    while time.perf_counter() - begin < seconds or (
            len(turns) < FEWEST_TURNS and time.perf_counter() - begin < 4 * seconds):
        start = time.perf_counter()
        for _ in range(queued):
            run()
        wait()
        turns.append((time.perf_counter() - start) / queued)
    return {"median": sorted(turns)[len(turns) // 2], "runs": len(turns) * queued}


def serve():
    run = result = None
    for line in sys.stdin:
        question = json.loads(line)
        try:
            if question["do"] == "prepare":
                run = result = None
                run, result = prepare(question["row"], question["folder"])
                reply = {"version": torch.__version__}
            elif question["do"] == "queue":
                reply = queued_runs(run, question["seconds"])
            elif question["do"] == "run":
                best, runs, begin = math.inf, 0, time.perf_counter()
                while runs == 0 or time.perf_counter() - begin < question["seconds"]:
                    start = time.perf_counter()
                    run()
                    best = min(best, time.perf_counter() - start)
                    runs += 1
                reply = {"best": best, "runs": runs}
            else:
                reply = {"values": result(question["places"])}
        except Skip as why:
            reply = {"skip": str(why)}
        except Exception as error:  # whatever a library throws is an answer
            reply = {"error": f"{type(error).__name__}: {error}"[:500]}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "2")
    serve()
