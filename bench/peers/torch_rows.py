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
        narrow = entry["dtype"] == "bfloat16"
        dtype = numpy.dtype("int16" if narrow else entry["dtype"])
        count = math.prod(entry["shape"])
        end = begin + count * dtype.itemsize
        tensor = torch.from_numpy(data[begin:end].view(dtype).reshape(entry["shape"]).copy())
        tensor = tensor.view(torch.bfloat16) if narrow else tensor
        state[entry["name"]] = tensor.cuda() if ON_GPU else tensor
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
    images, labels = state.pop("images"), state.pop("labels").long()
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
        loss = loss_of(images, labels)
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


def compiled(function, **options):
    """The function, compiled where that is this contender's job."""
    return torch.compile(function, **options) if COMPILED else function


def trained(loss_of, optimizer):
    """A training step with products in bfloat16; compared is how much the loss fell since the first one."""

    @compiled
    def narrow_loss():
        with torch.autocast("cuda" if ON_GPU else "cpu", dtype=torch.bfloat16):
            return loss_of()

    def step():
        optimizer.zero_grad()
        loss = narrow_loss()
        loss.backward()
        optimizer.step()
        return loss.detach()

    losses = [float(step()) for _ in range(STEPS_COMPARED)]
    return step, lambda places: [losses[0] - loss for loss in losses[1:]]


def parameters_of(state, buffers=()):
    """What is trained: the rest is in the state for other reasons."""
    found = [tensor for name, tensor in state.items() if tensor.is_floating_point() and not name.endswith(buffers)]
    return [tensor.requires_grad_() for tensor in found]


def gpt2_train(row, state):
    tokens, targets = state.pop("tokens").long(), state.pop("targets").long()
    fused = {"fused": True} if ON_GPU else {}
    optimizer = torch.optim.AdamW(parameters_of(state), 6e-4, betas=(0.9, 0.95), weight_decay=0.1, **fused)
    net = GPT2(state)
    return trained(lambda: F.cross_entropy(net(tokens).flatten(0, 1), targets.flatten()), optimizer)


