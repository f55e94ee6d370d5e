#!/usr/bin/env python3
"""Which refusals no test mentions. A refusal is what an error of Lathe says (`throw UserError(...)`, `raise UserError(...)`); it is
pinned where some file under tests/ has the longest fixed part of its text. The ones that are not are listed in
tests/error/unpinned.txt, which may only become shorter: `scripts/refusals.py` fails where a refusal without a test is not in the
list, or one in the list has a test; `UPDATE_GOLDEN=1 scripts/refusals.py` writes the list."""

import os
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIST = ROOT / "tests/error/unpinned.txt"
SOURCES = ("src", "nn", "models", "formats", "apps", "python/bindings", "python/lathe", "tools")
KINDS = "UserError|TypeError|IndexError|NotSupported|JitError|KernelOptError|UnknownName|MissingFile|CompileError|DeviceError|WrongCall|WrongType|NoAxis|MissingNames"
LEAST = 12  # letters: a shorter text says nothing


def literals(text):
    """The strings in some code, those of different arguments on lines of their own."""
    out, end = "", 0
    for match in re.finditer(r'[rf]*"((?:[^"\\]|\\.)*)"|[rf]*\'((?:[^\'\\]|\\.)*)\'', text):
        apart = out and text[end : match.start()].strip()
        out += ("\n" if apart else "") + (match[1] if match[1] is not None else match[2]).replace("\\n", "\n").replace('\\"', '"')
        end = match.end()
    return out


def letters(text):
    return re.sub(r"[^a-z0-9]", "", text.lower())


def message(code):
    """The longest fixed part of what an error says, without notes and help."""
    code = re.split(r"\n?\s*\.(?:help|note)\(", code)[0]
    said = re.split(r"\n\s*(?:help|note): ", literals(code))[0]
    parts = [part.strip(" :,\n") for part in re.split(r"\{[^{}]*\}|%\w|\"\s*\+|\n", said)]
    return max(parts, key=lambda part: len(letters(part)), default="")


def calls(text):
    """The arguments of every error that is thrown or raised."""
    for match in re.finditer(rf"\b(?:throw|raise)\s+(?:errors\.|_core\.)?(?:{KINDS})\(", text):
        depth, at = 1, match.end()
        while depth and at < len(text):
            depth += {"(": 1, ")": -1}.get(text[at], 0)
            at += 1
        yield text[match.end() : at - 1]


def refusals():
    found = {}
    for folder in SOURCES:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".cpp", ".h", ".py"):
                for code in calls(path.read_text(encoding="utf-8", errors="replace")):
                    text = message(code)
                    if len(letters(text)) >= LEAST:
                        found.setdefault(f"{path.relative_to(ROOT)}: {text}", text)
    return found


def main():
    tests = [p for p in sorted((ROOT / "tests").rglob("*")) if p.suffix in (".cpp", ".h", ".py", ".txt", ".def", ".lathe", ".tsv") and p != LIST]
    mentioned = letters("".join(literals(t) if p.suffix in (".cpp", ".h", ".py") else t for p in tests for t in [p.read_text(encoding="utf-8", errors="replace")]))
    unpinned = [line for line, text in refusals().items() if letters(text) not in mentioned]
    if os.environ.get("UPDATE_GOLDEN"):
        LIST.write_text("".join(f"{line}\n" for line in unpinned), encoding="utf-8")
        return 0
    listed = LIST.read_text(encoding="utf-8").splitlines()
    new, done = [line for line in unpinned if line not in listed], [line for line in listed if line not in unpinned]
    for line in new:
        print(f"refusals: no test mentions {line}")
    for line in done:
        print(f"refusals: has a test, or is gone: {line}")
    print(f"refusals: {len(unpinned)} without a test" + ("; UPDATE_GOLDEN=1 writes the list" if new or done else ""))
    return 1 if new or done else 0


if __name__ == "__main__":
    sys.exit(main())
