#!/usr/bin/env python3
"""Checks what a compiler does not: include arrows between folders, header comments, whitespace, file sizes, TODOs,
dead links in the documentation, rows of tables that nothing uses, spelling, and files that should not be there. Needs nothing but Python; takes a second or two."""

import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# What each folder of src/ may include besides itself. `lathe` stands for include/lathe.
BELOW_TARGET = ["base", "ir", "rewrite", "rules"]
STAGE = BELOW_TARGET + ["target"]
ENGINE = STAGE + ["pipeline", "schedule", "codegen", "render", "runtime", "reference", "verify"]
ARROWS = {
    "base": [],
    "ir": ["base"],
    "reference": ["base", "ir"],
    "rewrite": ["base", "ir"],
    "rules": ["base", "ir", "rewrite"],
    "target": BELOW_TARGET,
    "pipeline": STAGE,
    "schedule": STAGE + ["pipeline"],
    "codegen": STAGE + ["pipeline"],
    "render": STAGE,
    "runtime": STAGE,
    "verify": STAGE + ["reference"],
    "backends": STAGE + ["render", "runtime", "reference"],
    "engine": ENGINE,
    "search": ENGINE + ["engine"],
    "investigate": ENGINE + ["engine", "search", "lathe"],
    "tensor": ENGINE + ["engine", "search", "lathe"],
    "capture": ENGINE + ["engine", "tensor", "lathe"],
    "dev": ENGINE + ["engine", "search", "investigate", "tensor", "capture", "lathe"],
}
# The rooms of src/codegen: what each may include of the others. Files beside them chain the rooms; `codegen/codegen.h` is for all.
ROOMS = {
    "kernel": [],
    "decompose": ["kernel"],
    "lower": ["kernel"],
    "options": ["kernel"],
    "choose": ["kernel", "options"],
}
# Folders written like a user's own code see the public headers and each other.
USER = ["lathe", "nn", "models", "formats", "apps"]
USER_FOLDERS = ["nn", "models", "formats", "apps", "tools", "examples", "bench"]

CODE = (".h", ".cpp", ".def")
TEXT = CODE + (".py", ".md", ".cmake", ".sh", ".json", ".txt", ".lathe", ".in")
MAX_LINES = 700
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')
TODO = re.compile(r"\b(TODO|FIXME|XXX)\b(?!.*#\d+)")
# Chips are facts of targets (src/backends, the rows of matrix units): elsewhere nothing asks which one it is.
CHIP = re.compile(r'"(sm_\d|x86-64-v\d|ref")|\btarget_?(\(\))?\.name\s*[!=]=|\btarget_?(\(\))?\.name\.(starts_with|find|ends_with)')
KNOWS_CHIPS = ("src/backends/", "src/target/matrix_units.cpp")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")

problems = []
warnings = []


def problem(path, line, text):
    problems.append(f"{path}:{line}: {text}")


def list_files():
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    return sorted({n for n in names if n and os.path.isfile(os.path.join(ROOT, n))})


def allowed_includes(path):
    """The folder a file belongs to and what it may include, or (None, None) when it is free."""
    parts = path.split("/")
    if parts[0] == "src" and len(parts) > 2:
        folder = parts[1]
        return folder, ARROWS.get(folder)
    if parts[0] == "python":
        return "python", ["lathe"]
    if parts[0] in USER_FOLDERS:
        return parts[0], USER + [parts[0]]
    if parts[0] == "include":
        return "include/lathe", ["lathe"]
    return None, None


def check_include(path, number, line):
    match = INCLUDE.match(line)
    if not match:
        return
    folder, allowed = allowed_includes(path)
    if folder is None:
        return
    target = match.group(1).split("/")[0]
    if "/" not in match.group(1):
        if not os.path.exists(os.path.join(ROOT, os.path.dirname(path), target)):
            problem(path, number, f'includes "{target}": write the path from the include root, as "ir/node.h"')
        return
    if folder == "investigate" and match.group(1).startswith("base/planted"):
        problem(path, number, "the investigator must not know which faults there are")
    # public, and what every folder speaks of
    if match.group(1) in ("lathe/error.h", "lathe/memory.h", "lathe/options.h"):
        return
    if allowed is None:
        problem(path, number, f"src/{folder} is not in the arrows of scripts/lint.py")
    elif folder == "backends":
        own = path.split("/")[2]
        # Part of lathe_target (cmake/backends.cmake).
        if path.endswith("/target.cpp") and target not in ARROWS["target"] + ["target"]:
            problem(path, number, arrow_text("a backend's target.cpp", match.group(1), ARROWS["target"] + ["target"]))
            return
        if target == "backends" and match.group(1).split("/")[1] != own:
            problem(path, number, f"backend {own} includes another backend: {match.group(1)}")
        elif target != "backends" and target not in allowed:
            problem(path, number, arrow_text(folder, match.group(1), allowed))
    elif target != folder and target not in allowed:
        problem(path, number, arrow_text(folder, match.group(1), allowed))
    elif folder == target == "codegen":
        check_room(path, number, match.group(1))


def check_room(path, number, include):
    """An include of one file of src/codegen by another: along the arrows of its rooms."""
    room, target = (p.split("/")[-2] for p in (path, include))
    if room == "codegen" or target in (room, "codegen"):
        return
    if room not in ROOMS:
        problem(path, number, f"src/codegen/{room} is not in the rooms of scripts/lint.py")
    elif target not in ROOMS[room]:
        problem(path, number, arrow_text(f"codegen/{room}", include, ROOMS[room]))


