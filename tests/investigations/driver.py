"""What the tests of `lathe investigate` share: a project with a store of its own, and what is left of processes and trees."""

import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

PROGRAM = None  # path of lathe, set by each test's main
MARK = b"SCENARIO_OF_LATHE="


class Project:
    def __init__(self, make=None):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lathe-investigate-"))
        self.tree = self.folder / "tree"
        self.store = self.folder / "store"
        self.made = make(self.tree) if make else None
        if not make:
            self.tree.mkdir()

    def command(self, *words):
        return [PROGRAM, "investigate", *map(str, words)]

    def words(self, verb, *words, options=()):
        begin = [verb] if verb else []
        return self.command(*begin, *options, "--store", self.store, *words)

    def run(self, verb, *words, options=(), variables=None, timeout=300):
        return subprocess.run(self.words(verb, *words, options=options), cwd=self.tree, capture_output=True, text=True, timeout=timeout,
                              env={**os.environ, **(variables or {})})  # fmt: skip

    def json(self, verb, *words, **more):
        result = self.run(verb, "--json", *words, **more)
        try:
            return result.returncode, json.loads(result.stdout)
        except ValueError:
            raise AssertionError(f"{verb} {words}: status {result.returncode}\n{result.stdout}\n{result.stderr}") from None

    def popen(self, verb, *words, **more):
        return subprocess.Popen(self.words(verb, *words, **more), cwd=self.tree, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def bank(self):
        (folder,) = (self.store / "investigations").iterdir()
        return folder

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)


def state_of_tree(folder):
    """Names, modes, times and bytes of everything below, the repository included; but for the times of objects, which git renews
    when it meets them again."""
    digest = hashlib.sha256()
    for path in sorted(pathlib.Path(folder).rglob("*")):
        info = path.lstat()
        name = str(path.relative_to(folder))
        time = 0 if name.startswith(".git/objects/") and path.is_file() else info.st_mtime_ns
        digest.update(f"{name} {info.st_mode} {info.st_size} {time}\n".encode())
        if path.is_symlink():
            digest.update(os.readlink(path).encode())
        elif path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()


def marked_processes(session):
    """Processes that are scenarios of a session."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if MARK + session.encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def wait_until_none(session, seconds=20):
    end = time.monotonic() + seconds
    while marked_processes(session):
        if time.monotonic() > end:
            return marked_processes(session)
        time.sleep(0.02)
    return []


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def right(made, expected, verdict):
    """Whether a verdict names the guilty commit, line, or whatever else was planted."""
    cause = verdict["cause"]
    if "commit" in expected and made.id(expected["commit"])[:12] in cause:
        return True
    if "place" in expected and expected["place"] in cause:
        return True
    return "kind" in expected and verdict["kind"] == expected["kind"] and expected.get("cause", "") in cause and "place" not in expected
