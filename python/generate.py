#!/usr/bin/env python3
"""Makes what the Python package takes from tables.
  generate.py docs FILE    docstrings for the bindings, from bindings/docs.txt and the op tables
  generate.py link FOLDER  links to the package's files in FOLDER, beside the built module"""

import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)


def rows(table):
    """Name and meaning of each row of unary.def or binary.def."""
    with open(os.path.join(ROOT, "include", "lathe", table), encoding="utf-8") as file:
        text = file.read()
    for match in re.finditer(r"^LATHE_(?:UNARY|BINARY)\((\w+),(.*)\)$", text, re.M):
        yield match.group(1), match.group(2)


def op_docs():
    """A docstring for each row that docs.txt says nothing about: what it is and an example."""
    docs = {}
    for name, _ in rows("unary.def"):
        words = name.replace("_", " ")
        value = "[True, False]" if name == "logical_not" else "[1, 2]" if name == "bitwise_not" else "[0.25, 0.5]"
        docs[f"Tensor.{name}"] = f"The {words} of every element.\n\n>>> t = Tensor({value}).{name}()\n>>> t.shape\n(2,)"
    for name, rest in rows("binary.def"):
        words = name.replace("_", " ")
        values = ("[6, 5]", "[3, 1]") if "Integral" in rest else ("[6.0, 5.0]", "[3.0, 2.0]")
        docs[f"Tensor.{name}"] = (
            f"{words} with another tensor or a number, element by element, after broadcasting and promotion.\n"
            f"`reverse=True` swaps the operands.\n\n>>> t = Tensor({values[0]}).{name}(Tensor({values[1]}))\n>>> t.shape\n(2,)"
        )
    return docs


def text_docs():
    """The entries of docs.txt: a line [name], then the text."""
    docs = {}
    name = None
    with open(os.path.join(HERE, "bindings", "docs.txt"), encoding="utf-8") as file:
        for line in file.read().split("\n"):
            match = re.fullmatch(r"\[((?:Tensor|DType|Size|Variable|Kernel|ScheduledKernel|nn|amp)[\w.]*)\]", line)  # not a result like [2.0]
            if match:
                name = match.group(1)
                docs[name] = []
            elif name is not None:
                docs[name].append(line)
    return {name: "\n".join(lines).strip() for name, lines in docs.items()}


def write_if_changed(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.exists(path) and open(path, encoding="utf-8").read() == text:
        os.utime(path)
        return
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def write_docs(path):
    docs = {**op_docs(), **text_docs()}
    lines = [f'{{"{name}", R"lathe({docs[name]})lathe"}},' for name in sorted(docs)]
    write_if_changed(path, "\n".join(lines) + "\n")


def link_package(folder):
    package = os.path.join(HERE, "lathe")
    for base, folders, files in os.walk(package):
        folders[:] = [f for f in folders if f != "__pycache__"]
        target = os.path.join(folder, os.path.relpath(base, package))
        os.makedirs(target, exist_ok=True)
        for entry in os.listdir(target):  # what is no longer there
            if os.path.islink(os.path.join(target, entry)) and entry not in files:
                os.unlink(os.path.join(target, entry))
        for name in files:
            link = os.path.join(target, name)
            if not os.path.islink(link):
                os.symlink(os.path.join(base, name), link)


if __name__ == "__main__":
    {"docs": write_docs, "link": link_package}[sys.argv[1]](sys.argv[2])
