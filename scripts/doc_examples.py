#!/usr/bin/env python3
"""doc_examples.py FOLDER: writes each ```cpp compile block of README.md and docs/ to FOLDER/<page>_<number>.cpp and prints
the files. A file is rewritten only when its text changed, so that nothing is rebuilt needlessly."""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def pages():
    yield "README.md"
    for folder, _, names in sorted(os.walk(os.path.join(ROOT, "docs"))):
        for name in sorted(names):
            if name.endswith(".md"):
                yield os.path.relpath(os.path.join(folder, name), ROOT)


def blocks(text):
    block = None
    for line in text.split("\n"):
        if block is None and line.strip() == "```cpp compile":
            block = []
        elif block is not None and line.strip() == "```":
            yield "\n".join(block) + "\n"
            block = None
        elif block is not None:
            block.append(line)


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
