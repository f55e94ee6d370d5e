#!/usr/bin/env python3
"""Sessions of `lathe investigate`: states, kills, cancelling, observations, the bank, the page, the adviser.

  tests/investigations/sessions_test.py build/dev/bin/lathe [--kills N] [--seed N] [NAME...]

`--kills` is how often a process of an investigation is killed at a random point (6; by hand 100).
"""

import argparse
import html.parser
import http.server
import json
import os
import pathlib
import random
import re
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time
import unittest

import driver
import seeds
from driver import Project

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = pathlib.Path(os.environ.get("LATHE_TEST_DATA", ROOT.parent / "shared/data"))
FOLLOWING = {
    "": {"queued"},
    "queued": {"running", "cancelled", "failed"},
    "running": {"queued", "needs-input", "found", "not-found", "cancelled", "failed"},
    "needs-input": {"queued", "running", "cancelled"},
    "found": set(),
    "not-found": {"queued"},
    "cancelled": {"queued"},
    "failed": {"queued"},
}
options = None


def states(project, session):
    """The stored transitions; each has to follow from the one before."""
    with sqlite3.connect(project.bank() / "store.sqlite") as store:
        assert store.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        rows = store.execute("SELECT before, after FROM transition WHERE session = ? ORDER BY rowid", (session,)).fetchall()
    at = ""
    for before, after in rows:
        assert before == at, rows
        assert after in FOLLOWING[before], rows
        at = after
    return [after for _, after in rows]


def slow_seed(folder):
    """Every run takes a moment and starts processes of its own, so that there is something to kill."""
    seed = seeds.Seed(folder)
    run = "#!/bin/sh\nsleep 0.03 &\nsetsid sleep 0.06 &\nsleep 0.02\ngrep -q good value.txt || { echo 'error: the value is bad'; exit 3; }\n"
    seed.commit("a value", {"run.sh": run, "value.txt": "good\n"})
    seed.noise(13)
    bad = seed.commit("another value", {"value.txt": "spoilt\n"})
    seed.noise(20)
    return seed.write(), bad