def arrow_text(folder, include, allowed):
    return f'{folder} may not include "{include}"; allowed: {" ".join([folder] + allowed)}'


def check_text(path, lines):
    is_code = path.endswith(CODE)
    in_src = path.startswith(("src/", "include/"))
    for number, line in enumerate(lines, 1):
        if "\t" in line:
            problem(path, number, "tab; use spaces")
        if line != line.rstrip():
            problem(path, number, "trailing whitespace")
        if is_code:
            check_include(path, number, line)
            if in_src and TODO.search(line):
                problem(path, number, "a TODO names its issue: TODO(#12)")
            if path.startswith("src/") and not path.startswith(KNOWS_CHIPS) and CHIP.search(line.split("//")[0]):
                problem(path, number, "asks which chip it is: what differs is a fact of its Target")
    if is_code and in_src and path.endswith((".h", ".def")) and not (lines and lines[0].startswith("//")):
        problem(path, 1, "a header starts with two to six lines on why it exists")
    if is_code and len(lines) > MAX_LINES and not path.endswith(".def"):
        warnings.append(f"{path}: {len(lines)} lines; look for the second job inside")


def check_links(path, lines):
    fenced = False
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        if fenced:
            continue
        for target in LINK.findall(re.sub(r"`[^`]*`", "", line)):
            if re.match(r"^[a-z]+:", target) or target.startswith("#"):
                continue
            file = os.path.normpath(os.path.join(ROOT, os.path.dirname(path), target.split("#")[0]))
            if not os.path.exists(file):
                problem(path, number, f"dead link: {target}")


# A file as the README of a folder of sources names it: `name.h`, `folder/name.cpp`.
NAMED_FILE = re.compile(r"`([a-z_0-9/]+\.(?:h|cpp|def|py|sh|cmake))`")


def check_named_files(path, lines, files):
    """What a folder's README names is in that folder, or is named by its path from the root or from src/ or include/."""
    folder = os.path.dirname(path) + "/"
    if folder == "/" or path.startswith("docs/"):
        return
    below = tuple(f for f in files if f.startswith(folder))
    for number, line in enumerate(lines, 1):
        for name in NAMED_FILE.findall(line):
            known = any(f.endswith("/" + name) for f in below) or any(p + name in files for p in ("", "src/", "include/"))
            if not known:
                problem(path, number, f"names {name}, which is not in {folder} (nor a path from the root, src/ or include/)")


# Tables whose rows must be named by code elsewhere: (table, start of a row, how code names it). A row that nothing names is
# dead weight. A flag may also be read by the Python package, by its variable.
ROWS = [
    ("src/ir/ops.def", "LATHE_OP", "Op::{}"),
    ("src/ir/structure_ops.def", "LATHE_NODE", "Op::{}"),
    ("src/base/flags.def", "LATHE_FLAG", "Flag::{}"),
]


def check_rows(files):
    sources = {}
    for path in files:
        if path.startswith(("src/", "python/", "formats/")) and path.endswith((".h", ".cpp", ".def", ".py")):
            with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                sources[path] = file.read()
    for table, macro, name in ROWS:
        text = "\n".join(t for path, t in sources.items() if path != table)
        used = set(re.findall(name.format(r"(\w+)"), text))
        rows = 0
        for number, line in enumerate(sources[table].split("\n"), 1):
            match = re.match(rf'{macro}\((\w+),(?: *"(LATHE_\w+)")?', line)
            rows += match is not None
            if match and match.group(1) not in used and not (match.group(2) and f'"{match.group(2)}"' in text):
                problem(table, number, f"nothing names {name.format(match.group(1))}: delete the row or use it")
        if rows == 0:
            problem(table, 1, f"no row begins with {macro}: scripts/lint.py reads the table wrongly")


def check_spelling(paths):
    tool = shutil.which("codespell")
    if not tool or not paths:
        return
    ignore = os.path.join(ROOT, "scripts", "codespell-ignore.txt")
    command = [tool, "--ignore-words", ignore] + paths
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    for line in result.stdout.splitlines():
        problems.append(line.removeprefix("./"))


def check_ignored():
    """What is made by a build or a run must not be in the repository: .gitignore says what that is."""
    command = ["git", "ls-files", "--cached", "--ignored", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    for name in names[:5]:
        problem(name, 1, f"is in the repository although .gitignore names it ({len(names)} such files): git rm --cached")


def main():
    files = list_files()
    check_ignored()
    texts = [f for f in files if f.endswith(TEXT) or os.path.basename(f) == "Makefile"]
    for path in texts:
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            lines = file.read().split("\n")
        if lines and lines[-1] == "":
            lines.pop()
        if os.path.basename(path) != "Makefile":
            check_text(path, lines)
        if path.endswith(".md"):
            check_links(path, lines)
        if os.path.basename(path) == "README.md":
            check_named_files(path, lines, set(files))
    check_rows(files)
    check_spelling([f for f in texts if not f.startswith("tests/golden")])

    for line in warnings:
        print(f"lint: warning: {line}")
    for line in problems:
        print(f"lint: {line}")
    if problems:
        print(f"lint: {len(problems)} problems in {len(texts)} files")
        return 1
    print(f"lint: ok ({len(texts)} files)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
