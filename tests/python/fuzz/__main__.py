"""python -m fuzz: runs programs in worker processes and writes a log that a later run goes on from.

--programs N   how many programs (seeds FIRST, FIRST+1, ...)     --first FIRST   the first seed
--log FILE     a line for each program; those this build has run are not run again, except findings
--any-build    nor those other builds have run
--minutes M    start no program after that time      --jobs J   worker processes      --stop   at the first finding
--seed S       one program: its text, and what is found, made small
The exit status is 1 where something was found, and 3 where the minutes were too few for all programs.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import threading
import time
import traceback
import warnings

HANGS = 240  # seconds without a program done
SHRINKS = 60  # seconds to make a finding small
GRACE = 30  # seconds after the last minute for programs that are being run


def arguments():
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=int(os.environ.get("FUZZ_PROGRAMS", "1000")))
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--log", default="")
    parser.add_argument("--any-build", action="store_true")
    parser.add_argument("--minutes", type=float, default=0)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--stop", action="store_true")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


# ---- one program


def rules_of(program, weights):
    """Which rules of the heuristic the program's kernels use."""
    from collections import Counter

    from fuzz.evaluate import kernels_of
    from lathe import UserError, _core

    counts = Counter()
    try:
        kernels = kernels_of(program, weights)
    except UserError:  # refused, as the check saw
        return {}
    for kernel in kernels:
        if kernel.text:
            counts.update(_core.rules_used(kernel.text, kernel.device))
    return dict(counts)


def max_size(program):
    return max((a.size for e in program.environments for a in e.arrays.values()), default=0)


def run_seed(seed, count_rules, seconds=SHRINKS):
    """The log line of a seed, with some seconds to make a finding small."""
    from fuzz.compare import check
    from fuzz.coverage import record_of
    from fuzz.evaluate import weights_of
    from fuzz.generate import generate
    from fuzz.program import test_text
    from fuzz.shrink import shrink

    program = generate(seed)
    finding = check(program)
    text = None
    if finding is not None:
        text = test_text(*shrink(program, finding, seconds))
    counted = finding is None and program.mode != "captured" and (count_rules or max_size(program) > 4000)
    rules = rules_of(program, weights_of(program) if program.wrt else {}) if counted else {}
    return record_of(program, rules, text)


def worker():
    """Reads seeds and the seconds for shrinking, writes log lines."""
    from lathe import Context

    for line in sys.stdin:
        seed, seconds = (int(word) for word in line.split())
        try:  # a check of Lathe's own before first use must hide nothing, and say nothing wrong
            with Context(CHECK=os.environ.get("LATHE_CHECK", "strict" if seed % 4 == 0 else "off")):
                record = run_seed(seed, seed % 2 == 0, seconds)
        except Exception:  # noqa: BLE001: a fault of the fuzzer is told like any other
            record = died(seed, "could not be drawn or evaluated:\n" + traceback.format_exc())
        print(json.dumps(record), flush=True)


# ---- many programs


class Log:
    """What was run, in memory and in a file."""

    def __init__(self, path, any_build):
        from fuzz.coverage import Coverage
        from lathe import _core

        self.path, self.coverage, self.done, self.findings = path, Coverage(), set(), {}
        self.lock = threading.Lock()
        with open(_core.__file__, "rb") as file:
            self.build = hashlib.blake2b(file.read(), digest_size=8).hexdigest()
        records = {}
        if path and os.path.exists(path):
            with open(path) as file:
                records = {record["seed"]: record for record in map(json.loads, file)}
        for record in records.values():
            if not record["finding"] and (any_build or record.get("build") == self.build):
                self.take(record)

    def take(self, record):
        self.done.add(record["seed"])
        self.coverage.add(record)
        if record["finding"]:
            self.findings[record["seed"]] = record["finding"]

    def write(self, record):
        record["build"] = self.build
        with self.lock:
            self.take(record)
            if self.path:
                with open(self.path, "a") as file:
                    file.write(json.dumps(record) + "\n")
        if record["finding"]:
            print(record["finding"], flush=True)


def died(seed, why):
    return {"seed": seed, "ops": [], "dtypes": [], "mode": "died", "rules": {}, "finding": f"# FUZZ_SEED={seed}: the program {why}"}


def serve(seeds, log, left):
    """Feeds one worker process after the other, until there are no seeds or no seconds left."""
    process = None
    while left() > 0:
        try:
            seed = seeds.pop()
        except IndexError:
            break
        if process is None:
            command = [sys.executable, "-W", "ignore", "-m", "fuzz", "--worker"]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        patience = min(HANGS, left() + GRACE)
        hung = threading.Timer(patience, process.kill)
        hung.start()
        try:
            process.stdin.write(f"{seed} {int(min(SHRINKS, max(left(), GRACE / 2)))}\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        late = hung.finished.is_set()
        hung.cancel()
        if line:
            log.write(json.loads(line))
            continue
        if late and patience < HANGS:  # nothing is known of it
            seeds.append(seed)
            process.wait()
            return
        log.write(died(seed, "was still busy after %d s" % HANGS if late else f"ended the process with {process.wait()}"))
        process = None
    if process is not None:
        process.stdin.close()
        process.wait()


def main():
    options = arguments()
    warnings.filterwarnings("ignore")
    if options.worker:
        return worker()
    if options.seed is not None:
        from fuzz.generate import generate
        from fuzz.program import source

        print(source(generate(options.seed)))
        finding = run_seed(options.seed, False)["finding"]
        print(finding or "nothing found")
        return 1 if finding else 0
    log, start = Log(options.log, options.any_build), time.monotonic()
    seeds = [s for s in range(options.first, options.first + options.programs) if s not in log.done]
    print(f"fuzz: {len(seeds)} programs of {options.programs}, seeds from {options.first}", flush=True)
    seeds.reverse()

    def left():
        if options.stop and log.findings:
            return 0
        return 60 * options.minutes + start - time.monotonic() if options.minutes else float("inf")

    threads = [threading.Thread(target=serve, args=(seeds, log, left)) for _ in range(options.jobs)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    from lathe import _core

    print(log.coverage.text(_core.heuristic_rules()))
    unrun = f", {len(seeds)} not run" if seeds else ""
    print(f"fuzz: {len(log.done)} programs in {time.monotonic() - start:.0f} s{unrun}, {len(log.findings)} findings: {sorted(log.findings)}")
    return 1 if log.findings else 3 if seeds else 0


if __name__ == "__main__":
    sys.exit(main())