class Verdict(html.parser.HTMLParser):
    """Checks that elements are closed in order, and collects texts by the id they are in."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.texts = [], {}, {}

    def handle_starttag(self, tag, attributes):
        names = dict(attributes)
        assert not {"src", "href"} & set(names), "the page needs something from elsewhere"
        if tag in ("meta", "br"):
            return
        self.open.append((tag, names.get("id")))
        if "id" in names:
            self.ids[names["id"]] = tag

    def handle_endtag(self, tag):
        assert self.open and self.open[-1][0] == tag, (tag, self.open)
        self.open.pop()

    def handle_data(self, data):
        for _, name in self.open:
            if name:
                self.texts[name] = self.texts.get(name, "") + data


class Sessions(unittest.TestCase):
    def project(self, make=None):
        project = Project(make)
        self.addCleanup(project.remove)
        return project

    def test_from_queued_to_found_with_record_page_and_repro(self):
        project = self.project(slow_seed)
        made, bad = project.made
        status, record = project.json(None, "--", "./run.sh")
        self.assertEqual(status, 0, record)
        self.assertEqual(record["state"], "found")
        self.assertIn(made.id(bad)[:12], record["verdict"]["cause"])
        self.assertRegex(record["id"], r"^session-\d{13}$")
        self.assertEqual(states(project, record["id"]), ["queued", "running", "found"])
        # The way out, as a person would apply it.
        patch = re.fullmatch(r"git apply (\S+)", record["verdict"]["way_out"])[1]
        seeds.git(project.tree, "apply", patch)
        self.assertEqual((project.tree / "value.txt").read_text(), "good\n")
        seeds.git(project.tree, "checkout", "--quiet", ".")
        repro = os.spawnlp(os.P_WAIT, "sh", "sh", "-c", f"{record['verdict']['repro']} > /dev/null 2>&1")
        self.assertEqual(repro, 3)
        page = Verdict()
        page.feed((pathlib.Path(record["folder"]) / "page.html").read_text())
        page.close()
        self.assertEqual(page.open, [])
        self.assertIn("found", page.texts["verdict"])
        self.assertIn(made.id(bad)[:12], page.texts["facts"])
        self.assertIn("confirmed", page.texts["hypotheses"])
        self.assertIn("spoilt", page.texts["sides"])
        # Private to the user.
        for path in [project.bank(), project.bank() / "store.sqlite", project.bank() / "progress.md"]:
            self.assertEqual(stat.S_IMODE(path.stat().st_mode) & 0o077, 0, path)
        full = project.json("show", record["id"], "--all")[1]
        self.assertEqual(len(full["runs"]), record["scenarios"])
        self.assertIn("PATH", full["environment"])

    def test_a_command_that_passes_is_not_found(self):
        project = self.project(slow_seed)
        status, record = project.json(None, "--", "true")
        self.assertEqual((status, record["state"]), (3, "not-found"))
        self.assertIn("passes", record["verdict"]["summary"])

    def test_a_folder_without_git(self):
        project = self.project()
        (project.tree / "run.sh").write_text("echo \"error: $COLOUR is not a colour\"\nexit ${COLOUR:+1}0\n")
        status, record = project.json(None, "--", "sh", "run.sh", variables={"COLOUR": "loud"})
        self.assertEqual(status, 0, record)
        self.assertEqual(record["verdict"]["kind"], "environment")
        self.assertIn("COLOUR", record["verdict"]["cause"])

    def test_tensors_on_different_devices(self):
        """A recorded failure: the cause, a way out that was tried both ways, and a record."""
        package = pathlib.Path(driver.PROGRAM).parent.parent / "python"
        if not list(package.glob("lathe/_core*.so")):
            self.skipTest("the Python package is not built")
        project = self.project()
        lines = ["from lathe import Tensor", "x = Tensor.ones(4, device='CPU:1').contiguous().realize()", "y = Tensor.ones(4).contiguous().realize()", "assert (x + y).sum().item() == 8"]
        (project.tree / "run.py").write_text("\n".join(lines) + "\n")
        status, record = project.json(None, "--", sys.executable, "run.py", variables={"PYTHONPATH": str(package)})
        self.assertEqual(status, 0, record)
        self.assertEqual(record["verdict"]["kind"], "devices")
        self.assertIn("LATHE_ONE_DEVICE=1", record["verdict"]["way_out"])
        self.assertIn("run.py:4", record["verdict"]["summary"])
        self.assertTrue(record["verdict"]["way_out_verified"])

    def test_paths_of_the_tree_lead_into_the_copies(self):
        """From a folder below, with absolute paths in the command and in the environment, in a worktree of somebody else's."""

        def make(folder):
            seed = seeds.Seed(folder)
            seed.commit("a library", {"lib/value.py": "value = 1\n", "sub/run.py": "import value\nassert value.value == 1, 'wrong value'\n"})
            seed.noise(12)
            bad = seed.commit("another value", {"lib/value.py": "value = 2\n"})
            seed.noise(20)
            return seed.write(), bad

        project = self.project(make)
        made, bad = project.made
        other = project.folder / "other tree"
        seeds.git(project.tree, "worktree", "add", "--quiet", "-b", "branch", str(other))
        before = driver.state_of_tree(project.tree), driver.state_of_tree(other)
        words = project.words(None, "--", "sh", "-c", f"cd .. && python3 '{other}/sub/run.py'", options=["--json"])
        result = subprocess.run(words, cwd=other / "sub", capture_output=True, text=True, env={**os.environ, "PYTHONPATH": f"{other}/lib:/nowhere", "PYTHONDONTWRITEBYTECODE": "1"})
        record = json.loads(result.stdout)
        self.assertEqual(result.returncode, 0, record)
        self.assertIn(made.id(bad)[:12], record["verdict"]["cause"])
        self.assertEqual((driver.state_of_tree(project.tree), driver.state_of_tree(other)), before)
        # One bank for all worktrees of a repository.
        self.assertEqual([s["id"] for s in project.json("list")[1]], [record["id"]])

    def test_large_ignored_files_are_copied_only_where_they_matter(self):
        project = self.project(slow_seed)
        made, bad = project.made
        (project.tree / ".git/info/exclude").write_text("large\n")
        (project.tree / "large").mkdir()
        (project.tree / "large/data").write_bytes(bytes(20 << 20))
        (project.tree / "large/name").write_text("value.txt\n")
        for command, needed in [("./run.sh", False), ("grep -q good $(cat large/name) || { echo error: $(cat large/name); exit 1; }", True)]:
            status, record = project.json(None, "--", "sh", "-c", command)
            self.assertEqual(status, 0, record)
            self.assertIn(made.id(bad)[:12], record["verdict"]["cause"])
            (ignored,) = [h for h in record["hypotheses"] if "git ignores" in h["claim"]]
            self.assertEqual("not copied" in ignored["evidence"], not needed, ignored)

    def test_a_secret_is_not_repeated(self):
        project = self.project()
        (project.tree / "run.sh").write_text("test -z \"$MY_TOKEN\" || { echo error: refused; exit 1; }\n")
        status, record = project.json(None, "--", "sh", "run.sh", variables={"MY_TOKEN": "hush-hush"})
        self.assertEqual(status, 0, record)
        self.assertIn("MY_TOKEN", record["verdict"]["cause"])
        self.assertNotIn("hush-hush", json.dumps(project.json("show", "--all")[1]))

    def test_an_ignored_file_is_guilty(self):
        project = self.project(slow_seed)
        (project.tree / ".git/info/exclude").write_text("*.cache\n")
        (project.tree / "x.cache").write_text("stale\n")
        (project.tree / "y.cache").write_text("fine\n")
        status, record = project.json(None, "--", "sh", "-c", "! grep -l stale *.cache")
        self.assertEqual(status, 0, record)
        self.assertIn("x.cache", record["verdict"]["cause"])
        self.assertNotIn("y.cache", record["verdict"]["cause"])

    def test_hang_crash_and_memory_are_evidence(self):
        project = self.project()
        script = "import sys\nmode = sys.argv[1]\nif mode == 'hang':\n    import time\n    time.sleep(1000)\nif mode == 'crash':\n    import os\n    os.abort()\n"
        script += "x = []\nwhile True:\n    x.append(bytearray(10 << 20))\n"
        (project.tree / "run.py").write_text(script)
        for mode, words, seconds in [("hang", "no end within", 1), ("crash", "Abort", 20), ("memory", "of memory", 20)]:
            status, record = project.json(None, "--budget", "40", "--scenario-seconds", seconds, "--memory-mib", "300", "--", "python3", "run.py", mode)
            self.assertEqual((status, record["state"]), (3, "not-found"), record)
            self.assertIn(words, record["hypotheses"][0]["evidence"])
            self.assertEqual(driver.wait_until_none(record["id"]), [])

    def test_nobody_is_accused_of_what_was_always_so(self):
        def make(folder):
            seed = seeds.Seed(folder)
            flaky = "import random\nassert random.random() < 0.5, 'sometimes'\n"
            seed.commit("a start", {"always.py": "raise SystemExit('error: always')\n", "sometimes.py": flaky})
            seed.noise(33)
            return seed.write()

        project = self.project(make)
        for name in ("always.py", "sometimes.py"):
            status, record = project.json(None, "--", "python3", name)
            self.assertEqual((status, record["state"]), (3, "not-found"), record)
            self.assertEqual((record["verdict"]["kind"], record["verdict"]["way_out"]), ("", ""), record)
            self.assertEqual(any(h["claim"] == "the failure is flaky" for h in record["hypotheses"]), name == "sometimes.py")

    def test_smallest_input(self):
        project = self.project()
        (project.tree / "run.py").write_text("import sys\nfor line in open(sys.argv[1]):\n    assert int(line) != 77, 'seventy-seven'\n")
        (project.tree / "numbers.txt").write_text("".join(f"{i}\n" for i in range(100)))
        _, record = project.json(None, "--", "python3", "run.py", "numbers.txt")
        self.assertTrue(any("1 of 100 lines: 77" in h["evidence"] for h in record["hypotheses"]), record["hypotheses"])

    def test_cancel_ends_everything_at_once(self):
        project = self.project(slow_seed)
        session = project.run("start", "--budget", "100", "--", "sh", "-c", "setsid sleep 300 & sleep 300; exit 1").stdout.strip()
        end = time.monotonic() + 20
        while not driver.marked_processes(session):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)
        self.assertEqual(project.json("show", session)[1]["state"], "running")
        self.assertEqual(project.run("cancel", session).returncode, 0)
        self.assertEqual(driver.wait_until_none(session), [])
        self.assertEqual(project.json("show", session)[1]["state"], "cancelled")
        self.assertEqual(states(project, session)[-1], "cancelled")
        again = project.run("cancel", session)
        self.assertEqual(again.returncode, 2)
        self.assertIn("already", again.stderr)

    def test_interrupted_and_resumed(self):
        project = self.project(slow_seed)
        made, bad = project.made
        process = project.popen(None, "--", "./run.sh")
        session = process.stderr.readline().strip()
        process.stderr.readline()  # the first hypothesis, which can be read along
        self.assertIn("Hypothesis: the command fails in a copy of its tree", (project.bank() / "activeContext.md").read_text())
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
        self.assertEqual(process.returncode, 130)
        self.assertEqual(project.json("show", session)[1]["state"], "queued")
        before = project.json("show", session)[1]["scenarios"]
        status, record = project.json("resume", session)
        self.assertEqual(status, 0, record)
        self.assertIn(made.id(bad)[:12], record["verdict"]["cause"])
        self.assertGreater(before, 0)
        self.assertEqual(states(project, session), ["queued", "running", "queued", "running", "found"])

    def test_kill_9_loses_nothing(self):
        random.seed(options.seed)
        print(f"{options.kills} kills, seed {options.seed}")
        project = self.project(slow_seed)
        made, bad = project.made
        before_tree = driver.state_of_tree(project.tree)
        resumed = parents = 0
        for _ in range(options.kills):
            process = project.popen(None, "--jobs", "2", "--", "./run.sh")
            session = process.stderr.readline().strip()
            self.assertRegex(session, r"^session-\d+$")
            reader = threading.Thread(target=process.communicate, daemon=True)  # a full pipe would stop it
            reader.start()
            time.sleep(random.uniform(0, 2.5))
            if random.random() < 0.5:
                parents += 1
                driver.kill(process.pid)
            else:
                victims = driver.marked_processes(session)
                driver.kill(random.choice(victims) if victims else process.pid)
            reader.join(90)
            self.assertFalse(reader.is_alive())
            self.assertEqual(driver.wait_until_none(session), [], "orphans")
            show = project.run("show", session, options=["--json"])
            record = json.loads(show.stdout)
            with sqlite3.connect(project.bank() / "store.sqlite") as store:
                stored = store.execute("SELECT count(*) FROM scenario WHERE session = ?", (session,)).fetchone()[0]
            if record["state"] != "found":
                resumed += 1
                self.assertTrue(record["interrupted"] or record["state"] in ("queued", "not-found"), record)
                status, record = project.json("resume", session)
                self.assertEqual(status, 0, record)
            self.assertGreaterEqual(record["scenarios"], stored)
            self.assertIn(made.id(bad)[:12], record["verdict"]["cause"])
            self.assertTrue(record["verdict"]["way_out_verified"])
            states(project, session)
        self.assertEqual(driver.state_of_tree(project.tree), before_tree)
        sessions = project.json("list")[1]
        self.assertEqual(len(sessions), options.kills)
        print(f"{parents} times the investigation itself, {resumed} resumed")

    def test_observations_steer(self):
        project = self.project(slow_seed)
        made, bad = project.made
        session = project.run("start", "--", "sh", "-c", "sleep 0.4; ./run.sh").stdout.strip()
        self.assertEqual(project.run("observe", session, "the environment is a red herring, look at value.txt", "--who", "anna").returncode, 0)
        for _ in range(600):
            record = project.json("show", session, "--all")[1]
            if record["state"] in ("found", "not-found", "failed"):
                break
            time.sleep(0.1)
        self.assertEqual(record["state"], "found", record)
        (observation,) = record["observations"]
        self.assertEqual(observation["who"], "anna")
        self.assertIn("path value.txt", observation["effect"])
        self.assertIn("last: environment", observation["effect"])
        self.assertIn(made.id(bad)[:12], record["verdict"]["cause"])
        # The history of that file is asked, so neither the environment nor all commits are.
        self.assertFalse([h for h in record["hypotheses"] if "environment" in h["claim"]], record["hypotheses"])
        progress = project.bank() / "progress.md"  # written once the state is
        for _ in range(100):
            if progress.exists() and "anna" in progress.read_text():
                break
            time.sleep(0.05)
        self.assertIn("anna", progress.read_text())

    def test_the_bank_is_asked_first_and_keeps_notes(self):
        project = self.project(slow_seed)
        first = project.json(None, "--", "./run.sh")[1]
        progress, context = project.bank() / "progress.md", project.bank() / "activeContext.md"
        for page in (progress, context):
            self.assertIn(first["id"], page.read_text())
        self.assertIn("Status: found", progress.read_text())
        lines = progress.read_text().splitlines()
        lines.insert(0, "Our own words at the top.")
        lines.insert(lines.index("Status: found") + 1, "Ben: it was the release script.")
        progress.write_text("\n".join(lines + ["And at the end.", ""]))
        status, second = project.json(None, "--", "./run.sh")
        self.assertEqual(status, 0)
        self.assertIn("Seen before, in " + first["id"], second["verdict"]["summary"])
        self.assertTrue(second["verdict"]["way_out_verified"])
        self.assertLess(second["scenarios"], first["scenarios"])
        self.assertIn(first["id"], second["hypotheses"][1]["claim"], "the known cause comes first")
        text = progress.read_text()
        for note in ["Our own words at the top.", "Ben: it was the release script.", "And at the end."]:
            self.assertEqual(text.count(note), 1, text)
        self.assertIn("Same failure as: " + first["id"], text)
        project.run(None, "--quiet", "--", "./run.sh")
        self.assertEqual(progress.read_text().count("Ben: it was the release script."), 1)
        # Repaired otherwise in the meantime, the known way out does not fit and is said not to.
        (project.tree / "value.txt").write_text("worse\n")
        third = project.json(None, "--", "./run.sh")[1]
        self.assertTrue(any(h["verdict"] == "refuted" and "the cause is that of" in h["claim"] for h in third["hypotheses"]), third)

    def test_words_alone_say_what_is_needed(self):
        project = self.project(slow_seed)
        made, bad = project.made
        status, record = project.json(None, "inner sizes of matmul differ")
        self.assertEqual((status, record["state"]), (4, "needs-input"))
        self.assertIn("resume " + record["id"], record["verdict"]["summary"])
        self.assertTrue(any("matmul" in h["claim"] for h in record["hypotheses"]), record["hypotheses"])
        self.assertTrue(all(h["verdict"] == "unknown" for h in record["hypotheses"]))
        refused = project.run("resume", record["id"])
        self.assertEqual(refused.returncode, 2)
        self.assertIn("needs input", refused.stderr)
        status, record = project.json("resume", record["id"], "--", "./run.sh")
        self.assertEqual(status, 0, record)
        self.assertEqual(states(project, record["id"]), ["queued", "running", "needs-input", "queued", "running", "found"])

    def test_a_command_that_takes_longer_where_it_passes(self):
        """It fails at once, so that runs get five seconds; where it passes it goes on for seven."""

        def make(folder):
            seed = seeds.Seed(folder)
            seed.commit("a price", {"price.py": "def price(n):\n    return n + 1\n"})
            seed.commit("a check", {"check.py": "import time\nfrom price import price\nassert price(1) == 2, 'a wrong price'\ntime.sleep(7)\n"})
            seed.noise(28)
            seed.commit("another price", {"price.py": "def price(n):\n    return n - 1\n"})
            return seed.write()

        project = self.project(make)
        status, record = project.json(None, "--", "python3", "check.py", options=("--budget", "240"))
        self.assertEqual(status, 0, record)
        self.assertEqual(record["verdict"]["kind"], "commit")
        self.assertIn("another price", record["verdict"]["cause"])

    def test_a_program_that_fails_only_where_work_begins_late(self):
        """As one of Lathe would whose queues do not wait for each other."""

        def make(folder):
            seed = seeds.Seed(folder)
            late = '[ -z "$LATHE_DELAY" ] || [ "$LATHE_SERIAL" = 1 ] || { echo "lathe: wrong sum" >&2; exit 1; }\n'
            seed.commit("a program", {"run.sh": '[ -z "$LATHE_SAVE" ] || echo kernel > "$LATHE_SAVE/kernel"\n' + late})
            seed.noise(30)
            return seed.write()

        project = self.project(make)
        status, record = project.json(None, "--", "sh", "run.sh")
        self.assertEqual(status, 0, record)
        self.assertEqual(record["verdict"]["kind"], "wait")
        self.assertEqual(record["verdict"]["way_out"], "LATHE_SERIAL=1")
        self.assertTrue(record["verdict"]["way_out_verified"])
        self.assertTrue(any("LATHE_DELAY" in h["claim"] for h in record["hypotheses"]), record["hypotheses"])

    def test_import_of_prose(self):
        bank = DATA / "memory-bank"
        if not bank.exists():
            self.skipTest(f"{bank} is not there")
        project = self.project(slow_seed)
        for _ in range(2):  # the second replaces the first
            status, imported = project.json("import", bank)
            self.assertEqual(status, 0)
            self.assertEqual((imported["records"], imported["sections"]), (34, 7))
            self.assertEqual(imported["scenarios"], [17, 3, 3, 3, 1, 5, 7])
            self.assertEqual(imported["seconds"], [950, 75, 146, 90, 52, 326, 402])
        with sqlite3.connect(project.bank() / "store.sqlite") as store:
            self.assertEqual(store.execute("SELECT count(*) FROM hint").fetchone(), (41,))
            self.assertEqual(store.execute("SELECT count(*) FROM session").fetchone(), (0,))
        record = project.json(None, "name 'nn' is not defined")[1]
        self.assertTrue(any("hint, untested" in h["evidence"] and h["verdict"] == "unknown" for h in record["hypotheses"]))
        # A hint never counts as a cause.
        (project.tree / "use.py").write_text("print(nn)\n")
        record = project.json(None, "--", "python3", "use.py")[1]
        self.assertFalse(record["verdict"]["way_out_verified"], record["verdict"])
        self.assertTrue(any("hint" in h["claim"] and h["verdict"] == "unknown" for h in record["hypotheses"]), record["hypotheses"])
        refused = project.run("import", project.tree)
        self.assertEqual(refused.returncode, 2)

    def test_the_way_out_must_not_break_other_tests(self):
        project = self.project(slow_seed)
        status, record = project.json(None, "--tests", "grep -q spoilt value.txt", "--", "./run.sh")
        self.assertEqual(status, 3, record)
        self.assertFalse(record["verdict"]["way_out_verified"])
        self.assertIn("breaks other tests", record["verdict"]["summary"])

    def test_an_adviser_proposes_and_may_be_lost(self):
        replies = []

        class Adviser(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                content = asked["messages"][0]["content"]
                text = replies[0](content)
                body = json.dumps({"choices": [{"message": {"content": text}}]}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *words):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Adviser)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/v1"
        project = self.project(slow_seed)
        made, bad = project.made
        secret = {"API_TOKEN": "do-not-tell-anybody"}

        def knows(content):
            self.assertNotIn(secret["API_TOKEN"], content)
            return 'Surely: [{"kind": "pray", "argument": "x"}, {"kind": "revert", "argument": "' + made.id(bad) + '"}]'

        replies.append(knows)
        status, record = project.json(None, "--adviser", url, "--", "./run.sh", variables=secret)
        self.assertEqual(status, 0, record)
        self.assertIn(made.id(bad)[:12], record["verdict"]["cause"])
        self.assertTrue(any(h["claim"].startswith("adviser: commit") for h in record["hypotheses"]))
        events = project.json("show", record["id"], "--all")[1]["events"]
        self.assertTrue(any("pray" in e["text"] and "no such experiment" in e["text"] for e in events), events)
        replies[0] = lambda content: "I do not know."
        for address in (url, "http://127.0.0.1:9"):
            other = self.project(slow_seed)
            status, record = other.json(None, "--adviser", address, "--", "./run.sh")
            self.assertEqual(status, 0, record)
            events = other.json("show", record["id"], "--all")[1]["events"]
            self.assertTrue(any(e["kind"] == "adviser" and "lost" in e["text"] for e in events), events)
        server.shutdown()
        server.server_close()

    def test_wrong_use(self):
        project = self.project(slow_seed)
        for words, text in [((None,), "nothing to investigate"), (("show", "session-1"), "no investigation session-1"), ((None, "wrods", "--", "x"), "is before --"),
                            ((None, "--budget", "-1", "--", "x"), "--budget")]:  # fmt: skip
            result = project.run(*words)
            self.assertEqual(result.returncode, 2, result)
            self.assertIn(text, result.stderr)
        for words in (["investigate"], ["mcp"], *[["investigate", v] for v in ("start", "list", "show", "check", "observe", "cancel", "resume", "import")]):
            text = subprocess.run([driver.PROGRAM, *words, "--help"], capture_output=True, text=True).stdout
            self.assertTrue(text)
            self.assertLessEqual(max(map(len, text.splitlines())), 80, text)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    options = parser.parse_args()
    driver.PROGRAM = os.path.abspath(options.program)
    unittest.main(argv=[sys.argv[0], *(f"Sessions.{n}" for n in options.names)], verbosity=2)
