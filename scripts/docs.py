#!/usr/bin/env python3
"""Writes the pages under docs/reference that are made from tables, so that a table and its page never differ.
With --check only says whether a page is out of date; with --promises lists which tests name which requirement (R number)."""

import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def flags_page():
    """docs/reference/flags.md from src/base/flags.def."""
    row = re.compile(r'^LATHE_FLAG\((\w+),\s*"(.*?)",\s*(\w+),\s*\w+,\s*"(.*?)",\s*"(.*?)",\s*"(.*)"\)')
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


def errors_page():
    """docs/reference/errors.md from tests/error/refusals.txt."""
    lines = [
        "# Errors",
        "",
        "Made by `make docs` from `tests/error/refusals.txt`, which the tests compare with what is really said. The kinds: a",
        "`UserError` is for the caller to fix (`KernelOptError` and `JitError` are special cases); a `CompileError` is a vendor's",
        "compiler refusing generated text; a `DeviceError` is a driver's or the system's refusal (`OutOfMemory` carries the plan of",
        "memory); an `InternalError` is a bug of Lathe's, worth a report. All derive from `lathe::Error`.",
        "",
    ]
    with open(os.path.join(ROOT, "tests/error/refusals.txt"), encoding="utf-8") as file:
        text = file.read()
    for part in re.split(r"\n(?=#)", text):
        part = part.strip("\n")
        if part.startswith("# "):
            lines += ["#" + part, ""]
            continue
        name, when, kind, *message = part.split("\n")
        lines += ["#" + name, "", f"{when} ({kind})", "", "```", *message, "```", ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def table_rows(path, macro):
    """The rows of a .def table as lists of columns, with the comment line that heads the group they stand in."""
    group = ""
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        for line in file:
            if line.startswith("// ----"):
                group = line.strip("/- \n")
            if line.startswith(macro + "("):
                yield group, split_columns(line[len(macro) + 1 : line.rindex(")")])


def split_columns(text):
    """Splits at the commas that stand outside parentheses and strings."""
    columns, depth, quoted, begin = [], 0, False, 0
    for i, c in enumerate(text):
        if c == '"' and text[i - 1] != "\\":
            quoted = not quoted
        elif not quoted and c in "([{":
            depth += 1
        elif not quoted and c in ")]}":
            depth -= 1
        elif not quoted and c == "," and depth == 0:
            columns.append(text[begin:i].strip())
            begin = i + 1
    return columns + [text[begin:].strip()]


def code(text):
    """A cell of a table that holds code."""
    text = text.strip()
    if text.startswith("(") and text.endswith(")"):
        text = text[1:-1]
    return f"`{text.strip()}`".replace("|", "\\|") if text.strip() else ""


def ops_page():
    """docs/reference/ops.md from the tables of ops: the primitives and the elementwise functions made from them."""
    lines = [
        "# Ops",
        "",
        "Made by `make docs` from `src/ir/ops.def`, `include/lathe/unary.def` and `include/lathe/binary.def`. Everything a tensor",
        "computes is written from these primitives, reductions by them, and movement.",
        "",
        "## Primitives",
        "",
        "What REF, constant folding and every printer compute. Domain: I integers, F floats, B bool. A reduction is possible where",
        "there is a unit. Error: of a float result on a device, in ulp. Gradients are over the operands x, y, z, the result `out` and",
        "the incoming `g`.",
        "",
        "| Op | Operands | Domain | Result | Traits | Unit | Value | Error | Gradients |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for _, (name, args, result, domain, traits, unit, value, _text, error, *gradients) in table_rows("src/ir/ops.def", "LATHE_OP"):
        traits = "" if traits == "Plain" else ", ".join(t.strip() for t in traits.split("|"))
        unit = "" if unit == "kNone" else {"kLow": "lowest", "kHigh": "highest", "kOnes": "all ones"}.get(unit, unit)
        lines.append(f"| {name} | {args} | {domain} | {result} | {traits} | {unit} | {code(value)} | {error if 'F' in domain and error != '0' else ''} | {', '.join(filter(None, map(code, gradients)))} |")
    lines += [
        "",
        "## Functions of one tensor",
        "",
        "`f` is `x` lifted to a float dtype.",
        "",
        "| Method | Meaning |",
        "| --- | --- |",
    ]
    for _, (name, meaning) in table_rows("include/lathe/unary.def", "LATHE_UNARY"):
        lines.append(f"| `{name}` | {code(meaning)} |")
    lines += [
        "",
        "## Functions of two tensors",
        "",
        "After broadcasting; both operands are brought to one dtype: Common the least upper dtype, Float that lifted to a float,",
        "Whole integers or bool.",
        "",
        "| Method | Dtype | Meaning |",
        "| --- | --- | --- |",
    ]
    for _, (name, rule, meaning) in table_rows("include/lathe/binary.def", "LATHE_BINARY"):
        lines.append(f"| `{name}` | {rule} | {code(meaning)} |")
    return "\n".join(lines) + "\n"


def support_page():
    """docs/reference/support.md from tests/support/known_failures.def: what does not work where."""
    rows = [columns for _, columns in table_rows("tests/support/known_failures.def", "LATHE_KNOWN_FAILURE")]
    lines = [
        "# What works where",
        "",
        "Made by `make docs` from `tests/support/known_failures.def`. Every case of the op suite (`tests/ops/cases.cpp`) is run on",
        "REF and CPU by `make test`, through the C printer and NVRTC by a seeded tenth (all of it by `make test-all`), and on CUDA by",
        "`scripts/gpu_check.sh` where there is a GPU. All of them pass, except for the rows below; these are run too, and a row that",
        "passes, or fails in another way, turns the suite red.",
        "",
    ]
    if not rows:
        return "\n".join(lines + ["No failures are known."]) + "\n"
    lines += ["| Case | Device | How it fails | Since | Why |", "| --- | --- | --- | --- | --- |"]
    for row in rows:
        lines.append("| " + " | ".join(column.strip('"') for column in row) + " |")
    return "\n".join(lines) + "\n"


# The lists of steps, in the order in which a compile goes through them.
STEP_LISTS = [
    ("Scheduling", "src/schedule/schedule.cpp", "from the tensor graph to kernels over params"),
    ("Proof", "src/engine/steps.h", "of each kernel"),
    ("Options", "src/codegen/options/apply_options.cpp", "from a kernel and its list of options to the kernel as it will be looped"),
    ("Lowering", "src/codegen/pipeline.cpp", "from there to the program that printers print"),
]


def steps_page():
    """docs/reference/steps.md from the lists of steps."""
    lines = [
        "# Steps of a compile",
        "",
        "Made by `make docs` from the lists themselves. Every compile goes through these rows in order; after each the graph is handed",
        "to whoever watches and is verified, and what is malformed is blamed on the step, and on the rule, that made it. Optional ones",
        "can be left out by name (`LATHE_WITHOUT=peel_last_steps`): slower code, values that differ by rounding at most. `lathe inspect",
        "--steps` shows what each makes of a kernel, `--step expand` what one of them takes away and adds. Each has examples in",
        "`tests/passes/`.",
    ]
    for title, path, about in STEP_LISTS:
        lines += ["", f"## {title}", "", f"{about[0].upper()}{about[1:]} (`{path}`).", "", "| Step | Optional | What happens |", "| --- | --- | --- |"]
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            text = file.read()
        for name, purpose, optional in step_rows(text):
            lines.append(f"| `{name}` | {'yes' if optional else ''} | {purpose} |")
    return "\n".join(lines) + "\n"


def step_rows(text):
    """(name, purpose, optional) of the rows of a list of steps, or of single ones."""
    table = re.search(r"constexpr StepRow<\w+> k\w+Steps\[\] = \{\n(.*?)\n\};", text, re.S)
    if table is None:
        for name, purpose in re.findall(r'constexpr StepInfo \w+\{\s*"(\w+)",\s*"([^"]+)"\}', text):
            yield name, purpose, False
        return
    for part in re.split(r'\n(?=    \{")', "\n" + table.group(1)):
        match = re.match(r'\s*\{"(\w+)",\s*"([^"]+)"', part)
        if match:
            yield match.group(1), match.group(2), "kOptional" in part


def onnx_rows(text):
    """(name, since) of the rows of a table of ONNX operators."""
    for match in re.finditer(r'(?:\{|LATHE_ONNX_REDUCE\()\s*"(\w+)",\s*(\d+),|LATHE_ONNX_(?:UNARY|BINARY)\("(\w+)", \w+\)', text):
        yield match.group(1) or match.group(3), int(match.group(2) or 1)


def onnx_page():
    """docs/reference/onnx.md from the tables of operators and the list of tests that do not pass."""
    lines = [
        "# ONNX operators",
        "",
        "Made by `make docs` from the tables in `formats/onnx/ops/` and from `tests/onnx/exceptions.txt`. A number is the version of the",
        "operator set that an operator is read from, where that is not the first. [What a model may hold](../onnx.md) is told apart.",
        "",
        "| Domain | Topic | Operators |",
        "| --- | --- | --- |",
    ]
    folder = os.path.join(ROOT, "formats/onnx/ops")
    tables = []
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".cpp"):
            continue
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            text = file.read()
        domain, topic = re.search(r'OpTable \w+\(\) \{ return \{"([^"]*)", "([^"]*)", kRows', text).groups()
        rows = text[text.index("OpRow kRows[]") : text.index("}  // namespace\n")]
        first = {}
        for op, since in onnx_rows(rows):
            first[op] = min(since, first.get(op, since))
        tables.append((domain or "ai.onnx", topic, ", ".join(op + (f" ({since})" if since > 1 else "") for op, since in sorted(first.items()))))
    for row in sorted(tables):
        lines.append("| " + " | ".join(row) + " |")
    lines += [
        "",
        "## Tests that are not compared in full",
        "",
        "ONNX's own tests (`libonnx-testdata`: 932 of single operators, 82 and 35 converted from PyTorch, 23 simple ones) pass but for these.",
        "",
        "| Test | Reason |",
        "| --- | --- |",
    ]
    with open(os.path.join(ROOT, "tests/onnx/exceptions.txt"), encoding="utf-8") as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                name, kind, reason = line.strip().split(" | ")
                lines.append(f"| `{name}` | {'only shapes are compared: it ' if kind == 'random' else ''}{reason} |")
    return "\n".join(lines) + "\n"


def promises():
    """Which tests name which numbered requirement, as a table for the terminal."""
    places = {}
    for folder, _, files in os.walk(os.path.join(ROOT, "tests")):
        for name in sorted(files):
            if not name.endswith((".cpp", ".h", ".def")):
                continue
            path = os.path.relpath(os.path.join(folder, name), ROOT)
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                for number in re.findall(r"\bR(\d{1,2})\b", "\n".join(re.findall(r"//.*", file.read()))):
                    places.setdefault(int(number), set()).add(path)
    for number in sorted(places):
        print(f"R{number:<3} {' '.join(sorted(places[number]))}")
    return 0


PAGES = {
    "docs/reference/errors.md": errors_page,
    "docs/reference/flags.md": flags_page,
    "docs/reference/onnx.md": onnx_page,
    "docs/reference/ops.md": ops_page,
    "docs/reference/steps.md": steps_page,
    "docs/reference/support.md": support_page,
}


def main():
    if "--promises" in sys.argv[1:]:
        return promises()
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
