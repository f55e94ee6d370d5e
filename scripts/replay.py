#!/usr/bin/env python3
"""replay.py --base COMMIT [--show N] [--changelog]: generates the kernels of the five nets and of the op suite, for two CPUs and a GPU, with
this tree and with another commit, and compares them as text. A refactoring shows no difference. The exit status is 1 where
there is one; with --changelog only where no line that CHANGELOG.md's section Unreleased has got since speaks of kernels. The
other commit is built in a work tree of its own under build/replay-base, and not at all where nothing that makes kernels differs."""

import argparse
import difflib
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TEST = "Replay.WritesTheKernelsOfEveryGraphForEveryTarget"


def run(command, **options):
    return subprocess.run(command, check=True, text=True, **options)


def git(*words):
    return run(["git", *words], cwd=ROOT, capture_output=True).stdout.strip()


# What kernels are made of and by.
SOURCES = ["CMakeLists.txt", "cmake", "include", "src", "nn", "models", "tests/ops/cases.cpp", "tests/replay/kernels_of.cpp"]


def unreleased(commit):
    """The lines of the changelog's section Unreleased: of a commit, or of the files as they are."""
    if commit:
        text = git("show", f"{commit}:CHANGELOG.md")
    else:
        with open(os.path.join(ROOT, "CHANGELOG.md"), encoding="utf-8") as file:
            text = file.read()
    lines, inside = [], False
    for line in text.splitlines():
        if line.startswith("## "):
            inside = line.strip() == "## Unreleased"
        elif inside:
            lines.append(line.strip())
    return lines


def said_since(commit):
    """New lines of the changelog that speak of kernels."""
    known = set(unreleased(commit))
    return [line for line in unreleased(None) if line not in known and re.search(r"\bkernels?\b", line, re.IGNORECASE)]


def build_base(commit):
    """The tree of the commit, built; only the program that writes kernels."""
    sha = git("rev-parse", "--short", commit)
    tree = os.path.join(ROOT, "build", "replay-base", sha)
    if not os.path.isdir(tree):
        git("worktree", "add", "--detach", tree, sha)
    if not os.path.exists(os.path.join(tree, "tests/replay/replay_test.cpp")):
        sys.exit(f"replay: {sha} is older than tests/replay and cannot be compared with")
    print(f"replay: building {sha}", file=sys.stderr)
    folder = os.path.join(tree, "build/dev")
    if not os.path.exists(os.path.join(folder, "build.ninja")):
        # Configured as this tree is, so that a compiler cache can share what did not change.
        pch = "OFF" if "LATHE_PCH:BOOL=OFF" in open(os.path.join(ROOT, "build/dev/CMakeCache.txt"), encoding="utf-8").read() else "ON"
        run(["cmake", "--preset", "dev", f"-DLATHE_PCH={pch}"], cwd=tree, stdout=subprocess.DEVNULL)
    run(["cmake", "--build", folder, "--target", "test_replay"], stdout=subprocess.DEVNULL)
    return sha, os.path.join(folder, "bin/test_replay")


def kernels(program, name):
    """{target/graph: [kernel, ...]} as the program writes them."""
    folder = os.path.join(ROOT, "build", "replay", name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    environment = dict(os.environ, REPLAY_OUT=folder, LATHE_CACHE="off")
    done = subprocess.run([program, f"--gtest_filter={TEST}", "--gtest_brief=1"], env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"replay: {program} failed\n{done.stdout}{done.stderr}")
    out = {}
    for target in sorted(os.listdir(folder)):
        for graph in sorted(os.listdir(os.path.join(folder, target))):
            with open(os.path.join(folder, target, graph), encoding="utf-8") as file:
                out[f"{target}/{graph}"] = file.read().split("==== ")[1:]
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", required=True, help="commit to compare with")
    parser.add_argument("--show", type=int, default=3, help="how many differences are shown as text")
    parser.add_argument("--changelog", action="store_true", help="differences are allowed where the changelog has them")
    options = parser.parse_args()

    if subprocess.run(["git", "rev-parse", "-q", "--verify", f"{options.base}^{{commit}}"], cwd=ROOT, capture_output=True).returncode != 0:
        print(f"replay: there is no commit {options.base} here; nothing to compare with")
        return 0
    if not git("status", "--porcelain", "--", *SOURCES) and not git("diff", "--name-only", options.base, "--", *SOURCES):
        print(f"replay: nothing that makes kernels differs from {git('rev-parse', '--short', options.base)}")
        return 0
    now = kernels(os.path.join(ROOT, "build/dev/bin/test_replay"), "now")
    sha, program = build_base(options.base)
    base = kernels(program, "base")

    same = changed = 0
    rows, shown = [], 0
    for key in sorted(now.keys() | base.keys()):
        old, new = base.get(key, []), now.get(key, [])
        gone, come = [k for k in old if k not in new], [k for k in new if k not in old]
        same += len(new) - len(come)
        if not gone and not come and len(old) == len(new):
            continue
        changed += max(len(gone), len(come))
        rows.append(f"  {key}: {len(old)} -> {len(new)} kernels, {len(gone)} gone, {len(come)} new")
        if shown < options.show and gone and come:
            shown += 1
            rows += ["    " + line for line in difflib.unified_diff(gone[0].splitlines(), come[0].splitlines(), sha, "now", lineterm="", n=2)]
    print(f"replay: {same} kernels of {len(now)} graphs are the same as in {sha}, {changed} differ")
    print("\n".join(rows), end="\n" if rows else "")
    if rows and options.changelog:
        said = said_since(options.base)
        if said:
            print("replay: the changelog says so:", *said, sep="\n  ")
            return 0
        print("replay: kernels change, and no new line of CHANGELOG.md's section Unreleased speaks of kernels", file=sys.stderr)
    return 1 if rows else 0


if __name__ == "__main__":
    sys.exit(main())