class ResNet:
    """Of 50 layers, with weights and images in the layout that suits matrix units."""

    DEPTHS = (3, 4, 6, 3)
    BUFFERS = ("running_mean", "running_var", "num_batches_tracked")

    def __init__(self, state, training):
        self.s, self.training = state, training

    def unit(self, x, conv, norm, stride=1):
        weight = self.s[conv + ".weight"]
        x = F.conv2d(x, weight, stride=stride, padding=weight.shape[-1] // 2)
        mean, variance = (self.s[f"{norm}.{part}"] for part in self.BUFFERS[:2])
        return F.batch_norm(x, mean, variance, self.s[norm + ".weight"], self.s[norm + ".bias"], self.training)

    def block(self, x, name, stride):
        out = F.relu(self.unit(x, name + "conv1", name + "bn1"))
        out = F.relu(self.unit(out, name + "conv2", name + "bn2", stride))
        out = self.unit(out, name + "conv3", name + "bn3")
        if name + "downsample.0.weight" in self.s:
            x = self.unit(x, name + "downsample.0", name + "downsample.1", stride)
        return F.relu(out + x)

    def __call__(self, x):
        x = F.max_pool2d(F.relu(self.unit(x, "conv1", "bn1", 2)), 3, 2, 1)
        for stage, depth in enumerate(self.DEPTHS):
            for i in range(depth):
                x = self.block(x, f"layer{stage + 1}.{i}.", 2 if stage > 0 and i == 0 else 1)
        return F.linear(x.mean((2, 3)), self.s["fc.weight"], self.s["fc.bias"])


def channels_last(state):
    return {
        name: t.contiguous(memory_format=torch.channels_last) if t.dim() == 4 else t for name, t in state.items()
    }


def resnet_train(row, state):
    state = channels_last(state)
    images, labels = state.pop("images"), state.pop("labels").long()
    optimizer = torch.optim.SGD(parameters_of(state, ResNet.BUFFERS), 0.01, momentum=0.9, weight_decay=1e-4)
    net = ResNet(state, True)
    return trained(lambda: F.cross_entropy(net(images), labels), optimizer)


def resnet_forward(row, state):
    state = channels_last(state)
    images = state.pop("images")
    net = compiled(ResNet(state, False).__call__)

    @torch.no_grad()
    def run():
        return net(images)

    run()
    return run, lambda places: run().flatten()[-VALUES_COMPARED:].double().tolist()


class Llama:
    """One token at a time, with a cache of fixed size, so that a step is the same work wherever it stands."""

    HEADS, KV_HEADS, EPSILON, THETA = 32, 8, 1e-5, 500000.0

    def __init__(self, state, context):
        self.s = state
        self.layers = 1 + max(int(name.split(".")[2]) for name in state if name.startswith("model.layers."))
        table = state["model.embed_tokens.weight"]
        self.width = table.shape[1] // self.HEADS
        frequency = self.THETA ** (-torch.arange(0, self.width, 2, device=table.device).double() / self.width)
        angles = torch.arange(context, device=table.device).double()[:, None] * frequency
        self.cos, self.sin = angles.cos().to(table.dtype), angles.sin().to(table.dtype)
        shape = (self.layers, 2, 1, self.KV_HEADS, context, self.width)
        self.cache = torch.zeros(shape, dtype=table.dtype, device=table.device)
        self.places = torch.arange(context, device=table.device)

    def norm(self, x, name):
        wide = x.float()
        scaled = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.EPSILON)
        return scaled.to(x.dtype) * self.s[name + ".weight"]

    def turned(self, x, at):
        cos, sin = self.cos[at], self.sin[at]
        a, b = x.chunk(2, -1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    def __call__(self, token, at):
        x = F.embedding(token, self.s["model.embed_tokens.weight"])
        seen = (self.places <= at)[None, None, None]
        for i in range(self.layers):
            name = f"model.layers.{i}."
            normed = self.norm(x, name + "input_layernorm")
            q, k, v = (
                F.linear(normed, self.s[f"{name}self_attn.{part}_proj.weight"]).view(1, 1, -1, self.width).transpose(1, 2)
                for part in "qkv"
            )
            keys, values = self.cache[i]
            keys.index_copy_(2, at, self.turned(k, at))
            values.index_copy_(2, at, v)
            mixed = F.scaled_dot_product_attention(self.turned(q, at), keys, values, attn_mask=seen, enable_gqa=True)
            x = x + F.linear(mixed.transpose(1, 2).flatten(2), self.s[name + "self_attn.o_proj.weight"])
            normed = self.norm(x, name + "post_attention_layernorm")
            gate, up, down = (self.s[f"{name}mlp.{part}_proj.weight"] for part in ("gate", "up", "down"))
            x = x + F.linear(F.silu(F.linear(normed, gate)) * F.linear(normed, up), down)
        scores = F.linear(self.norm(x, "model.norm"), self.s["model.embed_tokens.weight"])[:, -1]
        return scores.argmax(-1, keepdim=True), scores


def llama_decode(row, state):
    context = row["sizes"][0]
    net = compiled(Llama(state, context).__call__, mode="reduce-overhead", fullgraph=True)
    some = state["model.embed_tokens.weight"]
    now = {"token": torch.full((1, 1), 5, device=some.device), "at": 0}

    @torch.no_grad()
    def step():
        at = torch.full((1,), now["at"], device=some.device)
        token, scores = net(now["token"], at)
        now["token"], now["at"] = token.clone(), (now["at"] + 1) % context
        return scores

    for i in range(STEPS_COMPARED):
        last = step()[0, -VALUES_COMPARED:].double().tolist()
        now["token"] = torch.full((1, 1), 6 + i, device=some.device)
    return step, lambda places: last


NETS = {
    "demo": demo,
    "gpt2": forward,
    "bert": forward,
    "gpt2_train": gpt2_train,
    "resnet_train": resnet_train,
    "resnet_forward": resnet_forward,
    "llama_decode": llama_decode,
}


def prepare(row, folder):
    torch.set_num_threads(row["threads"])
    if row["net"]:
        return NETS[row["kind"]](row, read_state(folder))
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
