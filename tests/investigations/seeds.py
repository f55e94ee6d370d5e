"""Small git repositories with a known mistake in their history, made from nothing: at least 30 commits each, in Python,
JavaScript, C++ and shell, some failures flaky. Each says which commit is guilty, or what else is."""

import os
import pathlib
import subprocess

GIT = {
    **{k: v for k, v in os.environ.items() if not k.startswith("GIT_")},
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_AUTHOR_NAME": "seed",
    "GIT_AUTHOR_EMAIL": "seed@localhost",
    "GIT_COMMITTER_NAME": "seed",
    "GIT_COMMITTER_EMAIL": "seed@localhost",
}


def git(folder, *words, **more):
    return subprocess.run(["git", *words], cwd=folder, env=GIT, check=True, capture_output=True, text=True, **more).stdout


class Seed:
    """Commits are collected and written by one `git fast-import`."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True)
        self.files = {}
        self.stream = []
        self.marks = 0
        self.heads = {"main": None}
        self.titles = {}

    def commit(self, title, files=None, remove=(), branch="main", merge=None):
        self.marks += 1
        lines = [f"commit refs/heads/{branch}", f"mark :{self.marks}", f"committer seed <seed@localhost> {1700000000 + 60 * self.marks} +0000"]
        lines += [f"data {len(title.encode())}", title]
        if self.heads.get(branch):
            lines.append(f"from :{self.heads[branch]}")
        if merge:
            lines.append(f"merge :{self.heads[merge]}")
        for path, text in (files or {}).items():
            mode = "100755" if text.startswith("#!") else "100644"
            lines += [f"M {mode} inline {path}", f"data {len(text.encode())}", text]
        lines += [f"D {path}" for path in remove]
        self.stream.append("\n".join(lines) + "\n")
        self.heads[branch] = self.marks
        return self.marks

    def branch(self, name, at="main"):
        self.heads[name] = self.heads[at]

    def noise(self, count, branch="main"):
        for i in range(count):
            self.commit(f"notes {self.marks + 1}", {f"notes/{self.marks % 7}.md": f"note {self.marks}\n" * (1 + i % 3)}, branch=branch)

    def write(self):
        git(self.folder, "init", "--quiet", "--initial-branch=main")
        marks = self.folder / ".git" / "marks"
        git(self.folder, "fast-import", "--quiet", f"--export-marks={marks}", input="\n".join(self.stream) + "\n")
        git(self.folder, "reset", "--quiet", "--hard", "main")
        self.ids = dict(line[1:].split() for line in marks.read_text().splitlines())
        assert int(git(self.folder, "rev-list", "--count", "HEAD")) >= 30
        return self

    def id(self, mark):
        return self.ids[str(mark)]


PY_TEST = """import unittest
from shop import price
class Prices(unittest.TestCase):
    def test_total(self):
        self.assertEqual(price.total([3, 4, 5]), 12)
    def test_change(self):
        self.assertEqual(price.change(10, 7), 3)
    def test_names(self):
        self.assertEqual(price.first_name(['b', 'a', 'c', 'd', 'e']), 'a')
if __name__ == '__main__':
    unittest.main()
"""
PY_CODE = """def total(items):
    result = 0
    for item in items:
        result += item
    return result


def change(paid, cost):
    return paid - cost


def first_name(names):
    return sorted(names)[0]
"""


def python_shop(folder):
    seed = Seed(folder)
    seed.commit("a shop", {"shop/__init__.py": "", "shop/price.py": PY_CODE, "test_price.py": PY_TEST, ".gitignore": "__pycache__/\n"})
    return seed


def wrong_sign(folder):
    seed = python_shop(folder)
    seed.noise(12)
    bad = seed.commit("simplify change", {"shop/price.py": PY_CODE.replace("paid - cost", "cost - paid")})
    seed.noise(25)
    return seed.write(), ["python3", "-m", "unittest", "-q"], {"commit": bad, "place": "shop/price.py:9"}


def hash_order(folder):
    seed = python_shop(folder)
    seed.noise(20)
    bad = seed.commit("no duplicates", {"shop/price.py": PY_CODE.replace("sorted(names)[0]", "list(set(names))[0]")})
    seed.noise(15)
    return seed.write(), ["python3", "test_price.py"], {"commit": bad, "place": "shop/price.py:13", "flaky": True}


def random_timeout(folder):
    seed = python_shop(folder)
    seed.noise(5)
    changed = "import random\n\n\n" + PY_CODE.replace("    result = 0\n", "    result = 0\n    if random.random() < 0.5:\n        items = items[1:]\n")
    bad = seed.commit("sample items", {"shop/price.py": changed})
    seed.noise(27)
    return seed.write(), ["python3", "test_price.py"], {"commit": bad, "place": "shop/price.py", "flaky": True}


def missing_import(folder):
    seed = Seed(folder)
    net = "from layers import nn\n\n\ndef build():\n    return nn.linear(3)\n"
    test = "from layers import nn\nfrom net import build\n\n\ndef test_build():\n    assert build() == nn.linear(3)\n    print('ok')\n\n\ntest_build()\n"
    seed.commit("nets", {"layers/__init__.py": "", "layers/nn.py": "def linear(n):\n    return n * n\n", "net.py": net, "test_net.py": test})
    seed.noise(20)
    bad = seed.commit("tidy imports", {"test_net.py": test.replace("from layers import nn\n", "")})
    seed.noise(12)
    return seed.write(), ["python3", "test_net.py"], {"commit": bad, "place": "test_net.py:1"}


def environment(folder):
    seed = Seed(folder)
    code = "import os\nmode = os.environ.get('SHOP_MODE', 'easy')\nassert mode != 'strict', f'no prices in mode {mode}'\nprint('ok')\n"
    seed.commit("modes", {"run.py": code})
    seed.noise(32)
    return seed.write(), ["python3", "run.py"], {"kind": "environment", "cause": "SHOP_MODE", "variables": {"SHOP_MODE": "strict"}}


CPP_CODE = """#include "sum.h"

