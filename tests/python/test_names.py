"""The table docs/python/names.tsv of both peers' public names is whole and true."""

import collections
import csv
import importlib
import os
import re

import pytest
import torch

import lathe
from lathe import Tensor, helpers, nn

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
with open(os.path.join(ROOT, "docs/python/names.tsv"), encoding="utf-8") as _file:
    ROWS = list(csv.DictReader(_file, delimiter="\t"))
OURS = {
    "torch": lathe, "torch.Tensor": Tensor, "torch.nn": nn, "torch.nn.functional": nn.functional, "torch.optim": nn.optim, "torch.nn.init": nn.init,
    "torch.optim.lr_scheduler": nn.optim.lr_scheduler, "tinygrad.Tensor": Tensor, "tinygrad.nn": nn, "tinygrad.nn.optim": nn.optim,
    "tinygrad.nn.state": nn.state, "tinygrad.helpers": helpers,
}  # fmt: skip
OUTSIDE = ("complex", "sparse", "quantised", "named", "device", "internal")  # of what is not planned: what Lathe has no use for


def test_every_row_says_the_truth():
    for row in ROWS:
        mine, name, status = OURS[row["area"]], row["name"], row["status"]
        there = hasattr(mine, name) or (name == "onnx" and importlib.util.find_spec("lathe.nn.onnx") is not None)
        label = f"{row['area']}.{name}"
        assert status in ("same", "differs", "other", "no"), label
        if status in ("same", "differs"):
            assert there, f"{label} is {status} in the table and is not there"
        else:
            assert not there, f"{label} is {status!r} in the table and is there"
        if status == "other":
            assert hasattr(mine, row["note"]), label
        if status in ("differs", "no"):
            assert row["note"], f"{label} needs a reason"


@pytest.mark.parametrize("area", [area for area in OURS if area.startswith("torch")])
def test_every_public_name_of_the_installed_pytorch_has_a_row(area):
    theirs = {"torch": torch, "torch.Tensor": torch.Tensor, "torch.nn": torch.nn, "torch.nn.functional": torch.nn.functional, "torch.optim": torch.optim,
              "torch.optim.lr_scheduler": torch.optim.lr_scheduler, "torch.nn.init": torch.nn.init}[area]  # fmt: skip
    known = {row["name"] for row in ROWS if row["area"] == area}
    kinds = ("function", "type", "builtin_function_or_method", "method_descriptor", "getset_descriptor", "property", "_TensorMeta")
    for name in dir(theirs):
        value = getattr(theirs, name, None)
        if name.startswith("_") or name in known or (area != "torch.Tensor" and type(value).__name__ not in kinds):
            continue
        assert area != "torch", f"torch.{name} has no row"
        home = getattr(value, "__module__", None) or ""
        assert area != "torch.Tensor" and (home.split(".")[0] != "torch" or not home.startswith(area)), f"{area}.{name} has no row"


def test_the_tables_reach_what_was_promised():
    counts = collections.Counter()
    for row in ROWS:
        outside = row["status"] == "no" and row["note"].split(":")[0] in OUTSIDE
        if not outside:
            counts[row["area"], row["status"] in ("same", "differs", "other")] += 1
    share = {area: counts[area, True] / (counts[area, True] + counts[area, False]) for area in OURS}
    assert share["torch"] > 0.93 and share["torch.Tensor"] > 0.95 and share["torch.nn"] > 0.84 and share["torch.nn.functional"] > 0.9, share
    assert all(share[area] > 0.98 for area in OURS if area.startswith("tinygrad")), share
    assert lathe.Tensor is Tensor


def test_every_name_in_the_tables_of_coming_from_tinygrad_is_here():
    with open(os.path.join(ROOT, "docs/python/from-tinygrad.md"), encoding="utf-8") as file:
        table = file.read().split("## Names by area")[1].split("\n## ")[0]
    found = re.findall(r"`((?:Tensor|nn|lathe|helpers)(?:\.\w+)+)`", table)
    assert len(found) > 150
    for path in found:
        value = {"Tensor": Tensor, "nn": nn, "lathe": lathe, "helpers": helpers}[path.split(".")[0]]
        for name in path.split(".")[1:]:
            value = importlib.import_module("lathe.nn.onnx") if name == "onnx" else getattr(value, name)
