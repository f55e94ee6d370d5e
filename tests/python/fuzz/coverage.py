"""What programs were made of: ops, dtypes, modes, and which rules of the heuristic their kernels used."""

from collections import Counter

from fuzz.generate import ROWS


class Coverage:
    def __init__(self):
        self.ops, self.dtypes, self.modes, self.rules = Counter(), Counter(), Counter(), Counter()
        self.lengths = Counter()

    def add(self, record):
        """A line of the log."""
        self.ops.update(record["ops"])
        self.lengths[len(record["ops"])] += 1
        self.dtypes.update(record["dtypes"])
        self.modes[record["mode"]] += 1
        self.rules.update(record["rules"])

    def median(self):
        half, seen = sum(self.lengths.values()) / 2, 0
        for length in sorted(self.lengths):
            seen += self.lengths[length]
            if seen >= half:
                return length
        return 0

    def text(self, known_rules):
        def row(counts, names):
            return "  ".join(f"{n} {counts[n]}" for n in sorted(names, key=lambda n: (counts[n], n)))

        return "\n".join(
            [
                f"programs {sum(self.lengths.values())}, ops in the median program {self.median()}",
                "modes    " + row(self.modes, self.modes),
                "dtypes   " + row(self.dtypes, self.dtypes),
                "rules    " + row(self.rules, known_rules),
                "ops      " + row(self.ops, ROWS),
            ]
        )


def record_of(program, rules, finding):
    """A program as a line of the log."""
    values = [*program.inputs, *program.steps]
    return {
        "seed": program.seed,
        "ops": program.ops(),
        "dtypes": sorted({v.dtype for v in values}),
        "mode": ("symbolic " if program.variables else "") + ("exact " if program.exact else "") + f"{program.mode} {program.reads}",
        "rules": rules,
        "finding": finding,
    }