int sum_below(int n) {
  int sum = 0;
  for (int i = 0; i < n; ++i) sum += i;
  return sum;
}
"""
CPP_MAIN = """#include <cstdio>
#include "sum.h"
int main() {
  const int got = sum_below(10);
  if (got != 45) {
    std::printf("error: sum_below(10) is %d, expected 45\\n", got);
    return 1;
  }
  std::puts("ok");
}
"""
CPP_RUN = "#!/bin/sh\nset -e\ng++ -O0 -o program main.cpp sum.cpp\n./program\n"


def cpp_sum(folder):
    seed = Seed(folder)
    seed.commit("sums", {"sum.cpp": CPP_CODE, "sum.h": "int sum_below(int n);\n", "main.cpp": CPP_MAIN, "test.sh": CPP_RUN, ".gitignore": "program\n"})
    return seed


def cpp_off_by_one(folder):
    seed = cpp_sum(folder)
    seed.noise(14)
    bad_code = CPP_CODE.replace("i < n", "i <= n")
    bad = seed.commit("loop", {"sum.cpp": bad_code})
    seed.noise(5)
    # Does not compile for a while, which says nothing of the wrong sum.
    seed.commit("half of a change", {"sum.h": "int sum_below(long n)\n"})
    seed.noise(1)
    seed.commit("the other half", {"sum.h": "int sum_below(int n);\n"})
    seed.noise(14)
    return seed.write(), ["sh", "test.sh"], {"commit": bad, "place": "sum.cpp:5"}


def cpp_renamed(folder):
    seed = cpp_sum(folder)
    seed.noise(8)
    bad = seed.commit("better name", {"sum.h": "int sum_under(int n);\n", "sum.cpp": CPP_CODE.replace("sum_below", "sum_under")})
    seed.noise(24)
    return seed.write(), ["sh", "test.sh"], {"commit": bad, "place": "main.cpp:4"}


def cpp_crash(folder):
    seed = Seed(folder)
    good = '#include <cstdio>\n#include <cstring>\nint main(int count, char** words) {\n  const char* name = count > 1 ? words[1] : "";\n  std::printf("%zu\\n", std::strlen(name));\n}\n'
    run = "#!/bin/sh\ng++ -O0 -o program main.cpp && exec ./program\n"
    seed.commit("lengths", {"main.cpp": good, "test.sh": run, ".gitignore": "program\n"})
    seed.noise(21)
    bad = seed.commit("shorter", {"main.cpp": good.replace('count > 1 ? words[1] : ""', "words[1]")})
    seed.noise(10)
    return seed.write(), ["sh", "test.sh"], {"commit": bad, "place": "main.cpp:4"}


JS_CODE = """function parse(text) {
  return text.split(',').map((part) => part.trim());
}
function join(parts) {
  return parts.join(', ');
}
module.exports = { parse, join };
"""
JS_TEST = """const assert = require('assert');
const { parse, join } = require('./list');
assert.deepStrictEqual(parse('a, b'), ['a', 'b']);
assert.strictEqual(join(['a', 'b']), 'a, b');
console.log('ok');
"""


def js_trim(folder):
    seed = Seed(folder)
    seed.commit("lists", {"list.js": JS_CODE, "test.js": JS_TEST})
    seed.noise(17)
    bad = seed.commit("faster", {"list.js": JS_CODE.replace(".map((part) => part.trim())", "")})
    seed.noise(3)
    seed.commit("later work on the same file", {"list.js": JS_CODE.replace(".map((part) => part.trim())", "").replace("join(', ')", "join(',' + ' ')")})
    seed.noise(12)
    return seed.write(), ["node", "test.js"], {"commit": bad, "place": "list.js:2"}


def js_race(folder):
    seed = Seed(folder)
    code = """const later = (value, ms) => new Promise((done) => setTimeout(() => done(value), ms));
