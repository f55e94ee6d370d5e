#!/usr/bin/env python3
"""Writes the pages under docs/reference that are made from tables, so that a table and its page never differ.
With --check only says whether a page is out of date."""

import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def flags_page():
    """docs/reference/flags.md from src/base/flags.def."""
    row = re.compile(r'^LATHE_FLAG\((\w+),\s*"(.*?)",\s*(\w+),\s*"(.*?)",\s*"(.*?)",\s*"(.*)"\)')
    lines = [
        "# Environment flags",
        "",
        "Made by `make docs` from `src/base/flags.def`. A name or value that is not in this table is an error that says what",
        "is; an empty value means the default.",
        "",
        "| Flag | Takes | Default | Meaning |",
        "| --- | --- | --- | --- |",
    ]
    with open(os.path.join(ROOT, "src/base/flags.def"), encoding="utf-8") as file:
        for match in filter(None, map(row.match, file)):
            _, name, kind, default, allowed, meaning = match.groups()
            takes = {"Bytes": "bytes, with K, M or G for powers of 1024"}.get(kind, allowed)
            takes = takes.replace("|", " or ").replace("..", " to ").removesuffix(" to ") + (" or more" if allowed.endswith("..") else "")
            lines.append(f"| `{name}` | {takes} | {default or '(empty)'} | {meaning} |")
    return "\n".join(lines) + "\n"


PAGES = {"docs/reference/flags.md": flags_page}


def main():
    check = "--check" in sys.argv[1:]
    stale = []
    for path, make in PAGES.items():
        full = os.path.join(ROOT, path)
        text = make()
        old = open(full, encoding="utf-8").read() if os.path.exists(full) else None
        if old == text:
            continue
        stale.append(path)
        if not check:
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w", encoding="utf-8") as file:
                file.write(text)
            print(f"docs: wrote {path}")
    if check and stale:
        print(f"docs: out of date: {' '.join(stale)}; run make docs")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
