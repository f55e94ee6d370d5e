#!/usr/bin/env python3
"""doc_examples.py FOLDER: writes each block of C++ in README.md, CONTRIBUTING.md and docs/ to FOLDER/<page>_<number>.cpp and
prints the files. ```cpp compile is a program; ```cpp is a part of one, which gets a main() around it and may throw an error of
Lathe's. A file is rewritten only when its text changed, so that nothing is rebuilt needlessly."""

import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def pages():
    yield from ("README.md", "CONTRIBUTING.md")
    for folder, _, names in sorted(os.walk(os.path.join(ROOT, "docs"))):
        for name in sorted(names):
            if name.endswith(".md"):
                yield os.path.relpath(os.path.join(folder, name), ROOT)


BEFORE = """#include <cstdio>

#include "lathe/lathe.h"

using namespace lathe;

int main() try {
"""
AFTER = """} catch (const Error& error) {
  std::puts(error.what());
}
"""


def blocks(text):
    for kind, block in re.findall(r"^```(cpp compile|cpp)\n(.*?)^```", text, re.M | re.S):
        yield block if kind == "cpp compile" else BEFORE + block + AFTER


def main():
    out = sys.argv[1]
    os.makedirs(out, exist_ok=True)
    for page in pages():
        with open(os.path.join(ROOT, page), encoding="utf-8") as file:
            text = file.read()
        stem = page.removesuffix(".md").replace("/", "_").replace("-", "_").lower()
        for number, block in enumerate(blocks(text), 1):
            path = os.path.join(out, f"{stem}_{number}.cpp")
            block = f"// From {page}.\n{block}"
            if not os.path.exists(path) or open(path, encoding="utf-8").read() != block:
                with open(path, "w", encoding="utf-8") as file:
                    file.write(block)
            print(path)


if __name__ == "__main__":
    main()
