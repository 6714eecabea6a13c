#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`peerdma doctor` on the kinds of machines that people have: the table is kinds.py."""

import json
import os
import re
import sys
import tarfile
import unittest

import kinds
import machines
from case import COMMAND, Case, run

CPU_SECONDS = 1.0       # of a run on a machine with 8 GPUs and 16 adapters


def remedies(text):
    """All that the user is asked to do."""
    told = json.loads(text)
    return [f["remedy"] for f in told["findings"] if f["remedy"]] + \
        [w["remedy"] for p in told["paths"] for w in p["ways"] if w["remedy"]]


class Kinds(Case):
    def machine(self, kind):
        m = machines.Machine(self.folder()) if not kind.base else kind.base(self.folder())
        for step in kind.steps:
            step(m)
        return m

    def check(self, kind):
        m = self.machine(kind)
        done = run("doctor", "--all", *kind.args, root=m.path)
        flat = " ".join(done.stdout.split())
        self.assertEqual((done.returncode, done.stderr), (kind.exit, ""), done.stdout)
        self.assertIn(kind.headline, done.stdout.splitlines()[0])
        for word in kind.says:
            self.assertIn(word, flat)
        for word in kind.never + ("  do        \n",):
            self.assertNotIn(word, flat if word.strip() == word else done.stdout)
        told = run("doctor", "--json", *kind.args, root=m.path)
        self.assertEqual(told.returncode, kind.exit)
        for remedy in remedies(told.stdout):
            self.assertNotRegex(remedy, r"from inside" if not kind.virtual else r"on the host\b")
            if kind.virtual:        # what a tenant cannot carry out
                self.assertNotRegex(remedy, r"(?i)\bmove (both|the) device|firmware|BIOS|reseat|slot|riser")

    def test_table(self):
        self.assertEqual({k.kind for k in kinds.KINDS}, set(range(1, 13)))
        for kind in kinds.KINDS:
            self.assertTrue(kind.source, kind.name)

    def test_captured(self):
        """Real machines: what works is not called broken."""
        place = os.path.join(os.path.dirname(__file__), "captured")
        for name in sorted(os.listdir(place)):
            with self.subTest(name), tarfile.open(os.path.join(place, name)) as archive:
                folder = self.folder()
                archive.extractall(folder)      # our own
                done = run("doctor", root=folder)
                self.assertIn(done.returncode, (0, 2), done.stdout)

    @unittest.skipIf(os.environ.get("ASAN_OPTIONS") or os.environ.get("TSAN_OPTIONS") or os.environ.get("MSAN_OPTIONS"),
                     "sanitizers take processor time of their own")
    def test_processor_time(self):
        m = machines.server(self.folder())
        process = os.posix_spawn(COMMAND, [COMMAND, "doctor", "--all", "--root", m.path], dict(os.environ),
                                 file_actions=[(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)])
        _, status, used = os.wait4(process, 0)
        self.assertEqual(os.waitstatus_to_exitcode(status), 0)
        self.assertLess(used.ru_utime + used.ru_stime, CPU_SECONDS)


def add(kind):
    setattr(Kinds, "test_" + re.sub(r"\W", "_", kind.name), lambda self: self.check(kind))


for each in kinds.KINDS:
    add(each)


if __name__ == "__main__":
    sys.exit(unittest.main())