async function load() {
  const seen = [];
  await later(1, 2).then((v) => seen.push(v));
  await later(2, 2).then((v) => seen.push(v));
  return seen;
}
module.exports = { load };
"""
    test = "const assert = require('assert');\nconst { load } = require('./load');\nload().then((seen) => assert.deepStrictEqual(seen, [1, 2]));\n"
    seed.commit("loading", {"load.js": code, "test.js": test})
    seed.noise(10)
    parallel = code.replace(
        "  await later(1, 2).then((v) => seen.push(v));\n  await later(2, 2).then((v) => seen.push(v));\n",
        "  const one = later(1, 1 + Math.random() * 8).then((v) => seen.push(v));\n"
        "  const two = later(2, 1 + Math.random() * 8).then((v) => seen.push(v));\n  await Promise.all([one, two]);\n",
    )
    bad = seed.commit("load in parallel", {"load.js": parallel})
    seed.noise(22)
    return seed.write(), ["node", "test.js"], {"commit": bad, "place": "load.js", "flaky": True}


def shell_quotes(folder):
    seed = Seed(folder)
    good = '#!/bin/sh\nset -e\nfor name in "$@"; do\n  wc -c < "$name" > /dev/null\ndone\n'
    test = "#!/bin/sh\nset -e\nfolder=$(mktemp -d)\necho text > \"$folder/two words\"\n./count.sh \"$folder/two words\"\nrm -r \"$folder\"\necho ok\n"
    seed.commit("count", {"count.sh": good, "test.sh": test})
    seed.noise(11)
    bad = seed.commit("fewer quotes", {"count.sh": good.replace('"$@"', "$@")})
    seed.noise(21)
    return seed.write(), ["./test.sh"], {"commit": bad, "place": "count.sh:3"}


def shell_hang(folder):
    seed = Seed(folder)
    good = "#!/bin/sh\ni=0\nwhile [ $i -lt 5 ]; do\n  i=$((i + 1))\ndone\necho $i\n"
    seed.commit("a loop", {"loop.sh": good})
    seed.noise(16)
    bad = seed.commit("a shorter loop", {"loop.sh": good.replace("  i=$((i + 1))\n", "  sleep 0.05\n")})
    seed.noise(16)
    return seed.write(), ["./loop.sh"], {"commit": bad, "place": "loop.sh:4", "options": ["--scenario-seconds", "1"]}


def shell_slow(folder):
    """It ends as it always did, and takes longer."""
    seed = Seed(folder)
    good = "#!/bin/sh\nfor part in 1 2; do\n  sleep 0.01\ndone\necho done\n"
    seed.commit("a job", {"job.sh": good})
    seed.noise(14)
    bad = seed.commit("a careful job", {"job.sh": good.replace("sleep 0.01", "sleep 3")})
    seed.noise(18)
    return seed.write(), ["./job.sh"], {"commit": bad, "place": "job.sh:3", "options": ["--slower-than", "2"]}


def memory_growth(folder):
    """It ends as it always did, and keeps what it should have let go."""
    seed = Seed(folder)
    good = "import time\n\nkept = []\nfor part in range(30):\n    kept = [b'x' * (8 << 20)]\n    time.sleep(0.01)\nprint('done')\n"
    seed.commit("a loop", {"loop.py": good})
    seed.noise(15)
    bad = seed.commit("a loop that keeps", {"loop.py": good.replace("kept = [b", "kept += [b")})
    seed.noise(17)
    return seed.write(), ["python3", "loop.py"], {"commit": bad, "place": "loop.py:5", "options": ["--memory-mib", "120"]}


def merged_branch(folder):
    seed = python_shop(folder)
    seed.noise(10)
    seed.branch("side")
    seed.noise(6, branch="side")
    bad = seed.commit("side: totals", {"shop/price.py": PY_CODE.replace("result = 0", "result = 1")}, branch="side")
    seed.noise(4, branch="side")
    seed.noise(5)
    seed.commit("merge side", {"shop/price.py": PY_CODE.replace("result = 0", "result = 1")}, merge="side")
    seed.noise(9)
    return seed.write(), ["python3", "test_price.py"], {"commit": bad, "place": "shop/price.py:2"}


def uncommitted(folder):
    seed = python_shop(folder)
    seed.noise(32)
    seed.write()
    path = seed.folder / "shop/price.py"
    path.write_text(PY_CODE.replace("sorted(names)[0]", "sorted(names)[1]").replace("for item in items:", "for item in list(items):"))
    return seed, ["python3", "test_price.py"], {"kind": "uncommitted change", "place": "shop/price.py:13"}


def new_test(folder):
    """An old mistake that a test shows which nobody has committed yet."""
    seed = python_shop(folder)
    seed.noise(9)
    bad = seed.commit("change, again", {"shop/price.py": PY_CODE.replace("paid - cost", "abs(paid - cost)")})
    seed.noise(22)
    seed.write()
    (seed.folder / "test_debt.py").write_text("from shop import price\nassert price.change(5, 7) == -2, price.change(5, 7)\n")
    return seed, ["python3", "test_debt.py"], {"commit": bad, "place": "shop/price.py:9"}


ALL = [wrong_sign, hash_order, random_timeout, missing_import, environment, cpp_off_by_one, cpp_renamed, cpp_crash, js_trim, js_race,
       shell_quotes, shell_hang, shell_slow, memory_growth, merged_branch, uncommitted, new_test]  # fmt: skip
