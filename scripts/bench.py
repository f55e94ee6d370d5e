#!/usr/bin/env python3
"""bench.py [--base COMMIT] [--repeat N] [--only NAME]: runs the benchmark commands of build/bin/lathe, and import, graphs and
replays of the Python package where it was built, and prints median and
spread of what is not the same in all runs as a table. With --base it also builds that commit in a work tree of its own and runs the two in turn, so that both
see the same weather on the machine."""

import argparse
import json
import os
import statistics
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COMMANDS = ["ir", "compile"]  # lathe bench <command> --json prints an array of objects with a name and numbers
PYTHON = "python"  # python/lathe/bench.py of this tree with the package of either


def run(command, **options):
    return subprocess.run(command, check=True, text=True, **options)


def build_base(commit):
    sha = run(["git", "rev-parse", "--short", commit], cwd=ROOT, capture_output=True).stdout.strip()
    tree = os.path.join(ROOT, "build", "bench-base", sha)
    if not os.path.isdir(tree):
        run(["git", "worktree", "add", "--detach", tree, sha], cwd=ROOT, capture_output=True)
    print(f"bench: building {sha}", file=sys.stderr)
    run([os.path.join(tree, "scripts", "build.sh"), "release"], stdout=subprocess.DEVNULL)
    return sha, os.path.join(tree, "build", "bin", "lathe")


def measure_python(program):
    package = os.path.join(os.path.dirname(os.path.dirname(program)), "python")
    if not os.path.isdir(os.path.join(package, "lathe")):
        return {}
    interpreter = os.path.join(ROOT, ".venv-python", "bin", "python")
    script = os.path.join(ROOT, "python", "lathe", "bench.py")
    code = f"import runpy, sys; sys.argv = ['bench', '--calls', '--json']; runpy.run_path({script!r}, run_name='__main__')"
    output = run([interpreter, "-c", code], cwd="/", env={**os.environ, "PYTHONPATH": package}, capture_output=True).stdout
    return {(PYTHON, "calls", key): value for key, value in json.loads(output).items()}


def measure(program, command):
    if command == PYTHON:
        return measure_python(program)
    output = run([program, "bench", command, "--json"], capture_output=True).stdout
    values = {}
    for row in json.loads(output):
        for key, value in row.items():
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                values[(command, row["name"], key)] = value
    return values


def cell(values):
    if not values:
        return "-"
    middle = statistics.median(values)
    spread = (max(values) - min(values)) / abs(middle) * 100 if middle else 0
    return f"{middle:.4g} ±{spread / 2:.0f}%"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", help="commit to compare with")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", help="run one benchmark command")
    options = parser.parse_args()

    programs = {"now": os.path.join(ROOT, "build", "bin", "lathe")}
    if options.base:
        sha, program = build_base(options.base)
        programs = {sha: program, **programs}
    results = {}
    for command in [options.only] if options.only else [*COMMANDS, PYTHON]:
        for _ in range(options.repeat):
            for name, program in programs.items():
                for key, value in measure(program, command).items():
                    results.setdefault(key, {}).setdefault(name, []).append(value)

    names = list(programs)
    rows = [["benchmark", "measure"] + names + (["change"] if len(names) == 2 else [])]
    for (command, bench, key), values in results.items():
        if len({value for measured in values.values() for value in measured}) == 1:
            continue  # a goal or a count that says nothing about speed
        row = [f"{command} {bench}", key] + [cell(values.get(name)) for name in names]
        if len(names) == 2:
            both = [statistics.median(values[name]) for name in names if name in values]
            row.append(f"{(both[1] / both[0] - 1) * 100:+.1f}%" if len(both) == 2 and both[0] else "-")
        rows.append(row)
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip())
    return 0


if __name__ == "__main__":
    sys.exit(main())
