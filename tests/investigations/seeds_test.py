#!/usr/bin/env python3
"""Repositories with a known mistake in their history: the right commit or line, and not a byte of the user's tree changed.

  tests/investigations/seeds_test.py build/dev/bin/lathe [NAME...]
"""

import argparse
import concurrent.futures
import os
import shutil
import sys
import unittest

import driver
import seeds

NEEDED = {"js": "node", "cpp": "g++"}
only = []


def investigate(make):
    project = driver.Project()
    project.tree.rmdir()
    made, command, expected = make(project.tree)
    before = driver.state_of_tree(project.tree)
    status, record = project.json(None, "--budget", "60", "--jobs", "2", *expected.get("options", []), "--", *command, variables=expected.get("variables"))
    changed = driver.state_of_tree(project.tree) != before
    left = driver.wait_until_none(record["id"])
    project.remove()
    return made, expected, status, record, changed, left


class Seeds(unittest.TestCase):
    def test_right_commit_or_line(self):
        chosen = [m for m in seeds.ALL if not only or m.__name__ in only]
        runnable = [m for m in chosen if shutil.which(NEEDED.get(m.__name__.split("_")[0], "sh"))]
        for make in set(chosen) - set(runnable):
            print(f"skipped: {make.__name__} needs {NEEDED[make.__name__.split('_')[0]]}")
        found = 0
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for make, (made, expected, status, record, changed, left) in zip(runnable, pool.map(investigate, runnable)):
                verdict = record["verdict"]
                good = driver.right(made, expected, verdict)
                found += good
                print(f"{make.__name__:16} {'right' if good else 'WRONG'} {record['seconds']:6.1f} s {record['scenarios']:4} scenarios  {verdict['kind']}: {verdict['cause'][:90]}", flush=True)
                self.assertFalse(changed, f"{make.__name__}: the user's tree was changed")
                self.assertEqual(left, [], f"{make.__name__}: processes are left over")
                if not good:
                    print(record)
                    # Not found is honest; a wrong cause that counts as verified is not.
                    self.assertFalse(verdict["way_out_verified"], f"{make.__name__}: {verdict}")
                elif "commit" in expected:
                    self.assertEqual(status, 0, record)
                    self.assertTrue(verdict["way_out_verified"])
        self.assertGreaterEqual(found, 0.9 * len(runnable))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    driver.PROGRAM = os.path.abspath(arguments.program)
    only = arguments.names
    unittest.main(argv=[sys.argv[0]], verbosity=2)
