"""What PyTorch makes of the nets that against_torch_test.cpp wrote: against_torch.py FOLDER. Of NAME.safetensors (inputs
"input.0", ..., weights by their names; as metadata the class and its arguments) it writes NAME.expected.safetensors: two losses
with a step of SGD between them, gradients and the weights behind the step."""

import json
import pathlib
import struct
import sys

import numpy
import torch

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "python"))
from torch_models import models  # noqa: E402

DTYPES = {"F32": numpy.float32, "F64": numpy.float64, "I64": numpy.int64, "I32": numpy.int32}


def load(file):
    raw = file.read_bytes()
    (size,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + size])
    about = header.pop("__metadata__")
    tensors = {}
    for name, row in header.items():
        begin, end = (8 + size + at for at in row["data_offsets"])
        tensors[name] = torch.from_numpy(numpy.frombuffer(raw[begin:end], DTYPES[row["dtype"]]).reshape(row["shape"]).copy())
    return about, tensors


def save(file, tensors):
    header, data = {}, b""
    for name, tensor in tensors.items():
        raw = tensor.detach().double().contiguous().numpy().tobytes()
        header[name] = {"dtype": "F64", "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    file.write_bytes(struct.pack("<Q", len(text)) + text + data)


def loss_of(net, inputs):
    if hasattr(net, "loss"):
        return net.loss(*inputs)
    out = net(inputs[0])
    return torch.nn.functional.cross_entropy(out, inputs[1]) if len(inputs) > 1 else out.square().mean()


for file in pathlib.Path(sys.argv[1]).glob("*.safetensors"):
    about, tensors = load(file)
    net = getattr(models, about["class"])(**json.loads(about["arguments"])).train()
    if any(x.dtype == torch.float64 for x in tensors.values()):
        net = net.double()
    inputs = [tensors.pop(f"input.{i}") for i in range(sum(name.startswith("input.") for name in tensors))]
    inputs = [x.long() if x.dtype == torch.int32 else x for x in inputs]
    net.load_state_dict(tensors)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    first = loss_of(net, inputs)
    first.backward()
    expected = {f"gradient.{name}": p.grad if p.grad is not None else torch.zeros_like(p) for name, p in net.named_parameters()}
    optimizer.step()
    expected.update({f"weight.{name}": p for name, p in net.named_parameters()})
    expected["losses"] = torch.stack([first, loss_of(net, inputs)])
    save(file.with_suffix(".expected"), expected)
